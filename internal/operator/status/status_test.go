package status

import (
	"cmp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

var (
	before = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	now    = time.Date(2026, 1, 1, 12, 5, 0, 987, time.UTC)
)

// newGateway returns generation 7 of Gateway web/shop, two replicas of which are wanted.
func newGateway(mods ...func(*appv1.Gateway)) *appv1.Gateway {
	gateway := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid", Generation: 7},
		Spec:       appv1.GatewaySpec{Replicas: new(int32(2))},
	}
	for _, mod := range mods {
		mod(gateway)
	}
	return gateway
}

func withReplicas(replicas int32) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) { gateway.Spec.Replicas = &replicas }
}

// withRoute adds a route with one rule to the backends.
func withRoute(name string, backends ...appv1.BackendRef) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) {
		gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{
			Name: appv1.Name(name), Rules: []appv1.RouteRule{{BackendRefs: backends}},
		})
	}
}

func to(service string, port int32) appv1.BackendRef {
	return appv1.BackendRef{Name: service, Port: port}
}

// report is what a pod reports.
func report(pod string, generation int64, problems ...appv1.ProxyProblem) *appv1.GatewayProxy {
	return &appv1.GatewayProxy{ObjectMeta: metav1.ObjectMeta{Name: pod}, Status: appv1.GatewayProxyStatus{
		Gateway: appv1.ProxiedGateway{Name: "shop", UID: "uid"}, ObservedGeneration: generation, Problems: problems,
	}}
}

// reporting adds what pods report.
func reporting(observed Observed, reports ...*appv1.GatewayProxy) Observed {
	observed.Reports = reports
	return observed
}

// refused is a generation that a pod could not load, and awaiting one that its successor will.
func refused(generation int64, message string) appv1.ProxyProblem {
	return appv1.ProxyProblem{
		Origin: appv1.ProblemOrigin{Kind: "Gateway", Name: "shop", Generation: generation}, Reason: appv1.ProblemLoadFailed, Message: message,
	}
}

func awaiting(generation int64) appv1.ProxyProblem {
	problem := refused(generation, "it waits for its successor")
	problem.Reason = appv1.ProblemAwaitingReplacement
	return problem
}

// another is a report about another Gateway of the name.
func another(report *appv1.GatewayProxy) *appv1.GatewayProxy {
	report.Status.Gateway.UID = "uid of another"
	return report
}

func withConditions(conditions ...metav1.Condition) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) { gateway.Status.Conditions = conditions }
}

func newService(kind corev1.ServiceType, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{Type: kind, Ports: ports}}
}

func newSlice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{Endpoints: endpoints}
}

func newEndpoint(pod string, ready, terminating *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses:  []string{"10.0.0.1"},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: pod},
		Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating},
	}
}

func ready(pod string) discoveryv1.Endpoint    { return newEndpoint(pod, new(true), new(false)) }
func notReady(pod string) discoveryv1.Endpoint { return newEndpoint(pod, new(false), new(false)) }
func leaving(pod string) discoveryv1.Endpoint  { return newEndpoint(pod, new(false), new(true)) }

func slicesOf(endpoints ...discoveryv1.Endpoint) Observed {
	return Observed{Slices: []*discoveryv1.EndpointSlice{newSlice(endpoints...)}}
}

// failing are pods that cannot be made.
func failing(message string) Pods {
	return Pods{Wanted: 2, Missing: "Deployment shop-gateway: " + message}
}

// wanting is an observation of a Gateway that should have two pods.
func wanting(observed Observed) Observed {
	observed.Pods.Wanted = 2
	return observed
}

// TestComputeWhole writes a whole status out; the other tests look at parts of it.
func TestComputeWhole(t *testing.T) {
	service := newService(corev1.ServiceTypeClusterIP)
	service.Spec.ClusterIPs = []string{"10.96.0.7", "fd00::7"}
	observed := Observed{
		Service: service,
		Pods:    Pods{Existing: 3},
		Slices: []*discoveryv1.EndpointSlice{
			newSlice(ready("b"), ready("a"), notReady("c")),
			newSlice(ready("a"), ready("b")), // the other address family
		},
	}
	observed.Reports = []*appv1.GatewayProxy{report("a", 7), report("b", 7)}
	transition := metav1.NewTime(time.Date(2026, 1, 1, 12, 5, 0, 0, time.UTC))
	want := appv1.GatewayStatus{
		ObservedGeneration: 7,
		Conditions: []metav1.Condition{
			{
				Type: "Accepted", Status: "True", ObservedGeneration: 7, LastTransitionTime: transition,
				Reason: "Accepted", Message: "every route is served",
			},
			{
				Type: "ResolvedRefs", Status: "True", ObservedGeneration: 7, LastTransitionTime: transition,
				Reason: "ResolvedRefs", Message: "everything that is named exists and can be used",
			},
			{
				Type: "Programmed", Status: "True", ObservedGeneration: 7, LastTransitionTime: transition,
				Reason: "Programmed", Message: "2 of 2 ready proxies run generation 7",
			},
			{
				Type: "Ready", Status: "True", ObservedGeneration: 7, LastTransitionTime: transition,
				Reason: "Programmed", Message: "2 of 2 ready proxies run generation 7",
			},
		},
		Addresses: []appv1.GatewayAddress{
			{Type: appv1.AddressTypeIPAddress, Value: "10.96.0.7"}, {Type: appv1.AddressTypeIPAddress, Value: "fd00::7"},
		},
		Replicas:      3,
		ReadyReplicas: 2,
		Selector:      "app.example.com/gateway=shop",
	}
	if got := Compute(newGateway(), observed, now); !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestAccepted(t *testing.T) {
	problem := func(route, message string) model.Problem {
		return model.Problem{RouteKind: "HTTPRoute", Route: route, Reason: model.ReasonNoMatchingListenerHostname, Message: message}
	}
	three := newGateway(withRoute("a"), withRoute("b"), withConnections(appv1.ProtocolTCP, "db", 5432))
	general := model.Problem{Reason: model.ReasonUnusedBackend, Message: "nothing is sent there"}
	expectCondition(t, map[string]conditionTest{
		"without problems it is accepted": {gateway: three, want: "Accepted=True Accepted: every route is served"},
		"a route has a problem": {
			three, Observed{Problems: []model.Problem{problem("a", "one")}},
			"Accepted=False NoMatchingListenerHostname: 1 of 3 routes is not served in full, see status.routes: one",
		},
		"routes are counted, not their problems": {
			three, Observed{Problems: []model.Problem{problem("a", "one"), problem("a", "two"), problem("b", "three")}},
			"Accepted=False NoMatchingListenerHostname: 2 of 3 routes are not served in full, see status.routes: one",
		},
		"routes of one name and two kinds are two": {
			three, Observed{Problems: []model.Problem{problem("a", "one"), {RouteKind: "TCPRoute", Route: "a", Reason: model.ReasonUnsupportedValue}}},
			"Accepted=False NoMatchingListenerHostname: 2 of 3 routes are not served in full, see status.routes: one",
		},
		"the reason is that of the first": {
			three, Observed{Problems: []model.Problem{{Route: "a", Reason: model.ReasonUnsupportedValue, Message: "no expression"}, problem("b", "two")}},
			"Accepted=False UnsupportedValue: 2 of 3 routes are not served in full, see status.routes: no expression",
		},
		"what is about no route follows": {
			three, Observed{Problems: []model.Problem{problem("a", "one"), general}},
			"Accepted=False NoMatchingListenerHostname: 1 of 3 routes is not served in full, see status.routes: one; nothing is sent there",
		},
		"what the administrator forbids comes first": {
			three, Observed{Refused: []string{"the type is not allowed"}, Problems: []model.Problem{problem("a", "one")}},
			"Accepted=False NotAllowed: the type is not allowed; 1 of 3 routes is not served in full, see status.routes: one",
		},
	})
}

func TestResolvedRefs(t *testing.T) {
	backends := map[string]*corev1.Service{
		"api": newService(corev1.ServiceTypeClusterIP,
			corev1.ServicePort{Port: 8080}, corev1.ServicePort{Port: 53, Protocol: corev1.ProtocolUDP}),
		"elsewhere": newService(corev1.ServiceTypeExternalName, corev1.ServicePort{Port: 8080}),
		"web-gateway": {Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app.example.com/gateway": "web"},
		}},
	}
	all := newService(corev1.ServiceTypeLoadBalancer, corev1.ServicePort{Port: 80, Protocol: corev1.ProtocolTCP})
	expectCondition(t, map[string]conditionTest{
		"nothing is named, so nothing is missing": {
			gateway: newGateway(withRoute("empty")),
			want:    "ResolvedRefs=True ResolvedRefs: everything that is named exists and can be used",
		},
		"a port without a protocol is TCP": {
			gateway: newGateway(withRoute("shop", to("api", 8080))), observed: Observed{Backends: backends},
			want: "ResolvedRefs=True ResolvedRefs: everything that is named exists and can be used",
		},
		"any type of Service with endpoints will do": {
			gateway:  newGateway(withRoute("shop", to("all", 80))),
			observed: Observed{Backends: map[string]*corev1.Service{"all": all}},
			want:     "ResolvedRefs=True ResolvedRefs: everything that is named exists and can be used",
		},
		"a Service is missing": {
			gateway: newGateway(withRoute("shop", to("cart", 80))), observed: Observed{Backends: backends},
			want: `ResolvedRefs=False BackendNotFound: route "shop": Service web/cart does not exist: create it or change the route`,
		},
		"a port is missing": {
			gateway: newGateway(withRoute("shop", to("api", 80))), observed: Observed{Backends: backends},
			want: `ResolvedRefs=False PortNotFound: route "shop": Service web/api has no TCP port 80: add it or change the route`,
		},
		"a UDP port is none": {
			gateway: newGateway(withRoute("shop", to("api", 53))), observed: Observed{Backends: backends},
			want: `ResolvedRefs=False PortNotFound: route "shop": Service web/api has no TCP port 53: add it or change the route`,
		},
		"an ExternalName is refused, whatever its ports": {
			gateway: newGateway(withRoute("shop", to("elsewhere", 8080))), observed: Observed{Backends: backends},
			want: `ResolvedRefs=False UnsupportedBackend: route "shop": Service web/elsewhere is of type ExternalName, ` +
				`which is refused: use a Service with endpoints`,
		},
		"a Service of proxies is refused": {
			gateway: newGateway(withRoute("shop", to("web-gateway", 80))), observed: Observed{Backends: backends},
			want: `ResolvedRefs=False UnsupportedBackend: route "shop": Service web/web-gateway selects the proxies of a Gateway, ` +
				`so that requests would go in a loop: use a Service of your application`,
		},
		"each problem of a route is told once, and the reason is the first one's": {
			gateway: newGateway(
				withRoute("shop", to("api", 8080), to("api", 80), to("api", 80)), withRoute("cart", to("cart", 80))),
			observed: Observed{Backends: backends},
			want: `ResolvedRefs=False PortNotFound: route "shop": Service web/api has no TCP port 80: add it or change the route; ` +
				`route "cart": Service web/cart does not exist: create it or change the route`,
		},
		"weight zero is no excuse": {
			gateway: newGateway(withRoute("shop", appv1.BackendRef{Name: "cart", Port: 80, Weight: new(int32(0))})),
			want:    `ResolvedRefs=False BackendNotFound: route "shop": Service web/cart does not exist: create it or change the route`,
		},
	})
}

func TestProgrammed(t *testing.T) { //nolint:funlen // a flat table
	pending := newService(corev1.ServiceTypeLoadBalancer)
	balanced := func(ip string) *corev1.Service {
		service := newService(corev1.ServiceTypeLoadBalancer)
		service.Name, service.Status.LoadBalancer.Ingress = "shop-gateway", []corev1.LoadBalancerIngress{{IP: ip}}
		return service
	}
	pending.Name, pending.Spec.ClusterIPs = "shop-gateway", []string{"10.96.0.7"}
	expectCondition(t, map[string]conditionTest{
		"no endpoint at all": {
			observed: wanting(Observed{}),
			want:     "Programmed=False NoReadyProxies: 0 of 2 proxies are ready",
		},
		"none is ready, and one says why": {
			observed: reporting(wanting(slicesOf(notReady("a"), leaving("old"))), report("a", 0, refused(7, "no such file")), report("old", 3, refused(7, "irrelevant"))),
			want:     "Programmed=False NoReadyProxies: 0 of 2 proxies are ready; pod a: no such file",
		},
		"none is ready, and one that has nothing to say, and one on its way out, come before the one that says why": {
			observed: reporting(wanting(slicesOf(notReady("a"), notReady("b"), leaving("old"))), report("old", 3, refused(7, "irrelevant")), report("a", 0), report("b", 0, refused(7, "no such file"))),
			want:     "Programmed=False NoReadyProxies: 0 of 2 proxies are ready; pod b: no such file",
		},
		"none is wanted": {
			observed: Observed{Pods: Pods{Missing: "spec.replicas is 0"}},
			want:     "Programmed=False NoReadyProxies: 0 of 0 proxies are ready; spec.replicas is 0",
		},
		"a ready proxy has not reported": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("a", 7)),
			want:     "Programmed=False Pending: 1 of 2 ready proxies run generation 7",
		},
		"a ready proxy runs an older generation": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("a", 6), report("b", 7)),
			want:     "Programmed=False Pending: 1 of 2 ready proxies run generation 7",
		},
		"a ready proxy could not load it": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("a", 6, refused(7, "too big")), report("b", 7)),
			want:     "Programmed=False LoadFailed: 1 of 2 ready proxies run generation 7; pod a: too big",
		},
		"a ready proxy does not mount a Secret and is about to be replaced": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("a", 6, awaiting(7)), report("b", 7)),
			want:     "Programmed=False Pending: 1 of 2 ready proxies run generation 7; pod a: it waits for its successor",
		},
		"of two failures, the first is told": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("b", 6, refused(7, "too small")), report("a", 6, refused(7, "too big"))),
			want:     "Programmed=False LoadFailed: 0 of 2 ready proxies run generation 7; pod a: too big",
		},
		"a failure counts for more than a wait": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("a", 6, awaiting(7)), report("b", 6, refused(7, "too big"))),
			want:     "Programmed=False LoadFailed: 0 of 2 ready proxies run generation 7; pod b: too big",
		},
		"a ready proxy could not load the generation before, and has yet to try this one": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("a", 5, refused(6, "too big")), report("b", 7)),
			want:     "Programmed=False Pending: 1 of 2 ready proxies run generation 7; pod a: generation 6: too big",
		},
		"a ready proxy could not load this generation, and says so": {
			observed: reporting(slicesOf(ready("a"), ready("b")), report("a", 5, refused(7, "too big")), report("b", 5, refused(6, "too big"))),
			want:     "Programmed=False LoadFailed: 0 of 2 ready proxies run generation 7; pod a: too big",
		},
		"what a proxy said before it loaded this generation does not matter": {
			observed: reporting(slicesOf(ready("a")), report("a", 7, refused(7, "old news"))),
			want:     "Programmed=True Programmed: 1 of 1 ready proxies run generation 7",
		},
		"none is ready, and no pod can be made": {
			observed: Observed{Pods: failing("exceeded quota: pods")},
			want:     "Programmed=False NoReadyProxies: 0 of 2 proxies are ready; Deployment shop-gateway: exceeded quota: pods",
		},
		"a ready proxy is about to be replaced, but its successor cannot be made": {
			observed: Observed{
				Reports: []*appv1.GatewayProxy{report("a", 6, awaiting(7))},
				Slices:  []*discoveryv1.EndpointSlice{newSlice(ready("a"))}, Pods: failing("exceeded quota: pods"),
			},
			want: "Programmed=False Pending: 0 of 1 ready proxies run generation 7; pod a: it waits for its successor; Deployment shop-gateway: exceeded quota: pods",
		},
		"a proxy may become ready with an older generation, and its successor cannot be made": {
			observed: Observed{
				Reports: []*appv1.GatewayProxy{report("a", 7), report("b", 6)},
				Slices:  []*discoveryv1.EndpointSlice{newSlice(ready("a"), notReady("b"))}, Pods: failing("exceeded quota: pods"),
			},
			want: "Programmed=False Pending: 1 of 1 ready proxies run generation 7; pod b, which is not ready, runs generation 6; " +
				"Deployment shop-gateway: exceeded quota: pods",
		},
		"proxies that receive no traffic do not count": {
			observed: reporting(slicesOf(ready("a"), leaving("c"), notReady("d")), report("a", 7), report("c", 5), report("gone", 5)),
			want:     "Programmed=True Programmed: 1 of 1 ready proxies run generation 7",
		},
		"a proxy that may become ready at any moment counts": {
			observed: reporting(slicesOf(ready("a"), notReady("b")), report("a", 7), report("b", 6, refused(7, "it waits"))),
			want:     "Programmed=False Pending: 1 of 1 ready proxies run generation 7; pod b, which is not ready, runs generation 6: it waits",
		},
		"a proxy that is not ready and runs this generation is nothing to wait for": {
			observed: reporting(slicesOf(ready("a"), notReady("b")), report("a", 7), report("b", 7)),
			want:     "Programmed=True Programmed: 1 of 1 ready proxies run generation 7",
		},
		"a report about another Gateway of the name does not count": {
			observed: reporting(slicesOf(ready("a")), another(report("a", 7))),
			want:     "Programmed=False Pending: 0 of 1 ready proxies run generation 7",
		},
		"nor may its pod become ready": {
			observed: reporting(slicesOf(ready("a"), notReady("b")), report("a", 7), another(report("b", 7))),
			want:     "Programmed=False Pending: 1 of 1 ready proxies run generation 7; pod b, which is not ready, runs generation 0",
		},
		"an endpoint that does not say counts as ready": {
			observed: reporting(slicesOf(newEndpoint("a", nil, nil)), report("a", 6)),
			want:     "Programmed=False Pending: 0 of 1 ready proxies run generation 7",
		},
		"an endpoint that is no pod receives traffic too": {
			observed: slicesOf(discoveryv1.Endpoint{Addresses: []string{"10.9.9.9"}}),
			want:     "Programmed=False Pending: 0 of 1 ready proxies run generation 7",
		},
		"the load balancer has no address yet": {
			observed: reporting(Observed{Service: pending, Slices: []*discoveryv1.EndpointSlice{newSlice(ready("a"))}}, report("a", 7)),
			want: "Programmed=True AddressNotAssigned: 1 of 1 ready proxies run generation 7; the load balancer of Service shop-gateway " +
				"has no address yet: if it stays so, look at the events of the Service, or set another spec.service.type",
		},
		"the load balancer has another address than the Gateway asks for": {
			gateway:  newGateway(func(g *appv1.Gateway) { g.Spec.Service.Address = "2001:DB8::1" }),
			observed: reporting(Observed{Service: balanced("2001:db8::2"), Slices: []*discoveryv1.EndpointSlice{newSlice(ready("a"))}}, report("a", 7)),
			want: "Programmed=True AddressNotAssigned: 1 of 1 ready proxies run generation 7; Service shop-gateway does not have the address " +
				"2001:DB8::1 yet: if it stays so, look at the events of the Service, or set another spec.service.address",
		},
		"the load balancer has the address that the Gateway asks for": {
			gateway:  newGateway(func(g *appv1.Gateway) { g.Spec.Service.Address = "2001:DB8::1" }),
			observed: reporting(Observed{Service: balanced("2001:db8::1"), Slices: []*discoveryv1.EndpointSlice{newSlice(ready("a"))}}, report("a", 7)),
			want:     "Programmed=True Programmed: 1 of 1 ready proxies run generation 7",
		},
		"what keeps proxies from running it comes before that": {
			observed: reporting(Observed{Service: pending, Slices: []*discoveryv1.EndpointSlice{newSlice(ready("a"))}}, report("a", 6)),
			want:     "Programmed=False Pending: 0 of 1 ready proxies run generation 7",
		},
		"a child that cannot be made comes first": {
			observed: Observed{
				Reports: []*appv1.GatewayProxy{report("a", 7)},
				Slices:  []*discoveryv1.EndpointSlice{newSlice(ready("a"))},
				Failure: &ChildFailure{Reason: ReasonChildNotOwned, Message: "Service web/shop-gateway exists"},
			},
			want: "Programmed=False ChildNotOwned: Service web/shop-gateway exists",
		},
	})
}

type conditionTest struct {
	// gateway is nil for newGateway().
	gateway  *appv1.Gateway
	observed Observed
	// want is the condition, as "Type=Status Reason: Message".
	want string
}

func expectCondition(t *testing.T, tests map[string]conditionTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			kind, _, _ := strings.Cut(test.want, "=")
			c := meta.FindStatusCondition(Compute(cmp.Or(test.gateway, newGateway()), test.observed, now).Conditions, kind)
			if got := c.Type + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message; got != test.want {
				t.Errorf("\ngot  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestTransitionTimes(t *testing.T) {
	accepted := func(status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{
			Type: "Accepted", Status: status, ObservedGeneration: 6, Reason: "Before", Message: "before",
			LastTransitionTime: metav1.NewTime(before),
		}
	}
	tests := map[string]struct {
		gateway *appv1.Gateway
		want    time.Time
	}{
		"a new condition dates from now, in whole seconds": {newGateway(), now.Truncate(time.Second)},
		"a changed status dates from now":                  {newGateway(withConditions(accepted("False"))), now.Truncate(time.Second)},
		"a new reason and message do not change the date":  {newGateway(withConditions(accepted("True"))), before},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := meta.FindStatusCondition(Compute(test.gateway, Observed{}, now).Conditions, "Accepted")
			if !c.LastTransitionTime.Time.Equal(test.want) {
				t.Errorf("last transition at %v, want %v", c.LastTransitionTime, test.want)
			}
			if c.ObservedGeneration != 7 || c.Reason != "Accepted" {
				t.Errorf("got generation %d and reason %s, want 7 and Accepted", c.ObservedGeneration, c.Reason)
			}
		})
	}
}
