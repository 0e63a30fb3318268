package endpoints

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/routing"
)

func newEndpointIn(address string, ready, serving, terminating bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{
		Ready: &ready, Serving: &serving, Terminating: &terminating,
	}}
}

func onPort(address string, port int32) ir.Server {
	return ir.Server{Address: address, Port: port}
}

func TestBackendState(t *testing.T) { //nolint:funlen // a flat table
	ipv6 := func(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		slice.AddressType = discoveryv1.AddressTypeIPv6
		return slice
	}
	unnamed := func(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		slice.Ports[0].Name = nil
		return slice
	}
	fqdn := newSlice("api", 8080, newReady("10.0.0.1"))
	fqdn.AddressType = discoveryv1.AddressTypeFQDN
	udp := newSlice("api", 8080, newReady("10.0.0.1"))
	udp.Ports[0].Protocol = new(corev1.ProtocolUDP)
	noPort := newSlice("api", 8080, newReady("10.0.0.1"))
	noPort.Ports[0].Port = nil

	tests := map[string]struct {
		service *corev1.Service
		slices  []*discoveryv1.EndpointSlice
		want    render.BackendState
	}{
		"a Service that is missing": {nil, nil, render.BackendState{}},
		"an ExternalName Service is refused": {
			newService("api", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
			[]*discoveryv1.EndpointSlice{newSlice("api", 8080, newReady("10.0.0.1"))},
			render.BackendState{},
		},
		"a Service of proxies is refused": {
			newService("api", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app.example.com/gateway": "shop"} }),
			[]*discoveryv1.EndpointSlice{newSlice("api", 8080, newReady("10.0.0.1"))},
			render.BackendState{},
		},
		"a Service without the port": {
			newService("api", func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }), nil, render.BackendState{},
		},
		"a Service whose port is UDP": {
			newService("api", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }), nil, render.BackendState{},
		},
		"a Service whose port has no protocol: it is TCP": {
			newService("api", func(s *corev1.Service) { s.Spec.Ports[0].Protocol = "" }), nil, render.BackendState{Exists: true},
		},
		"the protocol of the port": {
			newService("api", func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = new("kubernetes.io/h2c") }), nil,
			render.BackendState{Exists: true, AppProtocol: "kubernetes.io/h2c"},
		},
		"the protocol of the port, in upper case": {
			newService("api", func(s *corev1.Service) { s.Spec.Ports[0].AppProtocol = new("HTTPS") }), nil,
			render.BackendState{Exists: true, AppProtocol: "https"},
		},
		"a Service without endpoints": {newService("api"), nil, render.BackendState{Exists: true}},
		"endpoints of several slices, each once, in order": {
			newService("api"),
			[]*discoveryv1.EndpointSlice{
				newSlice("api", 8081, newReady("10.0.0.9")),
				newSlice("api", 8080, newReady("10.0.0.10"), newReady("10.0.0.9")),
				newSlice("api", 8080, newReady("10.0.0.9")),
				ipv6(newSlice("api", 8080, newReady("FD00:0::1"))),
			},
			render.BackendState{Exists: true, Servers: []ir.Server{
				onPort("10.0.0.10", 8080), onPort("10.0.0.9", 8080), onPort("10.0.0.9", 8081), onPort("fd00::1", 8080),
			}},
		},
		"a Service of two families has each pod twice: those of its first": {
			newService("api", func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}),
			[]*discoveryv1.EndpointSlice{
				newSlice("api", 8080, newReady("10.0.0.1")), ipv6(newSlice("api", 8080, newReady("fd00::1"))),
			},
			render.BackendState{Exists: true, Servers: []ir.Server{onPort("fd00::1", 8080)}},
		},
		"those of its second, where none of the first takes traffic": {
			newService("api", func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}),
			[]*discoveryv1.EndpointSlice{
				newSlice("api", 8080, newReady("10.0.0.1")), ipv6(newSlice("api", 8080, newEndpointIn("fd00::1", false, false, false))),
			},
			render.BackendState{Exists: true, Servers: []ir.Server{onPort("10.0.0.1", 8080)}},
		},
		"the port is found by its name": {
			newService("api", func(s *corev1.Service) { s.Spec.Ports[0].Name = "" }),
			[]*discoveryv1.EndpointSlice{newSlice("api", 9000, newReady("10.0.0.1")), unnamed(newSlice("api", 8080, newReady("10.0.0.1")))},
			render.BackendState{Exists: true, Servers: []ir.Server{onPort("10.0.0.1", 8080)}},
		},
		"endpoints that cannot be sent to": {
			newService("api"),
			[]*discoveryv1.EndpointSlice{
				fqdn, noPort, udp, newSlice("api", 8080, newReady("fe80::1%eth0"), newReady("api.example.com"), discoveryv1.Endpoint{}),
			},
			render.BackendState{Exists: true},
		},
		"an endpoint of unknown readiness counts as ready": {
			newService("api"),
			[]*discoveryv1.EndpointSlice{newSlice("api", 8080, discoveryv1.Endpoint{Addresses: []string{"10.0.0.1"}})},
			render.BackendState{Exists: true, Servers: []ir.Server{onPort("10.0.0.1", 8080)}},
		},
		"terminating endpoints are left out while others are ready": {
			newService("api"),
			[]*discoveryv1.EndpointSlice{newSlice("api", 8080,
				newEndpointIn("10.0.0.1", false, true, true), newEndpointIn("10.0.0.2", true, true, false))},
			render.BackendState{Exists: true, Servers: []ir.Server{onPort("10.0.0.2", 8080)}},
		},
		"terminating endpoints that serve are better than none": {
			newService("api"),
			[]*discoveryv1.EndpointSlice{newSlice("api", 8080, newEndpointIn("10.0.0.1", false, true, true),
				newEndpointIn("10.0.0.2", false, false, true), newEndpointIn("10.0.0.3", false, true, false))},
			render.BackendState{Exists: true, Servers: []ir.Server{onPort("10.0.0.1", 8080)}},
		},
	}
	backend := routing.Backend{Service: "api", Port: 80}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := States([]routing.Backend{backend}, nil, Cluster{
				Service: func(string, string) *corev1.Service { return test.service },
				Slices:  func(string, string) []*discoveryv1.EndpointSlice { return test.slices },
			})[backend]
			if !ok || got.Exists != test.want.Exists || got.AppProtocol != test.want.AppProtocol || len(got.Servers) != len(test.want.Servers) ||
				len(got.Servers) > 0 && !reflect.DeepEqual(got.Servers, test.want.Servers) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestBackendsOfTheSameNameInTwoNamespaces: each has the endpoints of its own namespace.
func TestBackendsOfTheSameNameInTwoNamespaces(t *testing.T) {
	slices := map[string][]*discoveryv1.EndpointSlice{
		"shop/api": {newSlice("api", 8080, newReady("10.0.0.1"))}, "blog/api": {newSlice("api", 8080, newReady("10.0.0.2"))},
	}
	var backends []routing.Backend
	for _, namespace := range []string{"shop", "blog", "docs"} {
		backends = append(backends, routing.Backend{Namespace: namespace, Service: "api", Port: 80})
	}
	states := States(backends, nil, Cluster{
		Service: func(namespace, name string) *corev1.Service {
			if slices[namespace+"/"+name] == nil {
				return nil
			}
			return newService(name)
		},
		Slices: func(namespace, name string) []*discoveryv1.EndpointSlice { return slices[namespace+"/"+name] },
	})
	for namespace, want := range map[string]render.BackendState{
		"shop": {Exists: true, Servers: []ir.Server{onPort("10.0.0.1", 8080)}},
		"blog": {Exists: true, Servers: []ir.Server{onPort("10.0.0.2", 8080)}},
		"docs": {},
	} {
		if got := states[routing.Backend{Namespace: namespace, Service: "api", Port: 80}]; !reflect.DeepEqual(got, want) {
			t.Errorf("in %s: got %+v, want %+v", namespace, got, want)
		}
	}
}

func newService(name string, mods ...func(*corev1.Service)) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}}
	service.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}
	for _, mod := range mods {
		mod(service)
	}
	return service
}

func newSlice(service string, port int32, found ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: &port}},
		Endpoints:   found,
	}
}

func newReady(address string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
}
