package agent

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/model"
	"gateway/internal/proxyconfig"
)

// TestAPanicKeepsWhatRuns: what was loaded last goes on, with the endpoints of now, and the report says why. An edit
// that mends it is live.
func TestAPanicKeepsWhatRuns(t *testing.T) {
	t.Parallel()
	r, one := serving(t)
	running, gateway := r.process(), r.gateway()
	wrong := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN}}
	store := r.agent.watch.gateways
	r.must(store.Update(wrong))
	r.agent.changed()
	r.expectReport(1, "LoadFailed generation 1: this is a bug, please report it: panic: interface conversion: "+
		"v1.Object is *v1.Pod, not *v1.Gateway, at agent.(*watcher).gateway:")

	two := newEndpoint(t, "two")
	r.moveSlice("api", "one", two)
	r.expectBody("/", "two")
	r.moveSlice("api", "one", one)
	r.expectBody("/", "one")

	gateway.Generation = 2
	gateway.Spec = r.spec("api", "more")
	r.createService("more")
	r.createSlice("more", "one", two)
	r.must(store.Update(gateway))
	r.agent.changed()
	r.expectReport(2, "")
	r.expectBody("/more", "two")
	r.expectNoReload(running)
}

// TestLooksThatPanicAreRare: not each pass builds everything anew, since that may take long.
func TestLooksThatPanicAreRare(t *testing.T) {
	t.Parallel()
	looks := 0
	a := &Agent{source: Source{Changes: func(bool) (Changes, bool) {
		looks++
		panic("not now")
	}}}
	now := time.Now()
	a.observe(t.Context(), now)
	a.nextLook = now.Add(time.Second)
	a.observe(t.Context(), now.Add(time.Second-1))
	if looks != 1 || a.fault == "" {
		t.Errorf("it has looked %d times, and the fault is %q", looks, a.fault)
	}
	if a.observe(t.Context(), now.Add(time.Second)); looks != 2 || !a.nextLook.After(now.Add(time.Second)) {
		t.Errorf("it has looked %d times, and will again at %s, %s from the first", looks, a.nextLook, a.nextLook.Sub(now))
	}
}

// TestAPanicOfTheCompiler: what an object was compiled to before it is forgotten, and compiled anew once all is well.
func TestAPanicOfTheCompiler(t *testing.T) {
	t.Parallel()
	r, objects := newRig(t), &memory{ports: map[string]int32{}}
	source := objects.source()
	r.options.Source, r.options.Gateways, r.options.Core = &source, nil, nil
	gateway := func(generation int64, names ...string) *model.Gateway {
		own := model.Origin{Kind: "Gateway", Namespace: namespace, Name: gatewayN, Generation: generation}
		g := &model.Gateway{Origins: []model.Origin{own}}
		g.Listeners = []model.Listener{{Origin: own, Name: "http", Port: r.port, Protocol: model.ProtocolHTTP}}
		g.MaxConnections, g.MaxHeaders, g.MaxHeaderBytes = 1000, 100, 16384
		var routes []model.Route
		for _, name := range names {
			routes = append(routes, model.Route{Origin: own, Name: name, Listeners: []string{"http"}, Hostnames: []string{""}, Rules: []model.Rule{{
				Action:   &model.Action{},
				Matches:  []model.Match{{PathType: model.Prefix, Path: "/" + name}},
				Backends: []model.Target{{Backend: model.Backend{Namespace: namespace, Service: name, Port: 80}, Weight: 1}},
			}}})
		}
		g.Routes = model.Ordered(routes...)
		return g
	}
	objects.put(gateway(1, "api"), namespace, "api", newEndpoint(t, "one"))
	r.startAgent()
	r.startHAProxy()
	r.expectBody("/api", "one")
	running := r.process()

	broken := gateway(2, "api", "more")
	edit := broken.Routes.Edit()
	edit.Set("bad", nil)
	broken.Routes = edit.Map()
	objects.put(broken, namespace, "more", newEndpoint(t, "more"))
	r.expectProxyConfig("the problem is told", func(c proxyconfig.Config) bool {
		return strings.Contains(c.Problem, "panic: runtime error: invalid memory address") && c.Live.Generation() == 1
	})
	objects.put(nil, namespace, "api", newEndpoint(t, "moved"))
	r.expectBody("/api", "moved")

	objects.put(gateway(3, "api", "more"), "", "", nil)
	r.expectBody("/more", "more")
	r.expectBody("/api", "moved")
	r.expectProxyConfig("nothing is wrong", func(c proxyconfig.Config) bool { return c.Problem == "" && c.Live.Generation() == 3 })
	r.expectNoReload(running)
}
