package endpoints

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// TestBackupService: the endpoints of the backup are backups, and all of those that matter while the Service has no
// ready one.
func TestBackupService(t *testing.T) {
	backup := func(address string) ir.Server { return ir.Server{Address: address, Port: 8080, Backup: true} }
	usual := func(address string) ir.Server { return onPort(address, 8080) }
	leaving := newEndpointIn("10.0.0.3", false, true, true)
	inZone := func(address, zone string) discoveryv1.Endpoint {
		endpoint := newReady(address)
		endpoint.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		return endpoint
	}
	for name, test := range map[string]struct {
		first, second []discoveryv1.Endpoint
		want          []ir.Server
	}{
		"both are ready":                      {endpoints(newReady("10.0.0.1")), endpoints(newReady("10.1.0.1")), []ir.Server{usual("10.0.0.1"), backup("10.1.0.1")}},
		"the Service has no endpoint":         {nil, endpoints(newReady("10.1.0.1"), newReady("10.1.0.2")), []ir.Server{backup("10.1.0.1"), backup("10.1.0.2")}},
		"the last endpoint of it terminates":  {endpoints(leaving), endpoints(newReady("10.1.0.1")), []ir.Server{backup("10.1.0.1")}},
		"neither has a ready one":             {endpoints(leaving), endpoints(newEndpointIn("10.1.0.1", false, true, true)), []ir.Server{usual("10.0.0.3")}},
		"only the backup has one that serves": {nil, endpoints(newEndpointIn("10.1.0.1", false, true, true)), []ir.Server{backup("10.1.0.1")}},
		"the backup has none":                 {endpoints(newReady("10.0.0.1")), nil, []ir.Server{usual("10.0.0.1")}},
		"an endpoint of both":                 {endpoints(newReady("10.0.0.1")), endpoints(newReady("10.0.0.1")), []ir.Server{usual("10.0.0.1")}},
		"places": {
			endpoints(inZone("10.0.0.1", "a"), inZone("10.0.0.2", "b")), endpoints(newReady("10.1.0.1")),
			[]ir.Server{usual("10.0.0.1"), usual("10.0.0.2"), backup("10.1.0.1")},
		},
		"places, and no endpoint of the backup": {
			endpoints(inZone("10.0.0.1", "a"), inZone("10.0.0.2", "b")), nil, []ir.Server{usual("10.0.0.1"), backup("10.0.0.2")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := statesOf(test.first, test.second, model.BackendPolicy{Backup: spare})
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	missing := model.BackendPolicy{Backup: model.Backend{Namespace: "default", Service: "missing", Port: 80}}
	if got := statesOf(endpoints(newReady("10.0.0.1")), endpoints(newReady("10.1.0.1")), missing); !slices.Equal(got, []ir.Server{usual("10.0.0.1")}) {
		t.Errorf("without the Service of the backup: %v", got)
	}
}

// TestWaitingRequests: endpoints that stop get no request that can wait for another.
func TestWaitingRequests(t *testing.T) {
	leaving := endpoints(newEndpointIn("10.0.0.3", false, true, true))
	wait := model.BackendPolicy{WaitTimeout: time.Minute}
	if got := statesOf(leaving, nil, wait); len(got) > 0 {
		t.Errorf("got %v while the last endpoint stops, want none", got)
	}
	if got := statesOf(endpoints(newReady("10.0.0.1")), nil, wait); !slices.Equal(got, []ir.Server{onPort("10.0.0.1", 8080)}) {
		t.Errorf("got %v, want the endpoint that is ready", got)
	}
	wait.Backup = spare
	if got := statesOf(leaving, leaving, wait); len(got) > 0 {
		t.Errorf("got %v while the last endpoints of both Services stop, want none", got)
	}
	if got, want := statesOf(leaving, endpoints(newReady("10.1.0.1")), wait), (ir.Server{Address: "10.1.0.1", Port: 8080, Backup: true}); !slices.Equal(got, []ir.Server{want}) {
		t.Errorf("got %v, want the backup that is ready", got)
	}
}

var spare = model.Backend{Namespace: "default", Service: "spare", Port: 80}

func endpoints(all ...discoveryv1.Endpoint) []discoveryv1.Endpoint { return all }

// statesOf returns the servers of Service api in zone a. All Services but missing are there.
func statesOf(first, second []discoveryv1.Endpoint, policy model.BackendPolicy) []ir.Server {
	backend := routing.Backend{Namespace: "default", Service: "api", Port: 80}
	return States([]routing.Backend{backend}, map[model.Backend]model.BackendPolicy{backend: policy}, Cluster{
		Place: Place{Zone: "a"},
		Service: func(_, name string) *corev1.Service {
			if name == "missing" {
				return nil
			}
			return newService(name)
		},
		Slices: func(_, name string) []*discoveryv1.EndpointSlice {
			if name == "api" {
				return []*discoveryv1.EndpointSlice{newSlice(name, 8080, first...)}
			}
			return []*discoveryv1.EndpointSlice{newSlice(name, 8080, second...)}
		},
	})[backend].Servers
}
