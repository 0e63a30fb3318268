package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/proxyconfig"
)

func TestNothingStartsBeforeThereIsAGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.startAgent()
	r.eventually("the caches are filled", func() error { return r.locked(r.agent.watch.synced) })
	r.agent.probes.beat(time.Time{})
	r.eventually("the loop comes round", func() error { return r.agent.probes.alive(time.Now()) })
	if r.agent.probes.started() == nil || r.agent.probes.ready() == nil {
		t.Error("without a Gateway, the pod passes for started or ready")
	}
	r.createGateway(r.spec("api"))
	r.startHAProxy()
	r.expectReport(1, "")
	r.eventually("the pod is ready", r.agent.probes.ready)
	r.expectStatus("/", http.StatusInternalServerError)
}

// Backends that start with the proxy come while HAProxy reads the disk.
func TestEndpointsThatComeBeforeHAProxyTakeNoReload(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.createService("api")
	r.createGateway(r.spec("api"))
	r.startAgent()
	r.eventually("a configuration is on disk", func() error { return r.agent.probes.started() })
	dirs := loadDirs(t, r.options.Paths)
	r.createSlice("api", "one", newEndpoint(t, "one"))
	r.eventually("the endpoint was looked at", func() error {
		return r.locked(func() bool {
			return len(r.followed(testSlices).objects[namespace]) > 0 && r.agent.delay.seen.Load() == 0
		})
	})
	r.startHAProxy()
	started := r.process()
	if !slices.Equal(dirs, []string{started.LoadID}) {
		t.Errorf("HAProxy started on %s, on the disk were %v", started.LoadID, dirs)
	}
	r.expectBody("/", "one")
	r.expectReport(1, "")
	r.expectNoReload(started)
}

func TestARouteEditTakesNoReload(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	before := r.process()
	spec := r.spec("api")
	spec.Routes[0].Rules[0].Matches[0].Path.Value = "/moved"
	generation := r.edit(spec)
	r.expectBody("/moved", "one")
	r.expectStatus("/", http.StatusNotFound)
	r.expectReport(generation, "")
	if paths, err := os.ReadFile(r.options.Paths.Map(ir.PathsFile)); err != nil || !strings.Contains(string(paths), "/moved") {
		t.Errorf("it was reported before it was on the disk (%v): %s", err, paths)
	}
	r.expectNoReload(before)
	if dirs := loadDirs(t, r.options.Paths); len(dirs) > 2 {
		t.Errorf("old configurations are left: %v", dirs)
	}
}

func TestEndpointsChangeUnderLoadWithoutReloadOrFailure(t *testing.T) {
	t.Parallel()
	r, one := serving(t)
	before := r.process()
	var requests atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				requests.Add(1)
				if status, body, err := r.get("/"); err != nil || status != http.StatusOK {
					t.Errorf("a request failed: %d %q %v", status, body, err)
				}
			}
		})
	}
	two := newEndpoint(t, "two")
	var took []time.Duration
	for range 10 {
		start := time.Now()
		r.moveSlice("api", "one", two)
		r.expectBody("/", "two")
		took = append(took, time.Since(start))
		r.moveSlice("api", "one", one)
		r.expectBody("/", "one")
	}
	cancel()
	clients.Wait()
	r.expectNoReload(before)
	slices.Sort(took)
	t.Logf("%d requests; endpoint change to first answer by it: median %s, most %s", requests.Load(), took[5], took[9])
}

func TestANewServiceTakesNoReload(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	running := r.process()
	r.createService("shop")
	r.createSlice("shop", "one", newEndpoint(t, "shop"))
	r.expectReport(r.edit(r.spec("api", "shop")), "")
	r.expectBody("/shop", "shop")
	r.moveSlice("shop", "one", newEndpoint(t, "moved"))
	r.expectBody("/shop", "moved")
	r.expectProxyConfig("it names the Service", func(c proxyconfig.Config) bool {
		return slices.ContainsFunc(c.HAProxy.Servers, func(server proxyconfig.Server) bool { return server.Backend == "shop_shop_80" })
	})
	r.expectNoReload(running)
}

// TestRetriesTakeAReloadForTheirReason, but only the first of a kind.
func TestRetriesTakeAReloadForTheirReason(t *testing.T) {
	r, _ := serving(t)
	reloads := func() float64 {
		return metric(t, "gateway_agent_loads_total", `kind="reload"`, `reason="`+ir.ReloadDefaults+`"`)
	}
	before, services, attempts := reloads(), []string{"api"}, int32(1)
	for _, service := range []string{"shop", "more"} {
		services = append(services, service)
		r.createService(service)
		r.createSlice(service, "one", newEndpoint(t, service))
		spec := r.spec(services...)
		for i := range spec.Routes {
			spec.Routes[i].Rules[0].Retry = &appv1.RouteRetry{Attempts: &attempts}
		}
		generation := r.edit(spec)
		r.expectBody("/"+service, service)
		r.expectReport(generation, "")
	}
	if got := reloads() - before; got != 1 {
		t.Errorf("%v reloads were counted for their reason, want 1", got)
	}
}

func TestARefusedConfigurationIsRolledBack(t *testing.T) {
	t.Parallel()
	r, one := serving(t)
	running := r.process()
	// HAProxy cannot bind a port that somebody else has.
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	defer taken.Close() //nolint:errcheck // the test is over
	bad := r.spec("api")
	bad.Listeners = append(bad.Listeners, *bad.Listeners[0].DeepCopy())
	bad.Listeners[1].Name, bad.Listeners[1].Port = "taken", int32(taken.Addr().(*net.TCPAddr).Port)
	generation := r.edit(bad)
	r.expectReport(1, fmt.Sprintf("generation %d: port %d is taken by another process in the pod", generation, bad.Listeners[1].Port))
	r.expectBody("/", "one")
	r.must(r.agent.probes.ready())

	r.createSlice("api", "two", newEndpoint(t, "two"))
	r.expectBody("/", "two")
	r.deleteSlice("api", "two")
	r.expectNoReload(running)

	// A container that restarts now gets the last good configuration, with the endpoints of today.
	r.moveSlice("api", "one", one)
	r.haproxy.Stop()
	r.startHAProxy()
	r.expectBody("/", "one")

	// Once the port is free, it is used.
	_ = taken.Close()
	r.expectReport(generation, "")
}

func TestHAProxyThatWasKilledStartsOnTheNewestState(t *testing.T) {
	r, _ := serving(t)
	r.moveSlice("api", "one", newEndpoint(t, "two"))
	r.expectBody("/", "two")
	reloads := metric(t, "gateway_agent_loads_total", `kind="reload"`)
	r.haproxy.Stop()
	r.await("the pod is not ready", func() bool { return r.agent.probes.ready() != nil })
	// Changes made meanwhile are on the disk when HAProxy comes back.
	three := newEndpoint(t, "three")
	r.moveSlice("api", "one", three)
	r.eventually("the change is on the disk", func() error { return r.onDisk(fmt.Sprintf("127.0.0.1:%d", three.port)) })
	r.startHAProxy()
	if _, body, err := r.get("/"); err != nil || body != "three" {
		t.Errorf("right after the start: %q, %v", body, err)
	}
	r.eventually("the pod is ready again", r.agent.probes.ready)
	r.moveSlice("api", "one", newEndpoint(t, "four"))
	r.expectBody("/", "four")
	if got := metric(t, "gateway_agent_loads_total", `kind="reload"`); got != reloads {
		t.Errorf("%v reloads for a restart", got-reloads)
	}
}

func TestEndpointsAreOnTheDiskSoon(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	two := newEndpoint(t, "two")
	r.moveSlice("api", "one", two)
	r.expectBody("/", "two")
	r.eventually("the endpoint is on the disk", func() error { return r.onDisk(fmt.Sprintf("127.0.0.1:%d", two.port)) })
	r.moveSlice("api", "one", newEndpoint(t, "three"))
	r.expectBody("/", "three")
	r.stop()
	if r.onDisk(fmt.Sprintf("127.0.0.1:%d", two.port)) == nil {
		t.Error("the agent ended and did not write down the last endpoints")
	}
}

// An edit is live without the disk, and is reported once it is there.
func TestAnEditThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	r.awaitOldWorker()
	next := r.options.Paths.ConfigDir + ".next"
	r.must(os.MkdirAll(filepath.Join(next, "in the way"), 0o750))
	spec := r.spec("api")
	spec.Routes[0].Rules[0].Matches[0].Path.Value = "/moved"
	generation := r.edit(spec)
	r.expectBody("/moved", "one")
	r.expectReport(generation-1, "failed to remove an old symlink: ")
	r.must(os.RemoveAll(next))
	r.expectReport(generation, "")
}

func TestADamagedConfigurationOnDiskIsMadeAnew(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	r.haproxy.Stop()
	r.stop()
	file := filepath.Join(r.options.Paths.ConfigDir, ir.ConfigFile)
	r.must(os.WriteFile(file, []byte("\x00garbage\n"), 0o600))
	r.startAgent()
	r.startHAProxy()
	r.expectBody("/", "one")
	r.expectReport(1, "")
}

// An edit while HAProxy cannot start on what is on the disk writes all of it anew, also what is as it was.
func TestAnEditMendsADamagedConfigurationOnDisk(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	r.haproxy.Stop()
	r.must(os.WriteFile(filepath.Join(r.options.Paths.ConfigDir, ir.ConfigFile), []byte("\x00garbage\n"), 0o600))
	r.await("the pod is not ready", func() bool { return r.agent.probes.ready() != nil })
	spec := r.spec("api")
	spec.Routes[0].Rules[0].Matches[0].Path.Value = "/other"
	generation := r.edit(spec)
	r.eventually("the edit is on the disk", func() error {
		content, err := os.ReadFile(filepath.Join(r.options.Paths.ConfigDir, ir.PathsFile))
		if err == nil && !strings.Contains(string(content), "/other/") {
			err = errors.New("it is not")
		}
		return err
	})
	r.startHAProxy()
	r.expectBody("/other", "one")
	r.expectReport(generation, "")
}

func TestAnAgentThatRestartsWithoutAnAPIServerLeavesAllAsItIs(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	running, live := r.process(), r.proxyConfig().Live
	r.stop()

	down := atomic.Bool{}
	down.Store(true)
	refuse := func(k8stesting.Action) (bool, k8sruntime.Object, error) {
		return down.Load(), nil, errors.New("connection refused")
	}
	r.gateways.PrependReactor("list", "*", refuse)
	r.core.PrependReactor("list", "*", refuse)
	r.startAgent()
	r.must(r.agent.probes.started())
	r.eventually("the pod is ready", r.agent.probes.ready)
	r.expectBody("/", "one")
	r.expectNoReload(running)

	down.Store(false)
	r.expectProxyConfig("the agent knows what runs", func(c proxyconfig.Config) bool { return c.Live.Generation() == 1 })
	if again := r.proxyConfig().Live; !reflect.DeepEqual(again, live) {
		t.Errorf("the version is %+v, and was %+v", again, live)
	}
	r.expectReport(1, "")
	r.expectBody("/", "one")
}

// The live generation of one Gateway is not reported for the next one of its name.
func TestANewGatewayOfTheNameIsNotLive(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	r.must(err)
	defer taken.Close() //nolint:errcheck // the test is over
	r.deleteGateway()
	bad := r.spec("api")
	bad.Listeners = append(bad.Listeners, appv1.Listener{Name: "taken", Port: int32(taken.Addr().(*net.TCPAddr).Port), Protocol: appv1.ProtocolHTTP})
	r.createGateway(bad, "uid-2")
	r.expectReport(0, "LoadFailed generation 1: ")
}

func TestANewGatewayOfTheNameThatIsAsTheOldOneIsLive(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	r.deleteGateway()
	r.createGateway(r.spec("api"), "uid-2")
	r.expectReport(1, "")
}
