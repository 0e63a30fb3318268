package main

import (
	"fmt"
	"runtime"
	"testing"

	appv1 "gateway/api/app/v1"
)

// TestATableTheOperatorDoesNotMake: the entries of a table are the product of what a spec lists. In a namespace, someone could ask for more of
// them than the operator of all namespaces has memory for.
func TestATableTheOperatorDoesNotMake(t *testing.T) {
	f := newFixture(t, newGateway(func(gateway *appv1.Gateway) {
		spec := &gateway.Spec
		spec.Listeners = nil
		for i := range 8 {
			spec.Listeners = append(spec.Listeners, appv1.Listener{Name: appv1.Name(fmt.Sprint("l", i)), Port: int32(1000 + i), Protocol: appv1.ProtocolHTTP})
		}
		route := &spec.Routes[0]
		for i := range 64 {
			route.Hostnames = append(route.Hostnames, appv1.Hostname(fmt.Sprint("h", i)))
			route.Rules[0].Matches = append(route.Rules[0].Matches, appv1.RouteMatch{Path: appv1.PathMatch{Value: fmt.Sprint("/", i)}})
		}
		for len(route.Rules) < 16 {
			route.Rules = append(route.Rules, route.Rules[0])
		}
	}), newService("api", 8080))
	f.settle()

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.expectWrites(f.mustSync())
	runtime.ReadMemStats(&after)
	const enough = 64 << 20
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > enough {
		t.Errorf("a sync took %d MiB of memory in all, want %d at most", allocated>>20, enough>>20)
	}
}
