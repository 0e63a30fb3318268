package gatewayapi

import (
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	source "gateway/internal/source/gatewayapi"
)

// TestAfterARestart: what was Programmed stays so, though agents report no versions of statuses. What was pending waits
// for the next report.
func TestAfterARestart(t *testing.T) {
	f := newSettled(t, shop)
	f.programShop()
	isLive := func(name, want string) {
		t.Helper()
		f.expectConditions(routeKind("HTTPRoute"), "web", name, "parents[0] Programmed="+want)
	}
	isLive("api", "True Programmed")
	f.put(strings.Replace(route, "name: api}", "name: other}", 1))
	f.settle() // the status of the new route is written, which the agents do not report
	reported := f.list(ownKind("GatewayProxy"))[0].(*appv1.GatewayProxy).Status.ResourceVersion
	f.controller.index, f.controller.compilers, f.controller.versions = nil, nil, map[source.Object]*version{}
	for _, step := range []struct{ version, want string }{
		{reported, "False Pending: not all proxies run it yet"},
		{"", "True Programmed"}, // all there is
	} {
		f.program("web", "shop")
		if step.version != "" {
			report := f.list(ownKind("GatewayProxy"))[0].(*appv1.GatewayProxy)
			report.Status.ResourceVersion = step.version
			f.putObject(ownKind("GatewayProxy"), report)
		}
		f.settle()
		isLive("api", "True Programmed")
		isLive("other", step.want)
	}
}
