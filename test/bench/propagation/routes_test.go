package propagation

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// operatorUser is who the operator is to the API server.
const operatorUser = "system:serviceaccount:gateway-system:gateway-operator"

// BenchmarkRoutes measures changes among many HTTPRoutes, as BenchmarkPropagation does those of one large object.
// Operator, agent and HAProxy run, with the permissions that they have in a cluster. Every route has a hostname and a
// Service of its own, with five endpoints.
func BenchmarkRoutes(b *testing.B) {
	server.InstallGatewayAPI(b)
	for _, routes := range []int{3000} {
		b.Run(fmt.Sprintf("HTTPRoutes=%d", routes), func(b *testing.B) {
			w := newRoutesWorld(b, own(""), routes)
			for _, churn := range []bool{false, true} {
				for _, edit := range routeEdits {
					b.Run(fmt.Sprintf("churn=%v/%s", churn, edit.name), func(b *testing.B) { measure(b, w, edit, churn) })
				}
			}
		})
	}
}

// BenchmarkManyRoutes measures how long many HTTPRoutes take from nothing until all are created, which the operator's
// writes slow down, and until all are Programmed, and what for.
func BenchmarkManyRoutes(b *testing.B) {
	server.InstallGatewayAPI(b)
	for _, routes := range []int{5000} {
		b.Run(fmt.Sprintf("HTTPRoutes=%d", routes), func(b *testing.B) {
			begin := time.Now()
			w := newRoutesWorld(b, own(""), routes)
			b.ReportMetric(w.created.Seconds(), "s-until-created")
			b.ReportMetric(w.programmed.Seconds(), "s-until-Programmed")
			b.ReportMetric(server.CPU(b).Seconds(), "apiserver-s")
			b.ReportMetric(float64(len(server.Writes(b, operatorUser, begin)))/float64(routes), "operator-writes/route")
			b.ReportMetric(memory(b, w.operator.PID()), "operator-MiB")
			b.ReportMetric(memory(b, w.agent.PID()), "agent-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// newRoutesWorld returns one whose Gateway is of the Gateway API and the subject's.
func newRoutesWorld(b *testing.B, s subject, routes int) *world {
	b.Helper()
	w := newWorld(b, fmt.Sprintf("%s-%d", s.name, routes))
	api, err := routesclient.NewForConfig(server.Admin)
	must(b, err)
	w.api = api
	w.createService(b, "zero", 0)
	w.createService(b, "one", 1)
	for i := range newServices {
		w.newServices = append(w.newServices, fmt.Sprintf("new-%d", i))
	}
	w.createServices(b, 1, w.newServices...)
	atOnce(routes, func(i int) { w.createServiceWith(b, w.distantSlice(i)) })
	b.Cleanup(func() { w.clear(b) })
	testbuild.Program(b, "cmd/gateway-agent") // it is not built while the time is taken
	s.startControl(b, w)
	w.createGateway(b, s.controller)
	w.createRoute(b, "probe", probeHost, "/", backendRef("probe", 1))
	w.createRoute(b, "split", splitHost, "/", backendRef("zero", 1), backendRef("one", 0))
	w.createRoute(b, "rule", ruleHost, "/rule-0", backendRef("zero", 1))
	w.createRoute(b, "churn", "churn.example.com", "/", backendRef("zero", 1))
	s.startProxy(b, w)
	begin := time.Now()
	atOnce(routes, func(i int) {
		w.createRoute(b, distant(i), fmt.Sprintf("host-%d.example.com", i), "/", backendRef(distant(i), 1))
	})
	w.created = time.Since(begin)
	s.settle(b, w)
	w.programmed = time.Since(begin)
	return w
}

func (w *world) startOperator(b *testing.B, flags ...string) {
	b.Helper()
	server.Kubectl(b, "apply", "--server-side", "-f", filepath.Join(cmp.Or(w.build, testbuild.MustRoot(b)), "artifacts", "rbac"))
	token, err := server.Kube.CoreV1().ServiceAccounts("gateway-system").CreateToken(b.Context(), "gateway-operator",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](36000)}}, metav1.CreateOptions{})
	must(b, err)
	w.operator = testenv.Start(b, nil, w.program(b, "."), append([]string{
		"-kubeconfig=" + server.TokenKubeconfig(b, token.Status.Token), "-logtostderr", "-health-address=127.0.0.1:0", "-leader-elect=false",
	}, flags...)...)
}

func (w *world) createGateway(b *testing.B, controller string) {
	b.Helper()
	_, err := w.api.GatewayV1().GatewayClasses().Create(b.Context(), &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayv1.GatewayController(controller)},
	}, metav1.CreateOptions{})
	must(b, err)
	w.createSharedGateway(b, w.namespace)
}

// startPod runs the only proxy pod: its agent, with the pod's token, and HAProxy.
func startPod(b *testing.B, w *world) {
	b.Helper()
	testenv.Eventually(b, soon, "the agents' permissions", func(ctx context.Context) error {
		_, err := server.Kube.RbacV1().RoleBindings(w.namespace).Get(ctx, proxypod.ChildName(gatewayName), metav1.GetOptions{})
		return err
	})
	pod := server.NewPod(b, w.namespace, gatewayName, "pod")
	w.startAgent(b, pod.Env, server.TokenKubeconfig(b, pod.Token))
}

// settleRoutes waits until all HTTPRoutes are Programmed.
func settleRoutes(b *testing.B, w *world) {
	b.Helper()
	testenv.Eventually(b, 10*time.Minute, "all routes to be Programmed", func(ctx context.Context) error {
		routes, err := w.api.GatewayV1().HTTPRoutes(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range routes.Items {
			if err := isProgrammed(&routes.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func isProgrammed(route *gatewayv1.HTTPRoute) error {
	for _, parent := range route.Status.Parents {
		c := meta.FindStatusCondition(parent.Conditions, "Programmed")
		if c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == route.Generation {
			return nil
		}
	}
	return fmt.Errorf("HTTPRoute %s is not Programmed: %+v", route.Name, route.Status)
}

// routeEdits are the same as edits, of HTTPRoutes.
var routeEdits = []edit{
	{"endpoint", nil, edits[0].do, nothing, 10},
	{"weight", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		w.patchRoute(b, "split", fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/backendRefs/0/weight","value":%d},
			{"op":"replace","path":"/spec/rules/0/backendRefs/1/weight","value":%d}]`, 1-w.turn%2, w.turn%2))
		return effect{splitHost, "/", answers[w.turn%2]}
	}, nothing, 10},
	{"rule", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		path := fmt.Sprintf("/rule-%d", w.turn)
		w.patchRoute(b, "rule", fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/matches/0/path/value","value":%q}]`, path))
		return effect{ruleHost, path, answers[0]}
	}, nothing, 10},
	{"route-to-known-Service", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		path := fmt.Sprintf("/route-%d", w.turn)
		w.createRoute(b, "added", ruleHost, path, backendRef("zero", 1))
		return effect{ruleHost, path, answers[0]}
	}, deleteAdded, 10},
	{"route-to-new-Service", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		path := fmt.Sprintf("/service-%d", w.turn)
		w.createRoute(b, "added", ruleHost, path, backendRef(w.newServices[0], 1))
		w.newServices = w.newServices[1:]
		return effect{ruleHost, path, answers[1]}
	}, deleteAdded, 10},
	{"new-hostname", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		host := fmt.Sprintf("new-%d.example.com", w.turn)
		w.createRoute(b, "added", host, "/", backendRef("zero", 1))
		return effect{host, "/", answers[0]}
	}, deleteAdded, 10},
	{"deleted-route", func(b *testing.B, w *world) {
		b.Helper()
		w.turn++
		w.createRoute(b, "added", ruleHost, fmt.Sprintf("/deleted-%d", w.turn), backendRef("zero", 1))
		w.await(b, effect{ruleHost, fmt.Sprintf("/deleted-%d", w.turn), answers[0]})
		w.settle(b)
	}, func(b *testing.B, w *world) effect {
		b.Helper()
		w.deleteRoute(b, "added")
		return effect{ruleHost, fmt.Sprintf("/deleted-%d", w.turn), notFound}
	}, nothing, 10},
}

// notFound is the answer where no route takes a request.
const notFound = "404 Not Found"

// deleteAdded deletes the route that was created, and waits until that is live.
func deleteAdded(b *testing.B, w *world) {
	b.Helper()
	w.deleteRoute(b, "added")
	w.await(b, effect{ruleHost, fmt.Sprintf("/route-%d", w.turn), notFound})
	w.await(b, effect{ruleHost, fmt.Sprintf("/service-%d", w.turn), notFound})
	w.await(b, effect{fmt.Sprintf("new-%d.example.com", w.turn), "/", notFound})
}

func backendRef(name string, weight int32) gatewayv1.HTTPBackendRef {
	return gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(name), Port: ptr.To[gatewayv1.PortNumber](80)}, Weight: &weight,
	}}
}

func (w *world) createRoute(b *testing.B, name, host, path string, backends ...gatewayv1.HTTPBackendRef) {
	b.Helper()
	w.createRouteOf(b, w.namespace, name, host, path, backends...)
}

// createRouteOf creates a route of a Gateway in another namespace.
func (w *world) createRouteOf(b *testing.B, namespace, name, host, path string, backends ...gatewayv1.HTTPBackendRef) {
	b.Helper()
	_, err := w.api.GatewayV1().HTTPRoutes(w.namespace).Create(b.Context(), w.routeOf(namespace, name, host, path, backends...), metav1.CreateOptions{})
	must(b, err)
}

func (w *world) routeOf(namespace, name, host, path string, backends ...gatewayv1.HTTPBackendRef) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Name: gatewayName, Namespace: ptr.To(gatewayv1.Namespace(namespace))}}},
			Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(host)},
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches:     []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: &path}}},
				BackendRefs: backends,
			}},
		},
	}
}

func (w *world) patchRoute(b *testing.B, name, patch string) {
	b.Helper()
	_, err := w.api.GatewayV1().HTTPRoutes(w.namespace).Patch(b.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	must(b, err)
}

func (w *world) deleteRoute(b *testing.B, name string) {
	b.Helper()
	err := w.api.GatewayV1().HTTPRoutes(w.namespace).Delete(b.Context(), name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		must(b, err)
	}
}

// settleEdited waits until the HTTPRoutes that are edited are Programmed. It watches them, so that the API server's CPU
// time is that of edits and statuses.
func (w *world) settleEdited(b *testing.B) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), soon)
	defer cancel()
	routes := w.api.GatewayV1().HTTPRoutes(w.namespace)
	for _, name := range []string{"split", "rule", "added"} {
		route, err := routes.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		must(b, err)
		if isProgrammed(route) == nil {
			continue
		}
		named := cache.NewListWatchFromClient(w.api.GatewayV1().RESTClient(), "httproutes", w.namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, name))
		_, err = watchtools.Until(ctx, route.ResourceVersion, named, func(e watch.Event) (bool, error) {
			route, _ := e.Object.(*gatewayv1.HTTPRoute)
			return route != nil && isProgrammed(route) == nil, nil
		})
		must(b, err)
	}
}
