package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

func TestChanged(t *testing.T) {
	observed := slicesOf(ready("a"))
	foreign := metav1.Condition{Type: "example.com/Audited", Status: "True"}
	tests := map[string]struct {
		change func(live *appv1.GatewayStatus)
		want   bool
	}{
		"nothing": {func(*appv1.GatewayStatus) {}, false},
		"someone else's condition": {func(live *appv1.GatewayStatus) {
			live.Conditions = append([]metav1.Condition{foreign}, live.Conditions...)
		}, false},
		"the order of conditions": {func(live *appv1.GatewayStatus) { slices.Reverse(live.Conditions) }, false},
		"a proxy's report": {func(live *appv1.GatewayStatus) {
			live.Proxies = append(live.Proxies, appv1.ProxyStatus{Pod: "b"})
		}, false},
		"a missing condition":   {func(live *appv1.GatewayStatus) { live.Conditions = live.Conditions[1:] }, true},
		"a message":             {func(live *appv1.GatewayStatus) { live.Conditions[0].Message = "" }, true},
		"the selector":          {func(live *appv1.GatewayStatus) { live.Selector = "" }, true},
		"an address":            {func(live *appv1.GatewayStatus) { live.Addresses = []appv1.GatewayAddress{{}} }, true},
		"the generation":        {func(live *appv1.GatewayStatus) { live.ObservedGeneration-- }, true},
		"the number of pods":    {func(live *appv1.GatewayStatus) { live.Replicas++ }, true},
		"the number of proxies": {func(live *appv1.GatewayStatus) { live.ReadyReplicas++ }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gateway := newGateway(reporting("a", 7, ""))
			proxies := gateway.Status.Proxies
			gateway.Status = Compute(gateway, observed, before)
			gateway.Status.Proxies = proxies
			test.change(&gateway.Status)
			if got := Changed(gateway, Compute(gateway, observed, now)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestUnderway(t *testing.T) {
	both := slicesOf(ready("a"), ready("b"))
	tests := map[string]struct {
		// change is what happens to a Gateway whose proxies ran generation 6, and its new one.
		change   func(gateway *appv1.Gateway)
		observed Observed
		want     bool
	}{
		"no proxy has loaded it": {func(*appv1.Gateway) {}, both, true},
		"one of them has":        {func(gateway *appv1.Gateway) { gateway.Status.Proxies[0].ObservedGeneration = 7 }, both, true},
		"both have": {func(gateway *appv1.Gateway) {
			gateway.Status.Proxies = []appv1.ProxyStatus{{Pod: "a", ObservedGeneration: 7}, {Pod: "b", ObservedGeneration: 7}}
		}, both, false},
		"one of them refuses":      {func(gateway *appv1.Gateway) { gateway.Status.Proxies[0].Message = "no" }, both, false},
		"one of them is not ready": {func(*appv1.Gateway) {}, slicesOf(ready("a")), false},
		"the route is refused":     {withRoute("shop", to("api", 80)), both, false},
		"the same generation":      {func(gateway *appv1.Gateway) { gateway.Generation = 6; gateway.Status.Proxies[0].ObservedGeneration = 5 }, both, false},
		"one was underway before": {func(gateway *appv1.Gateway) {
			meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed).Reason = ReasonPending
		}, both, true},
		"one was refused before": {func(gateway *appv1.Gateway) {
			c := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
			c.Status, c.Reason = metav1.ConditionFalse, ReasonLoadFailed
		}, both, false},
		"there was no address before": {func(gateway *appv1.Gateway) {
			meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed).Reason = ReasonAddressNotAssigned
		}, both, true},
		"it is new":                   {func(gateway *appv1.Gateway) { gateway.Status.Conditions = nil }, both, false},
		"somebody removed the others": {func(gateway *appv1.Gateway) { gateway.Status.Conditions = gateway.Status.Conditions[2:] }, both, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gateway := newGateway(reporting("a", 6, ""), reporting("b", 6, ""))
			gateway.Generation = 6
			proxies := gateway.Status.Proxies
			gateway.Status = Compute(gateway, both, before)
			gateway.Status.Proxies, gateway.Generation = proxies, 7
			test.change(gateway)
			computed := Compute(gateway, test.observed, now)
			want := *computed.DeepCopy()
			if got := Underway(gateway, computed); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if !equality.Semantic.DeepEqual(computed, want) {
				t.Errorf("it has changed the status to %+v", computed)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	missing := newGateway(withRoute("shop", to("api", 80)))
	told := newGateway(withRoute("shop", to("api", 80)))
	told.Status = Compute(told, Observed{}, before)
	more := told.DeepCopy()
	withRoute("cart", to("cart", 80))(more)
	tests := map[string]struct {
		gateway  *appv1.Gateway
		observed Observed
		want     []string
	}{
		"on the way to being programmed, nothing is wrong": {newGateway(), Observed{}, nil},
		"nor until the load balancer has an address": {
			newGateway(reporting("a", 7, "")),
			Observed{Service: newService(corev1.ServiceTypeLoadBalancer), Slices: []*discoveryv1.EndpointSlice{newSlice(ready("a"))}}, nil,
		},
		"a missing Service is": {missing, Observed{}, []string{"BackendNotFound"}},
		"but it is told once":  {told, Observed{}, nil},
		"until it is another problem": {
			told, Observed{Backends: map[string]*corev1.Service{"api": newService(corev1.ServiceTypeClusterIP)}}, []string{"PortNotFound"},
		},
		"or there is more to say": {more, Observed{}, []string{"BackendNotFound"}},
		"several are told in order": {
			missing, Observed{Failure: &ChildFailure{Reason: ReasonApplyFailed, Message: "quota"}},
			[]string{"BackendNotFound", "ApplyFailed"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, warning := range Warnings(test.gateway, Compute(test.gateway, test.observed, now)) {
				got = append(got, warning.Reason)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	balanced := func(ingress ...corev1.LoadBalancerIngress) *corev1.Service {
		service := newService(corev1.ServiceTypeLoadBalancer)
		service.Spec.ClusterIPs = []string{"10.96.0.7"}
		service.Status.LoadBalancer.Ingress = ingress
		return service
	}
	headless := newService(corev1.ServiceTypeClusterIP)
	headless.Spec.ClusterIPs = []string{corev1.ClusterIPNone}
	leftOver := balanced(corev1.LoadBalancerIngress{IP: "192.0.2.1"})
	leftOver.Spec.Type = corev1.ServiceTypeClusterIP
	tests := map[string]struct {
		service *corev1.Service
		want    string
	}{
		"no Service":                {nil, "[]"},
		"a load balancer to come":   {balanced(), "[]"},
		"a load balancer's address": {balanced(corev1.LoadBalancerIngress{IP: "192.0.2.1"}), "[{IPAddress 192.0.2.1}]"},
		"a load balancer's name":    {balanced(corev1.LoadBalancerIngress{Hostname: "lb.example.com"}), "[{Hostname lb.example.com}]"},
		"no load balancer any more": {leftOver, "[{IPAddress 10.96.0.7}]"},
		"a Service made headless":   {headless, "[]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := fmt.Sprint(addresses(test.service)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	many := balanced(make([]corev1.LoadBalancerIngress, 40)...)
	for i := range many.Status.LoadBalancer.Ingress {
		many.Status.LoadBalancer.Ingress[i].IP = fmt.Sprintf("192.0.2.%d", i)
	}
	if got := len(addresses(many)); got != maxAddresses {
		t.Errorf("got %d addresses, want the %d that the schema allows", got, maxAddresses)
	}
}

func TestGoneProxies(t *testing.T) {
	gateway := newGateway(reporting("a", 7, ""), reporting("b", 7, ""))
	pods := func(count int32) *k8sappsv1.Deployment {
		return &k8sappsv1.Deployment{Status: k8sappsv1.DeploymentStatus{Replicas: count}}
	}
	tests := map[string]struct {
		deployment *k8sappsv1.Deployment
		endpoints  []discoveryv1.Endpoint
		want       []string
	}{
		"every pod is there":                           {pods(2), []discoveryv1.Endpoint{ready("a"), ready("b")}, nil},
		"one has no endpoint, and none is unaccounted": {pods(1), []discoveryv1.Endpoint{ready("a")}, []string{"b"}},
		"one has no endpoint yet":                      {pods(2), []discoveryv1.Endpoint{ready("a")}, nil},
		"one is not ready":                             {pods(2), []discoveryv1.Endpoint{ready("a"), notReady("b")}, nil},
		"one is on its way out":                        {pods(1), []discoveryv1.Endpoint{ready("a"), leaving("b")}, nil},
		"one has no endpoint, and another is on its way out": {
			pods(1), []discoveryv1.Endpoint{ready("a"), leaving("c")}, []string{"b"},
		},
		"one has two endpoints, of both address families": {
			pods(1), []discoveryv1.Endpoint{ready("a"), ready("a")}, []string{"b"},
		},
		"scaled to nothing":                     {pods(0), nil, []string{"a", "b"}},
		"without a Deployment nothing is known": {nil, nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			observed := slicesOf(test.endpoints...)
			observed.Deployment = test.deployment
			if got := GoneProxies(gateway, observed); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
	forged := newGateway(reporting(proxypod.FieldManager, 7, ""), reporting("a\nb", 7, ""), reporting("a", 7, ""))
	if got := GoneProxies(forged, Observed{Deployment: pods(0)}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("got %q of names that are no pod's, want those of pods", got)
	}
	many := newGateway()
	for i := range 40 {
		reporting(fmt.Sprint("pod-", i), 7, "")(many)
	}
	if got := len(GoneProxies(many, Observed{Deployment: pods(0)})); got != maxGone {
		t.Errorf("got %d of many, want %d", got, maxGone)
	}
}

func TestTruncate(t *testing.T) {
	for _, message := range []string{"short", strings.Repeat("x", maxMessage)} {
		if got := truncate(message); got != message {
			t.Errorf("a short message became %q", got)
		}
	}
	for _, message := range []string{strings.Repeat("x", 2000), strings.Repeat("é", 1000), "x" + strings.Repeat("é", 1000)} {
		got := truncate(message)
		if len(got) > maxMessage || len(got) < maxMessage-2 || !utf8.ValidString(got) || !strings.HasSuffix(got, "...") {
			t.Errorf("got %d bytes, valid UTF-8: %v, ending in %q", len(got), utf8.ValidString(got), got[len(got)-5:])
		}
	}
}
