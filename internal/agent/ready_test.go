package agent

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/must"
)

// starting is a rig in which everything runs, and the API server answers reports by react.
func starting(t *testing.T, react clienttesting.ReactionFunc) *rig {
	t.Helper()
	r := newRig(t)
	r.createService("api")
	r.createSlice("api", "one", newEndpoint(t, "one"))
	r.createGateway(r.spec("api"))
	r.gateways.PrependReactor("patch", "gatewayproxies", react)
	r.startAgent()
	r.startHAProxy()
	r.expectBody("/", "one")
	return r
}

// TestAPodOfAnOlderTemplateBecomesReady: while the operator is away, a pod can start that does not mount what the
// Gateway names by now.
func TestAPodOfAnOlderTemplateBecomesReady(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	r.put("shop", r.authority.Issue(t, []string{"shop.example.com"}))
	r.createGateway(r.tlsSpec(r.https("https", "shop.example.com", "shop"), r.https("new", "new.example.com", "new")))
	r.startKeeper()
	r.startAgent()
	r.startHAProxy()
	r.expectBody("/", "one")
	r.eventually("the pod is ready", r.agent.probes.ready)
}

func TestAReportIsWrittenAgainThoughItsKindWasNotFound(t *testing.T) {
	t.Parallel()
	var writes atomic.Int64
	r := starting(t, func(clienttesting.Action) (bool, runtime.Object, error) {
		return writes.Add(1) == 1, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "gatewayproxies"}, podName)
	})
	r.eventually("the pod is ready", r.agent.probes.ready)
	r.expectReport(1, "")
}

// TestARestartDoesNotMakeReady: an agent that starts again before its first report was taken in knows that HAProxy has
// run the configuration, and that is not enough.
func TestARestartDoesNotMakeReady(t *testing.T) {
	t.Parallel()
	r := starting(t, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("refused") })
	r.eventually("the configuration is marked", func() error {
		if _, proven, err := r.agent.store.open(); !proven {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	r.stop()
	r.startAgent()
	r.expectBody("/", "one")
	r.eventually("the agent has seen HAProxy", func() error {
		if err := r.agent.probes.ready(); err == nil || err.Error() == "HAProxy does not answer" {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	if r.agent.probes.ready() == nil {
		t.Error("the pod is ready, and no report was ever taken in")
	}
}

// TestAMarkThatWasOnlyBegun: a full disk or a crash may leave it empty.
func TestAMarkThatWasOnlyBegun(t *testing.T) {
	s := store{current: filepath.Join(t.TempDir(), "current"), epoch: 1}
	id := s.nextID()
	must.Do(t, s.write(id, sources(ir.ConfigFile, "one"), nil, true, false))
	must.Do(t, s.point(id))
	must.Do(t, s.prove(id))
	if got, proven, err := s.open(); got != id || !proven || err != nil {
		t.Fatalf("open: %q %t %v, want %q, proven", got, proven, err, id)
	}
	must.Do(t, os.WriteFile(filepath.Join(s.current, provenName), nil, 0o600))
	if got, proven, err := s.open(); got != id || proven || err != nil {
		t.Errorf("open: %q %t %v, want %q, not proven", got, proven, err, id)
	}
}

// TestARenewalDoesNotWait: that reloads are spaced out keeps no renewal waiting.
func TestARenewalDoesNotWait(t *testing.T) {
	r := newTLSRig(t, "shop")
	r.put("shop", r.authority.Issue(t, []string{"shop.example.com"}))
	spec := r.tlsSpec(r.https("https", "shop.example.com", "shop"))
	spec.DrainTimeout = "1h"
	r.start(spec)
	r.crowd(spec)
	running, renewed := r.process(), r.authority.Issue(t, []string{"shop.example.com"})
	r.put("shop", renewed)
	r.expectShown("shop.example.com", renewed)
	r.expectNoReload(running)
}

// crowd has HAProxy reloaded until there are so many old workers that reloads are spaced out.
func (r *tlsRig) crowd(spec appv1.GatewaySpec) {
	r.t.Helper()
	services := []string{"api"}
	for range manyWorkers {
		r.keepOpen()
		services = append(services, "s"+string(rune('a'+len(services))))
		spec.Routes = r.reloading(services...).Routes
		r.expectReport(r.edit(spec), "")
	}
}
