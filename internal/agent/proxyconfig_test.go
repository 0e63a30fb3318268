package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/proxyconfig"
)

// proxyConfig is what the agent answers.
func (r *rig) proxyConfig() proxyconfig.Config {
	r.t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, proxyconfig.Path, nil)
	request.RemoteAddr = "127.0.0.1:12345"
	r.agent.proxyConfig.ServeHTTP(recorder, request)
	var config proxyconfig.Config
	if err := json.Unmarshal(recorder.Body.Bytes(), &config); err != nil || recorder.Code != http.StatusOK {
		r.t.Fatalf("the answer is %d %q: %v", recorder.Code, recorder.Body, err)
	}
	return config
}

// expectProxyConfig waits until the answer is right.
func (r *rig) expectProxyConfig(what string, check func(proxyconfig.Config) bool) proxyconfig.Config {
	r.t.Helper()
	var config proxyconfig.Config
	r.eventually(what, func() error {
		if config = r.proxyConfig(); !check(config) {
			return fmt.Errorf("the answer is %+v, of HAProxy %+v", config, config.HAProxy)
		}
		return nil
	})
	return config
}

func TestProxyConfigSaysWhatRuns(t *testing.T) {
	t.Parallel()
	r, one := serving(t)
	address := fmt.Sprintf("127.0.0.1:%d", one.port)
	first := r.expectProxyConfig("the first configuration runs", func(c proxyconfig.Config) bool { return c.Live.Generation() == 1 })
	if first.Wanted.Generation() != 1 || first.Problem != "" || first.Configuration != first.HAProxy.StartedOn || len(first.Reloads) != 0 {
		t.Errorf("the first answer is %+v, of HAProxy %+v", first, first.HAProxy)
	}
	if origin := (model.Origin{Kind: "Gateway", Namespace: namespace, Name: gatewayN, Generation: 1}); len(first.Live.Origins) != 1 || first.Live.Origins[0] != origin {
		t.Errorf("the version is %+v", first.Live)
	}
	servers := first.HAProxy.Servers
	if len(servers) != 1 || servers[0].Address != address || !servers[0].IsUsable() || servers[0].Total == 0 || servers[0].Total > first.HAProxy.Requests {
		t.Errorf("the servers are %+v, with %d requests", servers, first.HAProxy.Requests)
	}
	if first.HAProxy.PID != r.process().PID || first.HAProxy.Version == "" {
		t.Errorf("HAProxy is %+v", first.HAProxy)
	}

	// A change that takes no reload.
	two := newEndpoint(t, "two")
	r.createSlice("api", "two", two)
	r.expectBody("/", "two")
	changed := r.expectProxyConfig("there is another configuration", func(c proxyconfig.Config) bool { return c.Configuration != first.Configuration })
	if changed.Live.Hash != first.Live.Hash || len(changed.HAProxy.Servers) != 2 || changed.HAProxy.StartedOn != first.HAProxy.StartedOn || len(changed.Reloads) != 0 {
		t.Errorf("after an endpoint came, the answer is %+v, of HAProxy %+v", changed, changed.HAProxy)
	}

	// One that does, while a client is connected.
	client, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	r.must(err)
	defer client.Close() //nolint:errcheck // the test is over
	_, err = io.WriteString(client, "GET / HTTP/1.1\r\n")
	r.must(err)
	r.expectProxyConfig("the client is seen", func(c proxyconfig.Config) bool { return c.HAProxy.Sessions == 1 })
	spec := r.spec("api")
	spec.TrustedProxies = []appv1.CIDR{"192.0.2.0/24"}
	generation := r.edit(spec)
	reloaded := r.expectProxyConfig("the next generation runs", func(c proxyconfig.Config) bool { return c.Live.Generation() == generation })
	want := proxyconfig.Reload{Time: reloaded.Reloads[0].Time, Version: reloaded.Live, Configuration: reloaded.Configuration, Reason: reloaded.Reloads[0].Reason}
	if len(reloaded.Reloads) != 1 || !reflect.DeepEqual(reloaded.Reloads[0], want) || want.Reason == "" || want.Time.Before(reloaded.HAProxy.Started) {
		t.Errorf("the reloads are %+v, of HAProxy %+v", reloaded.Reloads, reloaded.HAProxy)
	}
	if reloaded.Live.Hash == first.Live.Hash {
		t.Errorf("the version is %+v, and was %+v", reloaded.Live, first.Live)
	}
	old := reloaded.HAProxy.OldWorkers
	if len(old) != 1 || old[0].PID != first.HAProxy.PID || old[0].Sessions != 1 || old[0].Started.Before(first.HAProxy.Started.Add(-2*time.Second)) {
		t.Errorf("the old workers are %+v", old)
	}
	r.must(client.Close())
	r.expectProxyConfig("the old worker ended", func(c proxyconfig.Config) bool { return len(c.HAProxy.OldWorkers) == 0 })
}

func TestProxyConfigSaysWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	r.haproxy.Stop()
	down := r.expectProxyConfig("HAProxy is down", func(c proxyconfig.Config) bool { return c.Live == nil && c.Configuration == "" })
	if down.HAProxy != nil || down.Wanted.Generation() != 1 || !strings.Contains(down.Problem, "HAProxy") {
		t.Errorf("the answer is %+v, of HAProxy %+v", down, down.HAProxy)
	}
}

func TestReloadsAreRemembered(t *testing.T) {
	h := &configHandler{}
	for i := range 2 * shownReloads {
		h.addReload(time.Now(), newDisk("", int64(i)), "a reason", nil)
	}
	kept := slices.Clone(h.known.Reloads)
	h.addReload(time.Now(), newDisk("", 99), "a reason", errors.New("no"))
	if len(kept) != shownReloads || kept[0].Version.Generation() != 2*shownReloads-1 || kept[shownReloads-1].Version.Generation() != shownReloads {
		t.Errorf("remembered are %+v", kept)
	}
	if latest := h.known.Reloads[0]; len(h.known.Reloads) != shownReloads || latest.Version.Generation() != 99 || latest.Failure != "no" {
		t.Errorf("remembered are %+v", h.known.Reloads)
	}
}

// TestProxyConfigIsForThePodAlone asks from other addresses.
func TestProxyConfigIsForThePodAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var err error
	r.agent, err = New(r.options)
	r.must(err)
	for remote, want := range map[string]int{
		"127.0.0.1:1": http.StatusOK, "[::1]:1": http.StatusOK, "[::ffff:127.0.0.1]:1": http.StatusOK,
		"10.0.0.1:1": http.StatusForbidden, "[fd00::1]:1": http.StatusForbidden, "[::ffff:10.0.0.1]:1": http.StatusForbidden, "": http.StatusForbidden,
	} {
		recorder := httptest.NewRecorder()
		request := httptest.NewRequest(http.MethodGet, proxyconfig.Path, nil)
		request.RemoteAddr = remote
		r.agent.proxyConfig.ServeHTTP(recorder, request)
		if recorder.Code != want {
			t.Errorf("a request from %q is answered with %d, want %d", remote, recorder.Code, want)
		}
	}
}
