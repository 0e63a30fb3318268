package gatewayapi

import (
	"strings"
	"testing"

	"gateway/internal/must"
)

const policy = `
apiVersion: app.example.com/v1
kind: BackendPolicy
metadata: {namespace: web, name: api, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  targetRefs: [{group: "", kind: Service, name: api}]
  connections: {maxPerEndpoint: 10}
`

// TestABackendPolicyIsProgrammedOnceAllProxiesRunIt: so is each edit of it, and a second policy for the same Service is
// refused.
func TestABackendPolicyIsProgrammedOnceAllProxiesRunIt(t *testing.T) {
	f := newFixture(t, shop+"---"+policy)
	kind := ownKind("BackendPolicy")
	f.settle()
	f.expectConditions(kind, "web", "api", "ancestors[0] Accepted=True Accepted",
		"ancestors[0] Programmed=False Pending: its proxies do not run yet")
	f.programShop()
	f.expectConditions(kind, "web", "api", "ancestors[0] Accepted=True Accepted", "ancestors[0] Programmed=True Programmed")

	f.put(strings.Replace(policy, "10}", "20}", 1))
	f.expectWrites(f.mustSync(), "update own backendpolicies/status web/api")
	f.expectConditions(kind, "web", "api", "ancestors[0] Programmed=False Pending: not all proxies run it yet")
	f.programShop()
	f.expectConditions(kind, "web", "api", "ancestors[0] Programmed=True Programmed")

	f.put(strings.NewReplacer("name: api, creation", "name: late, creation", "2026-01-01", "2026-01-02").Replace(policy))
	f.expectWrites(f.mustSync(), "update own backendpolicies/status web/late")
	f.expectConditions(kind, "web", "late",
		"ancestors[0] Accepted=False Conflicted: another policy for the same Service port comes first")
	f.settle()
}

// spans is a policy for the traces of a Gateway.
const spans = `
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XTelemetryPolicy
metadata: {namespace: web, name: spans, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: shop}]
  tracing: {mode: Enabled, samplingRate: {numerator: 1}, provider: {backendRef: {name: api, port: 80}}}
`

// TestTelemetryIsOfTheDataPlane: the oldest policy says how the data plane takes part in traces, until it goes, and
// each has a status.
func TestTelemetryIsOfTheDataPlane(t *testing.T) {
	late := strings.NewReplacer("name: spans, creation", "name: late, creation", "2026-01-01", "2026-01-02", "numerator: 1}", "numerator: 2}").Replace(spans)
	f := newFixture(t, shop+"---"+spans+"---"+late)
	expect := func(endpoint string, rate int32) {
		t.Helper()
		switch tracing := f.ownGateway("web", "shop").Spec.Tracing; {
		case tracing == nil && endpoint == "":
		case tracing == nil || tracing.Endpoint != endpoint || *tracing.SamplingRatePerMillion != rate:
			t.Errorf("traces are %+v, want %q and %d", tracing, endpoint, rate)
		}
	}
	f.settle()
	expect("api.web.svc:80", 10_000)
	f.expectConditions(telemetryKind, "web", "spans", "ancestors[0] Accepted=True Accepted", "ancestors[0] ResolvedRefs=True ResolvedRefs")
	f.expectConditions(telemetryKind, "web", "late", "ancestors[0] Accepted=False Conflicted: XTelemetryPolicy spans comes first")

	f.remove(telemetryKind, "web", "spans")
	f.settle()
	expect("api.web.svc:80", 20_000)
	f.expectConditions(telemetryKind, "web", "late", "ancestors[0] Accepted=True Accepted")

	f.put(strings.Replace(late, "name: shop", "name: other", 1))
	f.settle()
	expect("", 0)
	if conditions := f.conditions(telemetryKind, "web", "late"); len(conditions) > 0 {
		t.Errorf("without a Gateway, the policy has %q", conditions)
	}
}

// TestTracesStayForAKindThatIsNotListed: while the API server does not list the policies, nobody knows whether there
// are any.
func TestTracesStayForAKindThatIsNotListed(t *testing.T) {
	f := newSettled(t, shop+"---"+spans)
	f.controller.stalled[resourceTelemetry] = true
	must.Do(t, f.controller.informer(resourceTelemetry).GetIndexer().Replace(nil, ""))
	f.controller.queue.Add(rebuild)
	must.Get(f.sync())(t)
	if tracing := f.ownGateway("web", "shop").Spec.Tracing; tracing == nil {
		t.Error("there are no traces any more")
	}
}
