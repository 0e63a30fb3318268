package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/logging"
	"gateway/internal/proxyconfig"
)

// shownReloads is how many reloads are remembered.
const shownReloads = 10

// configHandler answers requests from within the pod with what HAProxy runs. Its methods may be called from several
// goroutines.
type configHandler struct {
	worker *runtime.Worker
	master *runtime.Master
	// asking lets one at a time ask HAProxy.
	asking sync.Mutex

	mu sync.Mutex
	// known is what the loop knows, with the versions; HAProxy adds the rest when it is asked.
	known        proxyconfig.Config
	wanted, live version
}

// observe notes the state of the loop at the end of a pass.
func (h *configHandler) observe(s *state, wanted version, problems []appv1.ProxyProblem) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wanted, h.known.Problem = wanted, ""
	if len(problems) > 0 {
		h.known.Problem = problems[0].Message
	}
	h.live, h.known.Configuration = version{}, ""
	if s.isKnown() {
		h.live, h.known.Configuration = s.running.live, s.disk.id
	}
}

// addReload notes a reload, and its result.
func (h *configHandler) addReload(now time.Time, loaded *disk, reason string, err error) {
	reload := proxyconfig.Reload{
		Time: now.UTC().Truncate(time.Millisecond), Version: loaded.version.shown(), Configuration: loaded.id, Reason: reason,
	}
	if err != nil {
		reload.Failure = err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	// A new slice: who asked goes on reading the old one.
	h.known.Reloads = append([]proxyconfig.Reload{reload}, h.known.Reloads[:min(len(h.known.Reloads), shownReloads-1)]...)
}

// ServeHTTP answers with a proxyconfig.Config. It refuses requests from outside of the pod. kubelet forwards ports from
// within, for users who may do that.
func (h *configHandler) ServeHTTP(writer http.ResponseWriter, request *http.Request) {
	if !isFromPod(writer, request) {
		return
	}
	h.mu.Lock()
	answer, wanted, live := h.known, h.wanted, h.live
	h.mu.Unlock()
	answer.Wanted, answer.Live = wanted.shown(), live.shown()
	if answer.Reloads == nil {
		answer.Reloads = []proxyconfig.Reload{}
	}
	h.asking.Lock()
	defer h.asking.Unlock()
	haproxy, err := h.worker.Observe(request.Context())
	if err == nil {
		answer.HAProxy = haproxy
		if haproxy.OldWorkers, err = h.master.ObserveOldWorkers(request.Context(), time.Now()); err != nil {
			logging.Warningf("%v", err)
		}
		slices.SortFunc(haproxy.Servers, proxyconfig.Server.Compare)
	} else if answer.Problem == "" {
		answer.Problem = err.Error()
	}
	answerJSON(writer, answer)
}

// isFromPod reports whether a request comes from within the pod. It answers others.
func isFromPod(writer http.ResponseWriter, request *http.Request) bool {
	if peer, err := netip.ParseAddrPort(request.RemoteAddr); err != nil || !peer.Addr().Unmap().IsLoopback() {
		http.Error(writer, "only for requests from within the pod: see kubectl gateway proxy-config", http.StatusForbidden)
		return false
	}
	return true
}

func answerJSON(writer http.ResponseWriter, answer any) {
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(answer) // who went away needs no answer
}

// serveUnderWay answers with a proxyconfig.UnderWay, as ServeHTTP does.
func (h *configHandler) serveUnderWay(writer http.ResponseWriter, request *http.Request) {
	if !isFromPod(writer, request) {
		return
	}
	older, err := strconv.ParseUint(cmp.Or(request.URL.Query().Get(proxyconfig.ParameterOlder), "0"), 10, 31)
	if err != nil {
		http.Error(writer, proxyconfig.ParameterOlder+" is no number of seconds", http.StatusBadRequest)
		return
	}
	requests, err := h.underWay(request.Context(), time.Duration(older)*time.Second) //nolint:gosec // it has 31 bits
	if err != nil {
		http.Error(writer, err.Error(), http.StatusServiceUnavailable)
		return
	}
	count := min(len(requests), proxyconfig.MaxUnderWay)
	answerJSON(writer, proxyconfig.UnderWay{Requests: requests[:count], More: len(requests) - count})
}

// underWay returns the requests that have no full answer yet, the oldest first.
func (h *configHandler) underWay(ctx context.Context, age time.Duration) ([]proxyconfig.Request, error) {
	h.asking.Lock()
	defer h.asking.Unlock()
	requests, err := h.worker.UnderWay(ctx, age)
	if err != nil {
		return nil, err
	}
	old, err := h.master.UnderWay(ctx, age)
	if err != nil {
		logging.Warningf("%v", err)
	}
	requests = append(append([]proxyconfig.Request{}, requests...), old...)
	slices.SortStableFunc(requests, func(a, b proxyconfig.Request) int { return a.Started.Compare(b.Started) })
	return requests, nil
}
