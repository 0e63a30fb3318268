package propagation

import (
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// edit is a kind of change. do makes one and says what it leads to, after prepare, if there is one; undo leaves the
// world such that do can be done again.
type edit struct {
	name    string
	prepare func(b *testing.B, w *world)
	do      func(b *testing.B, w *world) effect
	undo    func(b *testing.B, w *world)
	// times is how often it is done for each time that others are.
	times int
}

func nothing(*testing.B, *world) {}

var edits = []edit{
	{"endpoint", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		w.putEndpoints(b, "probe", w.turn%2)
		return effect{probeHost, "/", answers[w.turn%2]}
	}, nothing, 10},
	{"weight", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		w.patch(b, fmt.Sprintf(`[{"op":"replace","path":"/spec/routes/1/rules/0/backendRefs/0/weight","value":%d},
			{"op":"replace","path":"/spec/routes/1/rules/0/backendRefs/1/weight","value":%d}]`, 1-w.turn%2, w.turn%2))
		return effect{splitHost, "/", answers[w.turn%2]}
	}, nothing, 1},
	{"rule", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		path := fmt.Sprintf("/rule-%d", w.turn)
		w.patch(b, fmt.Sprintf(`[{"op":"replace","path":"/spec/routes/2/rules/0/matches/0/path/value","value":%q}]`, path))
		return effect{ruleHost, path, answers[0]}
	}, nothing, 1},
	{"route-to-known-Service", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		path := fmt.Sprintf("/route-%d", w.turn)
		w.addRoute(b, ruleHost, path, "zero")
		return effect{ruleHost, path, answers[0]}
	}, removeAdded, 1},
	{"route-to-new-Service", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		path := fmt.Sprintf("/service-%d", w.turn)
		w.addRoute(b, ruleHost, path, w.newServices[0])
		w.newServices = w.newServices[1:]
		return effect{ruleHost, path, answers[1]}
	}, removeAdded, 1},
	{"new-hostname", nil, func(b *testing.B, w *world) effect {
		b.Helper()
		w.turn++
		host := fmt.Sprintf("new-%d.example.com", w.turn)
		w.addRoute(b, host, "/", "zero")
		return effect{host, "/", answers[0]}
	}, removeAdded, 1},
}

// removeAdded removes the route that addRoute put last.
func removeAdded(b *testing.B, w *world) {
	b.Helper()
	last := fmt.Sprintf("/spec/routes/%d", w.routes)
	w.patch(b, fmt.Sprintf(`[{"op":"test","path":"%s/name","value":"added"},{"op":"remove","path":%q}]`, last, last))
}

func (w *world) addRoute(b *testing.B, host, path, service string) {
	b.Helper()
	w.patch(b, fmt.Sprintf(`[{"op":"add","path":"/spec/routes/-","value":{"name":"added","hostnames":[%q],"rules":[
		{"matches":[{"path":{"value":%q}}],"backendRefs":[{"name":%q,"port":80}]}]}}]`, host, path, service))
}

func (w *world) patch(b testing.TB, patch string) {
	b.Helper()
	_, err := server.App.AppV1().Gateways(w.namespace).Patch(b.Context(), gatewayName, types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	must(b, err)
}

// replaceRoute replaces a route by another.
func (w *world) replaceRoute(b *testing.B, i int) {
	b.Helper()
	if w.api != nil {
		w.deleteRoute(b, fmt.Sprintf("churn-%d", i-1))
		w.createRoute(b, fmt.Sprintf("churn-%d", i), fmt.Sprintf("churn-%d.example.com", i), "/", backendRef("zero", 1))
		return
	}
	w.patch(b, fmt.Sprintf(`[{"op":"replace","path":"/spec/routes/3","value":{"name":"churn-%d","hostnames":["churn-%d.example.com"],
		"rules":[{"backendRefs":[{"name":"zero","port":80}]}]}}]`, i, i))
}

// churnEvery is the time between two changes of the churn, each of which removes a route and adds another.
const churnEvery = 100 * time.Millisecond

// churn replaces a route by another, again and again, until the function that it returns is called.
func (w *world) churn(b *testing.B) (stop func()) {
	b.Helper()
	done := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		tick := time.NewTicker(churnEvery)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			w.churned++
			w.replaceRoute(b, w.churned)
		}
	})
	return func() {
		close(done)
		working.Wait()
	}
}
