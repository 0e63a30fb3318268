package propagation

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/source/gatewayapi"
	"gateway/test/internal/testenv"
)

// BenchmarkManyNamespaces measures what HTTPRoutes of many namespaces cost, which belong to many Gateways. Each
// namespace has one Service. One Gateway has a pod.
func BenchmarkManyNamespaces(b *testing.B) {
	server.InstallGatewayAPI(b)
	const gateways, namespaces, routes = 50, 500, 10_000
	b.Run(fmt.Sprintf("Gateways=%d/namespaces=%d/HTTPRoutes=%d", gateways, namespaces, routes), func(b *testing.B) {
		w := newWorld(b, "gateway-0")
		api, err := routesclient.NewForConfig(server.Admin)
		must(b, err)
		w.api = api
		w.startOperator(b)
		w.createGateway(b, string(gatewayapi.ControllerName))
		atOnce(gateways-1, func(i int) { w.in(b, i+1, "gateway").createSharedGateway(b, "gateway-0") })
		atOnce(namespaces, func(i int) { w.in(b, i, "team").createService(b, "zero", 0) })

		begin, cpu, operator := time.Now(), server.CPU(b), testenv.CPU(w.operator.PID())
		w.createRoute(b, "probe", probeHost, "/", backendRef("probe", 1))
		atOnce(routes, func(i int) {
			team := i % namespaces
			at := *w
			at.namespace = fmt.Sprintf("team-%d", team)
			at.createRouteOf(b, fmt.Sprintf("gateway-%d", team%gateways), fmt.Sprintf("r%d", i), fmt.Sprintf("host-%d.example.com", i), "/", backendRef("zero", 1))
		})
		created := time.Since(begin)
		w.settleAccepted(b, metav1.NamespaceAll, routes)
		b.ReportMetric(created.Seconds(), "s-to-create")
		b.ReportMetric(time.Since(begin).Seconds(), "s-until-Accepted")
		b.ReportMetric(memory(b, w.operator.PID()), "operator-MiB")
		b.ReportMetric((testenv.CPU(w.operator.PID()) - operator).Seconds(), "operator-CPU-s")
		b.ReportMetric((server.CPU(b) - cpu).Seconds(), "apiserver-CPU-s")
		b.ReportMetric(float64(len(server.Writes(b, operatorUser, begin)))/routes, "operator-writes/route")

		before := watches(b)
		startPod(b, w)
		b.ReportMetric(watches(b)-before, "watches/pod")
		b.ReportMetric(memory(b, w.agent.PID()), "agent-MiB")
		b.ReportMetric(0, "ns/op")
	})
}

// in returns the world with a new namespace.
func (w *world) in(b *testing.B, i int, kind string) *world {
	b.Helper()
	at := *w
	at.namespace = fmt.Sprintf("%s-%d", kind, i)
	_, err := server.Kube.CoreV1().Namespaces().Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: at.namespace}}, metav1.CreateOptions{})
	must(b, err)
	return &at
}

// createSharedGateway makes a Gateway of a class that takes routes of all namespaces.
func (w *world) createSharedGateway(b *testing.B, class string) {
	b.Helper()
	_, err := w.api.GatewayV1().Gateways(w.namespace).Create(b.Context(), &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayName},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: gatewayv1.ObjectName(class), Listeners: []gatewayv1.Listener{{
			Name: "http", Port: w.port, Protocol: gatewayv1.HTTPProtocolType,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
		}}},
	}, metav1.CreateOptions{})
	must(b, err)
}

// settleAccepted waits until as many HTTPRoutes of a namespace, and the probe's, are accepted.
func (w *world) settleAccepted(b *testing.B, namespace string, routes int) {
	b.Helper()
	testenv.Eventually(b, 20*time.Minute, "all routes to be accepted", func(ctx context.Context) error {
		all, err := w.api.GatewayV1().HTTPRoutes(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		accepted := 0
		for i := range all.Items {
			for _, parent := range all.Items[i].Status.Parents {
				if meta.IsStatusConditionTrue(parent.Conditions, string(gatewayv1.RouteConditionAccepted)) &&
					meta.IsStatusConditionTrue(parent.Conditions, string(gatewayv1.RouteConditionResolvedRefs)) {
					accepted++
				}
			}
		}
		if accepted != routes+1 {
			return fmt.Errorf("%d of %d are", accepted, routes+1)
		}
		return nil
	})
}

// watches is how many the API server serves.
func watches(b *testing.B) float64 {
	b.Helper()
	return metric(serverMetrics(b), "apiserver_longrunning_requests", `verb="WATCH"`)
}

// serverMetrics are the API server's.
func serverMetrics(b *testing.B) string {
	b.Helper()
	metrics, err := server.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	must(b, err)
	return string(metrics)
}
