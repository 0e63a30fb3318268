package prove

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"gateway/test/internal/load"
)

// The route has a Service that is not of the Rollout, and a rule that is not.
const (
	apiRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: team-0, name: api, annotations: {example.com/owner: team}}
spec:
  parentRefs: [{name: shop, namespace: infra, sectionName: http}]
  hostnames: [api.example.com]
  rules:
    - matches: [{path: {type: PathPrefix, value: /}}]
      backendRefs: [{name: stable, port: 80, weight: 100}, {name: canary, port: 80, weight: 0}, {name: foreign, port: 80, weight: 25}]
    - matches: [{path: {type: PathPrefix, value: /foreign}}]
      backendRefs: [{name: foreign, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {namespace: team-0, name: stable}
spec: {selector: {app: api}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {namespace: team-0, name: canary}
spec: {selector: {app: api}, ports: [{port: 80}]}`
	apiRollout = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {namespace: team-0, name: api}
spec:
  replicas: 4
  selector: {matchLabels: {app: api}}
  template:
    metadata: {labels: {app: api}}
    spec: {containers: [{name: api, image: echo, args: [-version=%s]}]}
  strategy:
    canary:
      stableService: stable
      canaryService: canary
      scaleDownDelaySeconds: 1
      abortScaleDownDelaySeconds: 1
      trafficRouting:
        managedRoutes: [{name: canary-header}]
        plugins: {argoproj-labs/gatewayAPI: {httpRoute: api}}
      steps:
        - setWeight: 10
        - pause: {}
        - setHeaderRoute: {name: canary-header, match: [{headerName: X-Canary, headerValue: {exact: "yes"}}]}
        - pause: {}
        - setWeight: 50
        - pause: {}`
)

// TestRollouts: a Rollout of Argo moves requests in steps, back at once, and then for good, and no request is lost or
// goes elsewhere.
func TestRollouts(t *testing.T) {
	s := startSite(t)
	s.createNamespace("team-0")
	s.createNamedService("team-0", "foreign", s.startEcho("-version=foreign"))
	s.apply(sharedGateway)
	p := s.startProxy(infra, "shop")
	r := startRollouts(s)
	s.apply(apiRoute)
	s.apply(apiRollout, "v1")
	r.awaitPhase("Healthy")
	r.awaitRoute(0, false)
	p.expect("api.example.com", "/", http.StatusOK)
	expectShares(t, p, map[string]int{"v1": 100})
	p.reloads()
	requests := startRolloutLoad(t, p)
	took := r.abortSecond(p)
	took = append(took, r.promoteThird(p)...)
	result := requests.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	row(t, "Argo Rollouts' controller", "its own program, of the module")
	row(t, "its Gateway API plugin", "%s", map[bool]string{true: "a stand-in", false: "its own program, of a checkout"}[os.Getenv("ROLLOUTS_PLUGIN") == ""])
	row(t, "kubelet, and the controllers of ReplicaSets and EndpointSlices", "stand-ins")
	row(t, "steps of Rollouts, from the write until Programmed", "%v (median), %v (most)", median(took), most(took))
	row(t, "requests and messages meanwhile", "%d, %d of them lost", result.Requests(), len(result.Failures()))
	route := r.route()
	if rules := route.Spec.Rules; len(rules) != 2 || len(rules[0].BackendRefs) != 3 || ptr.Deref(rules[0].BackendRefs[2].Weight, 1) != 25 ||
		route.Annotations["example.com/owner"] != "team" || len(route.Labels) > 0 {
		t.Errorf("the route is %+v", route)
	}
}

// abortSecond rolls out v2 to half of the requests, and aborts it. It returns how long each step took.
func (r *rollouts) abortSecond(p *proxy) []time.Duration {
	t := r.t
	t.Helper()
	r.apply(apiRollout, "v2")
	took := []time.Duration{r.awaitRoute(10, false)}
	expectShares(t, p, map[string]int{"v1": 90, "v2": 10})
	expectNoReload(t, p, "a weight")
	r.promote(1)
	took = append(took, r.awaitRoute(10, true))
	if reloads := p.reloads(); reloads > 1 {
		t.Errorf("HAProxy has reloaded %v times for a header that no condition named before", reloads)
	}
	expectVersion(t, p, "/", true, "v2")
	expectVersion(t, p, "/foreign", false, "foreign")
	r.promote(3)
	took = append(took, r.awaitRoute(50, true))
	expectShares(t, p, map[string]int{"v1": 50, "v2": 50})
	expectVersion(t, p, "/", true, "v2")
	r.patchStatus(`{"status": {"abort": true}}`)
	took = append(took, r.awaitRoute(0, false))
	expectShares(t, p, map[string]int{"v1": 100})
	r.awaitPods("v1")
	return took
}

// promoteThird rolls out v3 to all requests.
func (r *rollouts) promoteThird(p *proxy) []time.Duration {
	t := r.t
	t.Helper()
	r.apply(apiRollout, "v3")
	took := []time.Duration{r.awaitRoute(10, false)}
	expectShares(t, p, map[string]int{"v1": 90, "v3": 10})
	r.promote(1)
	took = append(took, r.awaitRoute(10, true))
	expectVersion(t, p, "/", true, "v3")
	r.promote(3)
	took = append(took, r.awaitRoute(50, true))
	expectShares(t, p, map[string]int{"v1": 50, "v3": 50})
	r.promote(5)
	r.awaitPhase("Healthy")
	took = append(took, r.awaitRoute(0, false))
	expectShares(t, p, map[string]int{"v3": 100})
	r.awaitPods("v3")
	expectNoReload(t, p, "steps with a header that was named before")
	return took
}

// startRolloutLoad sends requests of all kinds. A pod that stops may end its WebSockets in good order.
func startRolloutLoad(t *testing.T, p *proxy) *load.Load {
	t.Helper()
	return load.Start(t.Context(), load.Options{
		Address: net.JoinHostPort(p.address, "80"), Host: "api.example.com", Rate: 200,
		Slow: 5, WebSockets: 10, Delay: 3 * time.Second, Timeout: soon, Interval: time.Second,
		Check: func(answer load.Answer) error {
			if answer.Status != http.StatusOK {
				return fmt.Errorf("status %d", answer.Status)
			}
			return nil
		},
		Ended: func(end load.End) error {
			if !end.Orderly {
				return errors.Join(errors.New("it was cut short"), end.Cause)
			}
			return nil
		},
	})
}

// expectShares checks where requests go that are sent once all proxies run the weights. The foreign Service has 25
// beside 100.
func expectShares(t *testing.T, p *proxy, shares map[string]int) {
	t.Helper()
	const sent = 1000
	got := map[string]int{}
	for range sent {
		version, err := p.version(t.Context(), "/", false)
		must(t, err)
		got[version]++
	}
	t.Logf("%v: %v", shares, got)
	want := map[string]int{"foreign": sent * 25 / 125}
	for version, share := range shares {
		want[version] = sent * share / 125
	}
	for version, count := range got {
		if difference := count - want[version]; want[version] == 0 || max(difference, -difference) > sent/20 {
			t.Errorf("with %v, %d of %d requests went to %s, want %d", shares, count, sent, version, want[version])
		}
	}
}

func expectVersion(t *testing.T, p *proxy, path string, header bool, want string) {
	t.Helper()
	for range 50 {
		got, err := p.version(t.Context(), path, header)
		must(t, err)
		if got != want {
			t.Fatalf("%s with the header %t went to %s, want %s", path, header, got, want)
		}
	}
}
