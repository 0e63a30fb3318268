package agent

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/golang/glog"

	"gateway/internal/haproxy/runtime"
	"gateway/internal/proxyconfig"
)

// shownReloads is how many reloads are remembered.
const shownReloads = 10

// exhibit tells who asks from within the pod what runs. Its methods may be called from several goroutines.
type exhibit struct {
	worker *runtime.Worker
	master *runtime.Master
	// asking lets one at a time ask HAProxy.
	asking sync.Mutex

	mu sync.Mutex
	// known is what the loop knows; HAProxy adds the rest when it is asked.
	known proxyconfig.Config
}

// observe notes what the loop knows at the end of a pass.
func (e *exhibit) observe(s *state, wanted int64, problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known.WantedGeneration, e.known.Problem = wanted, problem
	e.known.Generation, e.known.Configuration = 0, ""
	if s.up && s.unknown == "" {
		e.known.Generation, e.known.Configuration = s.live, s.disk.id
	}
}

// reload notes that HAProxy was told to load a configuration, and what came of it.
func (e *exhibit) reload(now time.Time, loaded load, reason string, err error) {
	reload := proxyconfig.Reload{Time: now.UTC().Truncate(time.Millisecond), Generation: loaded.generation, Configuration: loaded.id, Reason: reason}
	if err != nil {
		reload.Failure = err.Error()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// A new slice: who asked goes on reading the old one.
	e.known.Reloads = append([]proxyconfig.Reload{reload}, e.known.Reloads[:min(len(e.known.Reloads), shownReloads-1)]...)
}

// ServeHTTP answers with a proxyconfig.Config. From outside of the pod nobody gets one: kubelet forwards ports from
// within, to who has the permission for that.
func (e *exhibit) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	if peer, err := netip.ParseAddrPort(request.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
		http.Error(writer, "only for requests from within the pod: see kubectl gateway proxy-config", http.StatusForbidden)
		return
	}
	e.mu.Lock()
	answer := e.known
	e.mu.Unlock()
	if answer.Reloads == nil {
		answer.Reloads = []proxyconfig.Reload{}
	}
	e.asking.Lock()
	defer e.asking.Unlock()
	haproxy, err := e.worker.Observe(request.Context())
	if err == nil {
		answer.HAProxy = haproxy
		if haproxy.OldWorkers, err = e.master.ObserveOldWorkers(request.Context(), time.Now()); err != nil {
			glog.Warning(err)
		}
		slices.SortFunc(haproxy.Servers, proxyconfig.Server.Compare)
	} else if answer.Problem == "" {
		answer.Problem = err.Error()
	}
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(answer) // who went away needs no answer
}
