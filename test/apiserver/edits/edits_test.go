// Package edits changes a Gateway, its Services, endpoints and certificates many times under load, with the built
// programs on a real API server and with a real HAProxy. Each request has to be answered by the state before an edit or
// by the one after it, and after thousands of edits nothing may have grown.
package edits

import (
	"flag"
	"testing"

	"gateway/internal/must"
	"gateway/internal/routing/routingtest"
	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

var edits = flag.Int("edits", map[bool]int{false: 150, true: 10_000}[testtier.All], "how many random edits TestManyEdits makes")

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// TestManyEdits makes edits one after the other while requests are sent: one of each kind, then random ones. The first
// half of these are of all kinds. Those of the second half take no reload, but for settings that no backend had before,
// so that one HAProxy lives through thousands. Once in a while it goes back to the state at the beginning, and counts.
func TestManyEdits(t *testing.T) {
	g := routingtest.New(t)
	s := startSite(t, g)
	stop := s.load()
	kinds := map[string]int{}
	for _, kind := range s.kinds() {
		kind.edit()
		kinds[kind.name]++
	}
	rounds := 2
	if *edits >= 1000 {
		rounds = 10
	}
	for i := range rounds {
		for range *edits / rounds {
			kinds[s.edit(i < rounds/2)]++
		}
		s.reset()
		s.count()
	}
	stop()
	t.Logf("edits by kind: %v; the API server refused %d", kinds, s.refused)
	t.Logf("requests by status: %v", s.statuses)
	metrics := must.Get(s.metrics())(t)
	t.Logf("what HAProxy took: %v", loads(metrics))
	t.Logf("what there is:\n%s", table(s.samples))
	for _, status := range []int{200, 302, 400, 404, 500, 503} {
		if *edits >= 300 && s.statuses[status] == 0 {
			t.Errorf("no answer has status %d", status)
		}
	}
	if *edits >= 1000 {
		for _, grown := range growth(s.samples) {
			t.Error(grown)
		}
	}
}
