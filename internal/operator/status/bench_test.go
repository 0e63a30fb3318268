package status

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkCompute is the status of a Gateway with routes to as many Services and three proxies that run it, and the
// comparison with the one it has.
func BenchmarkCompute(b *testing.B) {
	for _, routes := range []int{10, 1000} {
		b.Run(fmt.Sprintf("%d_routes", routes), func(b *testing.B) {
			gateway := newGateway(withReplicas(3))
			observed := Observed{Backends: map[string]*corev1.Service{}}
			for i := range routes {
				name := fmt.Sprintf("app-%d", i)
				withRoute(name, to(name, 80))(gateway)
				observed.Backends[name] = newService(corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 80})
			}
			for _, pod := range []string{"a", "b", "c"} {
				observed.Reports = append(observed.Reports, report(pod, 7))
				observed.Slices = append(observed.Slices, newSlice(newEndpoint(pod, new(true), nil)))
			}
			gateway.Status = Compute(gateway, observed, now)
			b.ReportAllocs()
			for b.Loop() {
				if Changed(gateway, Compute(gateway, observed, now)) {
					b.Fatal("the status changes though nothing has changed")
				}
			}
		})
	}
}
