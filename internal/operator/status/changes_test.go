package status

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
)

func TestChanged(t *testing.T) {
	observed := reporting(slicesOf(ready("a")), report("a", 7))
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
		"a missing condition":     {func(live *appv1.GatewayStatus) { live.Conditions = live.Conditions[1:] }, true},
		"a message":               {func(live *appv1.GatewayStatus) { live.Conditions[0].Message = "" }, true},
		"the selector":            {func(live *appv1.GatewayStatus) { live.Selector = "" }, true},
		"an address":              {func(live *appv1.GatewayStatus) { live.Addresses = []appv1.GatewayAddress{{}} }, true},
		"the generation":          {func(live *appv1.GatewayStatus) { live.ObservedGeneration-- }, true},
		"a listener":              {func(live *appv1.GatewayStatus) { live.Listeners[0].AttachedRoutes++ }, true},
		"a route":                 {func(live *appv1.GatewayStatus) { live.Routes[0].Conditions[0].Message = "" }, true},
		"the number of pods":      {func(live *appv1.GatewayStatus) { live.Replicas++ }, true},
		"the number of proxies":   {func(live *appv1.GatewayStatus) { live.ReadyReplicas++ }, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gateway := newGateway(withListener("https", nil, nil), withRoute("shop", to("missing", 80)))
			gateway.Status = Compute(gateway, observed, before)
			test.change(&gateway.Status)
			if got := Changed(gateway, Compute(gateway, observed, now)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestBecomesProgrammed(t *testing.T) {
	programmed, behind := report("a", 7), report("a", 6)
	tests := map[string]struct {
		change   func(gateway *appv1.Gateway)
		observed *appv1.GatewayProxy
		want     bool
	}{
		"a generation that no proxy runs yet":  {func(gateway *appv1.Gateway) { gateway.Generation = 8 }, programmed, false},
		"a generation that the status has not": {func(*appv1.Gateway) {}, behind, false},
		"one that it has":                      {func(*appv1.Gateway) {}, programmed, false},
		"a new one":                            {func(gateway *appv1.Gateway) { gateway.Status.Conditions[2].ObservedGeneration = 6 }, programmed, true},
		"one that was not live meanwhile":      {func(gateway *appv1.Gateway) { gateway.Status.Conditions[2].Status = "False" }, programmed, true},
		"the first of a Gateway":               {func(gateway *appv1.Gateway) { gateway.Status = appv1.GatewayStatus{} }, programmed, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			gateway := newGateway()
			gateway.Status = Compute(gateway, reporting(slicesOf(ready("a")), programmed), before)
			test.change(gateway)
			if got := BecomesProgrammed(gateway, Compute(gateway, reporting(slicesOf(ready("a")), test.observed), now)); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
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
			newGateway(), reporting(Observed{
				Service: newService(corev1.ServiceTypeLoadBalancer), Slices: []*discoveryv1.EndpointSlice{newSlice(ready("a"))},
			}, report("a", 7)), nil,
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
			if got := fmt.Sprint(serviceAddresses(test.service)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	many := balanced(make([]corev1.LoadBalancerIngress, 40)...)
	for i := range many.Status.LoadBalancer.Ingress {
		many.Status.LoadBalancer.Ingress[i].IP = fmt.Sprintf("192.0.2.%d", i)
	}
	if got := len(serviceAddresses(many)); got != maxAddresses {
		t.Errorf("got %d addresses, want the %d that the schema allows", got, maxAddresses)
	}
}
