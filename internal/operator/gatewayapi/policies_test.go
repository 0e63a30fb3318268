package gatewayapi

import (
	"strings"
	"testing"
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
	f.program("web", "shop")
	f.settle()
	f.expectConditions(kind, "web", "api", "ancestors[0] Accepted=True Accepted", "ancestors[0] Programmed=True Programmed")

	f.put(strings.Replace(policy, "10}", "20}", 1))
	f.expectWrites(f.mustSync(), "update own backendpolicies/status web/api")
	f.expectConditions(kind, "web", "api", "ancestors[0] Programmed=False Pending: not all proxies run it yet")
	f.program("web", "shop")
	f.settle()
	f.expectConditions(kind, "web", "api", "ancestors[0] Programmed=True Programmed")

	f.put(strings.NewReplacer("name: api, creation", "name: late, creation", "2026-01-01", "2026-01-02").Replace(policy))
	f.expectWrites(f.mustSync(), "update own backendpolicies/status web/late")
	f.expectConditions(kind, "web", "late",
		"ancestors[0] Accepted=False Conflicted: another policy for the same Service port comes first")
	f.settle()
}
