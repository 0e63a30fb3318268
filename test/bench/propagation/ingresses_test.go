package propagation

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// quiet is how long the operator has written nothing when all is done.
const quiet = 30 * time.Second

// BenchmarkManyIngresses measures what Ingresses cost that the operator serves: from its start until each has a route
// and an address, and until nothing is written any more. Each has a host of its own and a RouteFilter.
func BenchmarkManyIngresses(b *testing.B) {
	server.InstallGatewayAPI(b)
	server.Kubectl(b, "apply", "--server-side", "-f", filepath.Join(testbuild.MustRoot(b), "artifacts", "ingress"))
	const namespaces, ingresses = 200, 2_500
	b.Run(fmt.Sprintf("namespaces=%d/Ingresses=%d", namespaces, ingresses), func(b *testing.B) {
		w := newWorld(b, "ingresses")
		api, err := routesclient.NewForConfig(server.Admin)
		must(b, err)
		w.api = api
		w.createIngressClass(b)
		atOnce(namespaces, func(i int) { w.in(b, i, "users").createService(b, "zero", 0) })
		atOnce(ingresses, func(i int) { createIngress(b, fmt.Sprintf("users-%d", i%namespaces), fmt.Sprintf("host-%d", i)) })

		begin, cpu := time.Now(), server.CPU(b)
		w.startOperator(b, "-ingress-namespace=gateway-ingress")
		w.settleIngresses(b, ingresses)
		b.ReportMetric(time.Since(begin).Seconds(), "s-until-all-have-an-address")
		b.ReportMetric((server.CPU(b) - cpu).Seconds(), "apiserver-CPU-s")
		b.ReportMetric(testenv.CPU(w.operator.PID()).Seconds(), "operator-CPU-s")
		b.ReportMetric(memory(b, w.operator.PID()), "operator-MiB")
		testenv.Eventually(b, 10*time.Minute, "a while without writes", func(context.Context) error {
			since := time.Now()
			time.Sleep(quiet)
			for _, write := range server.Writes(b, operatorUser, since) {
				if write.Resource != "selfsubjectaccessreviews" { // they change nothing
					return fmt.Errorf("the operator wrote %s", write)
				}
			}
			return nil
		})
		b.ReportMetric((time.Since(begin) - quiet).Seconds(), "s-until-the-last-write")
		events := 0
		writes := server.Writes(b, operatorUser, begin)
		for _, write := range writes {
			if write.Resource == "events" {
				events++
			}
		}
		b.ReportMetric(float64(events)/ingresses, "events/Ingress")
		b.ReportMetric(float64(len(writes)-events)/ingresses, "other-writes/Ingress")
		b.ReportMetric(0, "ns/op")
	})
}

// createIngressClass makes the GatewayClass of the Gateways for Ingresses, whose address is that of their Service.
func (w *world) createIngressClass(b *testing.B) {
	b.Helper()
	_, err := w.api.GatewayV1().GatewayClasses().Create(b.Context(), &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gateway"},
		Spec: gatewayv1.GatewayClassSpec{ControllerName: "app.example.com/gateway", ParametersRef: &gatewayv1.ParametersReference{
			Group: "app.example.com", Kind: "GatewayConfig", Name: "small", Namespace: ptr.To(gatewayv1.Namespace("gateway-ingress")),
		}},
	}, metav1.CreateOptions{})
	must(b, err)
	config := &appv1.GatewayConfig{ObjectMeta: metav1.ObjectMeta{Name: "small"}}
	config.Spec.Service = &appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}
	_, err = server.App.AppV1().GatewayConfigs("gateway-ingress").Create(b.Context(), config, metav1.CreateOptions{})
	must(b, err)
}

// createIngress makes an Ingress of one host with a RouteFilter and a note.
func createIngress(b *testing.B, namespace, name string) {
	b.Helper()
	path := networkingv1.HTTPIngressPath{Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
		Service: &networkingv1.IngressServiceBackend{Name: "zero", Port: networkingv1.ServiceBackendPort{Number: 80}},
	}}
	_, err := server.Kube.NetworkingV1().Ingresses(namespace).Create(b.Context(), &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"nginx.ingress.kubernetes.io/limit-rps": "100"}},
		Spec: networkingv1.IngressSpec{IngressClassName: ptr.To("gateway"), Rules: []networkingv1.IngressRule{{
			Host:             name + ".example.com",
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{path}}},
		}}},
	}, metav1.CreateOptions{})
	must(b, err)
}

// settleIngresses waits until as many Ingresses have an address, and a route that is accepted.
func (w *world) settleIngresses(b *testing.B, ingresses int) {
	b.Helper()
	testenv.Eventually(b, 20*time.Minute, "all Ingresses to have an address", func(ctx context.Context) error {
		all, err := server.Kube.NetworkingV1().Ingresses(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		routes, err := w.api.GatewayV1().HTTPRoutes(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: "app.example.com/ingress-class"})
		if err != nil {
			return err
		}
		addresses, accepted := 0, 0
		for i := range all.Items {
			addresses += min(1, len(all.Items[i].Status.LoadBalancer.Ingress))
		}
		for i := range routes.Items {
			for _, parent := range routes.Items[i].Status.Parents {
				if meta.IsStatusConditionTrue(parent.Conditions, string(gatewayv1.RouteConditionAccepted)) {
					accepted++
				}
			}
		}
		if addresses != ingresses || accepted != ingresses {
			return fmt.Errorf("%d have an address, and %d routes are accepted", addresses, accepted)
		}
		return nil
	})
}
