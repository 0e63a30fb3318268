// Package propagation measures how long changes take to become live, with the built agent, a real API server and a real
// HAProxy, from before the API write to the first answer by the new configuration, and what agent and HAProxy keep in
// memory.
package propagation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// poll is how often it is asked at first whether a change is live.
const poll = time.Millisecond

// BenchmarkPropagation measures each kind of change among many routes: one at a time, each once the one before is in
// the status, and while ten other routes a second are added and removed. Every route has a hostname and a Service of
// its own.
func BenchmarkPropagation(b *testing.B) {
	for _, routes := range []int{10, 1000, 3000} {
		b.Run(fmt.Sprintf("routes=%d", routes), func(b *testing.B) {
			w := newEditedWorld(b, routes)
			for _, churn := range []bool{false, true} {
				for _, edit := range edits {
					b.Run(fmt.Sprintf("churn=%v/%s", churn, edit.name), func(b *testing.B) { measure(b, w, edit, churn) })
				}
			}
		})
	}
}

func measure(b *testing.B, w *world, edit edit, churn bool) {
	b.Helper()
	if churn {
		defer w.churn(b)()
	}
	stop := w.load(b, loadEvery)
	var total, afterWrite []time.Duration
	reloads := w.reloads(b)
	used, agentUsed, started := server.CPU(b), testenv.CPU(w.agent.PID()), time.Now()
	var operatorUsed time.Duration
	if w.operator != nil {
		operatorUsed = testenv.CPU(w.operator.PID())
	}
	for b.Loop() {
		for range edit.times {
			if !churn {
				w.settle(b)
			}
			if edit.prepare != nil {
				edit.prepare(b, w)
			}
			begin := time.Now()
			change := edit.do(b, w)
			written := time.Now()
			w.await(b, change)
			total, afterWrite = append(total, time.Since(begin)), append(afterWrite, time.Since(written))
			edit.undo(b, w)
		}
	}
	if !churn {
		w.settle(b)
	}
	b.ReportMetric(float64((server.CPU(b)-used).Milliseconds())/float64(len(total)), "apiserver-ms")
	b.ReportMetric(float64((testenv.CPU(w.agent.PID())-agentUsed).Milliseconds())/float64(len(total)), "agent-ms")
	if w.operator != nil {
		b.ReportMetric(float64(len(server.Writes(b, operatorUser, started)))/float64(len(total)), "operator-writes")
		b.ReportMetric(float64((testenv.CPU(w.operator.PID())-operatorUsed).Milliseconds())/float64(len(total)), "operator-ms")
	}
	b.ReportMetric(float64(len(total)), "changes")
	b.ReportMetric(float64(stop()), "failed-requests")
	b.ReportMetric(milliseconds(total, 50), "p50-ms")
	b.ReportMetric(milliseconds(total, 99), "p99-ms")
	b.ReportMetric(milliseconds(afterWrite, 50), "p50-after-answer-ms")
	b.ReportMetric(milliseconds(afterWrite, 99), "p99-after-answer-ms")
	b.ReportMetric(w.reloads(b)-reloads, "reloads")
	b.ReportMetric(memory(b, w.agent.PID()), "agent-MiB")
	b.ReportMetric(0, "ns/op") // it has the undoing in it
}

// milliseconds returns a percentile.
func milliseconds(durations []time.Duration, percent int) float64 {
	slices.Sort(durations)
	return float64(durations[(len(durations)*percent-1)/100].Microseconds()) / 1000
}

// effect is what an edit makes of a request.
type effect struct{ host, path, answer string }

// await returns when a request has the answer. It asks ever less often, so that it takes little of the CPU.
func (w *world) await(b *testing.B, want effect) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 5*time.Minute)
	defer cancel()
	begin := time.Now()
	for {
		got, err := w.ask(ctx, want)
		if err != nil {
			b.Fatal(err)
		}
		if got == want.answer {
			return
		}
		time.Sleep(max(poll, time.Since(begin)/50))
	}
}

func (w *world) ask(ctx context.Context, want effect) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", w.port, want.path), nil)
	if err != nil {
		return "", err
	}
	request.Host = want.host
	response, err := w.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		return response.Status, err
	}
	return string(body), err
}

// loadEvery is the time between two requests of the load.
const loadEvery = 5 * time.Millisecond

// load sends requests for a route that is never edited and for one that is, until the function that it returns is
// called. That returns how many failed.
func (w *world) load(b *testing.B, every time.Duration) (stop func() int) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	failed, done := 0, make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			host := [2]string{probeHost, splitHost}[i%2]
			got, err := w.ask(ctx, effect{host: host, path: "/"})
			if ctx.Err() == nil && (err != nil || !slices.Contains(answers[:], got)) {
				failed++
				b.Logf("a request for %s was answered with %q: %v", host, got, err)
			}
		}
	}()
	return func() int {
		cancel()
		<-done
		return failed
	}
}
