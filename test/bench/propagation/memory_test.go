package propagation

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	appv1 "gateway/api/app/v1"
)

// BenchmarkMemory measures what the agent and HAProxy keep in memory for Gateways of several sizes, with five endpoints
// for each Service, once they have started.
func BenchmarkMemory(b *testing.B) {
	for _, size := range []struct{ hosts, rules, services int }{{10, 1, 10}, {1000, 1, 1000}, {2000, 5, 5000}} {
		b.Run(fmt.Sprintf("%d-rules/%d-Services", size.hosts*size.rules, size.services), func(b *testing.B) {
			w := newWorld(b, fmt.Sprintf("services-%d", size.services))
			atOnce(size.services, func(i int) { w.createServiceWith(b, w.distantSlice(i)) })
			gateway := w.emptyGateway()
			for i := range size.hosts {
				gateway.Spec.Routes = append(gateway.Spec.Routes, distantRoute(i, size.rules, size.services))
			}
			gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{
				Name: "probe", Hostnames: []appv1.Hostname{probeHost},
				Rules: []appv1.RouteRule{ruleFor("/", appv1.BackendRef{Name: "probe", Port: 80})},
			})
			w.start(b, gateway)
			w.settle(b)
			b.ReportMetric(memory(b, w.agent.PID()), "agent-MiB")
			b.ReportMetric(memory(b, w.worker(b)), "HAProxy-MiB")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkRouteMemory measures what operator, agent and HAProxy keep in memory for many HTTPRoutes, as BenchmarkRoutes
// has them, after edits. It fails if they take more together than most.
func BenchmarkRouteMemory(b *testing.B) {
	server.InstallGatewayAPI(b)
	for _, size := range []struct {
		routes int
		most   float64
	}{{3000, 322}, {10000, 713}} {
		b.Run(fmt.Sprintf("HTTPRoutes=%d", size.routes), func(b *testing.B) {
			w := newRoutesWorld(b, own(""), size.routes)
			for range 20 {
				w.await(b, routeEdits[1].do(b, w))
				w.settle(b)
			}
			time.Sleep(memoryAfter)
			w.rest(b)
			operator, agent, haproxy := memory(b, w.operator.PID()), memory(b, w.agent.PID()), memory(b, w.haproxy.PID)+memory(b, w.worker(b))
			b.ReportMetric(operator, "operator-MiB")
			b.ReportMetric(agent, "agent-MiB")
			b.ReportMetric(haproxy, "HAProxy-MiB")
			b.ReportMetric(operator+agent+haproxy, "MiB")
			b.ReportMetric(0, "ns/op")
			if all := operator + agent + haproxy; all > size.most {
				b.Errorf("operator, agent and HAProxy take %.0f, %.0f and %.0f MiB, and together more than %.0f", operator, agent, haproxy, size.most)
			}
		})
	}
}

// memoryAfter is the time after which programs have given back what edits took, however busy the machine is: Go
// collects garbage every two minutes.
const memoryAfter = 135 * time.Second

// worker returns the process id of HAProxy's worker.
func (w *world) worker(b *testing.B) int {
	b.Helper()
	_, rest, _ := strings.Cut(w.haproxy.Worker("show info\n"), "\nPid: ")
	var pid int
	_, err := fmt.Sscan(rest, &pid)
	must(b, err)
	return pid
}

// memory returns the resident memory of a process, in MiB.
func memory(b *testing.B, pid int) float64 {
	b.Helper()
	return statusOf(b, pid, "VmRSS:")
}

// memoryPeak returns the largest resident memory that a process has had, in MiB.
func memoryPeak(b *testing.B, pid int) float64 {
	b.Helper()
	return statusOf(b, pid, "VmHWM:")
}

func statusOf(b *testing.B, pid int, name string) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(b, err)
	_, rest, _ := strings.Cut(string(status), name)
	var kibibytes float64
	_, err = fmt.Sscan(rest, &kibibytes)
	must(b, err)
	return kibibytes / 1024
}

// distantSlice is what is behind a Service that gets no requests.
func (w *world) distantSlice(i int) *discoveryv1.EndpointSlice {
	addresses := make([]string, 5)
	for j := range addresses {
		addresses[j] = fmt.Sprintf("10.%d.%d.%d", j, i/256, i%256)
	}
	return w.slice(distant(i), 8080, addresses...)
}

// distantRoute returns a host's, with as many rules, which use up the Services one after the other.
func distantRoute(i, rules, services int) appv1.Route {
	route := appv1.Route{Name: appv1.Name(fmt.Sprint("r", i)), Hostnames: []appv1.Hostname{appv1.Hostname(fmt.Sprintf("host-%d.example.com", i))}}
	for rule := range rules {
		ref := appv1.BackendRef{Name: distant((i*rules + rule) % services), Port: 80}
		route.Rules = append(route.Rules, ruleFor(fmt.Sprintf("/%d", rule), ref))
	}
	return route
}

func distant(i int) string { return fmt.Sprint("s", i) }
