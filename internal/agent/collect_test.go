package agent

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
)

// TestWhatIsNotUsedGoes: after many edits, HAProxy has the backends and entries of the last one, and nothing of the
// others.
func TestWhatIsNotUsedGoes(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 3)
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	running := r.process()
	all := r.gatewaySeen.Spec.Routes
	edit := func(generation, routes int) {
		t.Helper()
		r.gatewaySeen = r.gatewaySeen.DeepCopy()
		r.gatewaySeen.Generation, r.gatewaySeen.Spec.Routes = int64(generation), all[:routes]
		r.gatewaySeen.Spec.Routes[0].Rules[0].Matches[0].Path.Value = fmt.Sprint("/edit-", generation)
		r.put(r.agent.watch.gateways, r.gatewaySeen)
		r.agent.changed()
		r.agent.pass(t.Context())
	}
	for i := range 20 {
		edit(2*i+2, 1)
		edit(2*i+3, 3)
	}
	edit(100, 1)
	entries := func(file string) int {
		return strings.Count(r.haproxy.Worker("show map "+r.options.Paths.Map(file)), "\n0x")
	}
	if n := entries(ir.PathsFile); n < 20 {
		t.Errorf("%d entries are there at first: requests may still know of old ones", n)
	}
	// Unused parts are found first, and deleted the next time.
	now := time.Now()
	for i := range 3 {
		r.agent.deleteUnused(t.Context(), now.Add(time.Duration(i+1)*2*unusedInterval))
	}
	if n := entries(ir.PathsFile) + entries(ir.HostsFile); n > 4 {
		t.Errorf("%d entries are left:\n%s", n, r.haproxy.Worker("show map "+r.options.Paths.Map(ir.PathsFile)))
	}
	backends := r.haproxy.Worker("show backend")
	if !strings.Contains(backends, "shop_service-0_80") || strings.Contains(backends, "shop_service-1_80") || strings.Contains(backends, "shop_service-2_80") {
		t.Errorf("the backends are %s", backends)
	}
	edit(101, 3)
	if backends := r.haproxy.Worker("show backend"); !strings.Contains(backends, "shop_service-2_80") {
		t.Errorf("a backend does not come back: %s", backends)
	}
	r.expectNoReload(running)
}

// TestWhatIsNotUsedGoesDuringEdits: edits of others keep nothing that is not used. What was used in between is as new.
func TestWhatIsNotUsedGoesDuringEdits(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 3)
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	all, now := r.gatewaySeen.Spec.Routes, time.Now()
	edit := func(routes ...int) {
		r.gatewaySeen = r.gatewaySeen.DeepCopy()
		r.gatewaySeen.Generation++
		r.gatewaySeen.Spec.Routes = nil
		for _, i := range routes {
			r.gatewaySeen.Spec.Routes = append(r.gatewaySeen.Spec.Routes, *all[i].DeepCopy())
		}
		r.gatewaySeen.Spec.Routes[0].Rules[0].Matches[0].Path.Value = fmt.Sprint("/edit-", r.gatewaySeen.Generation)
		r.put(r.agent.watch.gateways, r.gatewaySeen)
		r.agent.changed()
		r.agent.pass(t.Context())
	}
	look := func() {
		now = now.Add(2 * unusedInterval)
		r.agent.deleteUnused(t.Context(), now)
	}
	edit(0)
	look()
	edit(0, 1)
	edit(0)
	look()
	backends := r.haproxy.Worker("show backend")
	if !strings.Contains(backends, "shop_service-1_80") || strings.Contains(backends, "shop_service-2_80") {
		t.Errorf("the backends are %s", backends)
	}
}

// TestABackendComesBackThatWasBusy: a backend that is not used any more cannot be deleted while one of its servers
// answers a request. When it is used again, all its servers are.
func TestABackendComesBackThatWasBusy(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 2)
	slow, entered, release := newSlowEndpoint(t)
	idle := newEndpoint(t, "idle")
	r.put(r.followed(testSlices), newSlice("service-1", slow.port, newReady("127.0.0.1")))
	second := newSlice("service-1", idle.port, newReady("127.0.0.1"))
	second.Name = "service-1-2"
	r.put(r.followed(testSlices), second)
	all := r.gatewaySeen.Spec.Routes
	edit := func(routes ...appv1.Route) {
		r.gatewaySeen = r.gatewaySeen.DeepCopy()
		r.gatewaySeen.Generation, r.gatewaySeen.Spec.Routes = r.gatewaySeen.Generation+1, routes
		r.put(r.agent.watch.gateways, r.gatewaySeen)
		r.agent.changed()
		r.agent.pass(t.Context())
	}
	all[1].Hostnames, all[1].Rules[0].Matches[0].Path.Value = nil, "/"
	edit(all...)
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	running, answered := r.process(), r.getSlow(entered)

	edit(all[0])
	now := time.Now()
	// A server may be busy for a moment after its answer, so both are called, as the agent does.
	look := func(after time.Duration) {
		now = now.Add(after)
		r.agent.deleteDrained(t.Context(), now)
		r.agent.deleteUnused(t.Context(), now)
	}
	servers := func() string { return r.haproxy.Worker("show servers state shop_service-1_80") }
	r.eventually("only the busy server is left", func() error {
		look(2 * unusedInterval)
		if state := servers(); strings.Contains(state, fmt.Sprint("127.0.0.1_", idle.port)) {
			return errors.New(state)
		}
		return nil
	})
	if state := servers(); !strings.Contains(state, fmt.Sprint("127.0.0.1_", slow.port)) {
		t.Fatalf("the busy server is to be left: %s", state)
	}
	edit(all...)
	for _, name := range []string{"slow", "idle"} {
		r.expectBody("/", name)
	}

	edit(all[0])
	close(release)
	r.must(<-answered)
	r.eventually("the backend is deleted", func() error {
		look(10 * unusedInterval)
		if backends := r.haproxy.Worker("show backend"); strings.Contains(backends, "shop_service-1_80") {
			return errors.New(backends)
		}
		return nil
	})
	r.expectNoReload(running)
}
