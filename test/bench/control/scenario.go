package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	// manyEdits are made one after the other, each once the one before had its effect.
	manyEdits = 100
	// flapsPerSecond are changes of Services that routes name.
	flapsPerSecond = 100
	// stuck is when the benchmark gives up to wait.
	stuck = 50 * time.Minute
)

// subject is a controller that is measured, with so many Gateways.
type subject struct {
	*controller
	server    *server
	path      string
	arguments []string
	gateways  int
	// window is how long the steady state is looked at: each Gateway is resynced once.
	window  time.Duration
	results *column
}

// measure measures a controller on an API server of its own.
func (b *bench) measure(ctx context.Context, name, path string, gateways int) (results column, err error) {
	ctx, cancel := context.WithTimeout(ctx, stuck)
	defer cancel()
	results.title = fmt.Sprintf("%s, %d", name, gateways)
	server, err := startServer(b.root)
	if err != nil {
		return results, err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	kubeconfig, err := server.operatorKubeconfig(ctx, b.root, b.dir)
	if err != nil {
		return results, err
	}
	if err := server.prepare(ctx, gateways); err != nil {
		return results, err
	}
	s := &subject{server: server, path: path, gateways: gateways, window: b.resync, results: &results, arguments: []string{
		"-kubeconfig=" + kubeconfig, "-logtostderr", "-health-address=127.0.0.1:0", "-profiling", "-resync=" + b.resync.String(),
	}}
	if name == "operator" {
		s.arguments = append(s.arguments, "-leader-elect-namespace="+operatorNamespace)
	}
	if err := s.start(ctx); err != nil {
		return results, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	edits, err := newEditor(ctx, server)
	if err != nil {
		return results, err
	}
	for _, step := range []func(context.Context, *editor) error{s.burst, s.idle, s.flapping, s.restart, s.steady} {
		if err := step(ctx, edits); err != nil {
			return results, err
		}
		fmt.Fprintf(os.Stderr, "%s: %d rows\n", results.title, len(results.rows))
	}
	return results, nil
}

func (s *subject) start(ctx context.Context) (err error) {
	if s.controller, err = startController(s.path, s.arguments...); err != nil {
		return err
	}
	return s.await(ctx, logLeading)
}

// drained waits until every Gateway was looked at and nothing is left to do, and returns since when that has been so.
func (s *subject) drained(ctx context.Context) (since time.Time, err error) {
	calm := 0
	err = poll(ctx, 200*time.Millisecond, func(ctx context.Context) (bool, error) {
		m, err := s.metrics(ctx)
		if err != nil {
			return false, err
		}
		if m.sum("workqueue_depth") > 0 || m.sum("gateway_syncs_total") < float64(s.gateways+edited) {
			calm = 0
			return false, nil
		}
		if calm++; calm == 1 {
			since = time.Now()
		}
		return calm > 2, nil
	})
	return since, err
}

// burst creates all Gateways at once.
func (s *subject) burst(ctx context.Context, _ *editor) error {
	if err := s.observedAll(ctx, edited); err != nil {
		return err
	}
	before, err := s.server.metrics(ctx)
	if err != nil {
		return err
	}
	used, serverUsed, start := s.cpu(), s.server.process.cpu(), time.Now()
	created := make(chan error, 1)
	go func() { created <- s.server.burst(ctx, s.gateways) }()
	if err := s.observedAll(ctx, s.gateways+edited); err != nil {
		return err
	}
	if err := <-created; err != nil {
		return err
	}
	took := time.Since(start)
	done, err := s.drained(ctx)
	if err != nil {
		return err
	}
	after, err := s.server.metrics(ctx)
	if err != nil {
		return err
	}
	n := float64(s.gateways)
	s.results.set("burst: first create to last status; until nothing is left to do", "%.1f s, %.0f Gateways a second; %.1f s",
		took.Seconds(), n/took.Seconds(), done.Sub(start).Seconds())
	s.results.set("burst: CPU of the controller; of the API server, per Gateway", "%.1f ms; %.1f ms",
		ms(s.cpu()-used)/n, ms(s.server.process.cpu()-serverUsed)/n)
	s.results.set("burst: requests per Gateway", "%s", perGateway(after.minus(before).calls(), n))
	return s.memoryUsed(ctx, "after the burst")
}

func (s *subject) observedAll(ctx context.Context, n int) error { return s.server.observed(ctx, n) }

// memoryUsed notes the memory of the controller, and the heap that is in use after a collection.
func (s *subject) memoryUsed(ctx context.Context, when string) error {
	resident := s.memory("VmRSS")
	profile, err := s.get(ctx, "/debug/pprof/heap?gc=1")
	if err != nil {
		return err
	}
	if dir := os.Getenv("BENCH_PROFILES"); dir != "" {
		name := strings.ReplaceAll(s.results.title+" "+when, " ", "-")
		if err := os.WriteFile(dir+"/"+name+".heap", []byte(profile), 0o600); err != nil {
			return err
		}
	}
	m, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	s.results.set("memory "+when+": resident; at most so far; live heap", "%.0f MiB; %.0f MiB; %.0f MiB",
		resident/(1<<20), s.memory("VmHWM")/(1<<20), m.sum("go_memstats_heap_alloc_bytes")/(1<<20))
	return nil
}

// idle makes edits while nothing else happens.
func (s *subject) idle(ctx context.Context, editor *editor) error {
	took, err := editor.editWhile(ctx, manyEdits, func() bool { return true })
	if err != nil {
		return err
	}
	s.results.set("edit to children applied, idle: p50, p99", "%s", quantiles(took))
	return nil
}

// flapping makes edits while Services that the other Gateways name change.
func (s *subject) flapping(ctx context.Context, editor *editor) error {
	flapping, stop := context.WithCancel(ctx)
	defer stop()
	used, start := s.cpu(), time.Now()
	changed := s.server.flap(flapping, flapsPerSecond)
	took, err := editor.editWhile(ctx, manyEdits, func() bool { return true })
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	s.results.set("edit to children applied, Services flapping: p50, p99", "%s", quantiles(took))
	s.results.set("Services flapping: changes a second; CPU of the controller", "%.0f; %.0f%% of a core",
		float64(changed.Load())/elapsed.Seconds(), 100*float64(s.cpu()-used)/float64(elapsed))
	return nil
}

// restart starts the controller anew, with edits from when it begins to work until it has looked at everything.
func (s *subject) restart(ctx context.Context, editor *editor) error {
	if err := s.stop(); err != nil {
		return err
	}
	before, err := s.server.metrics(ctx)
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	leading := time.Since(s.begun)
	done, err := s.drained(ctx)
	if err != nil {
		return err
	}
	took := done.Sub(s.begun)
	after, err := s.server.metrics(ctx)
	if err != nil {
		return err
	}
	s.results.set("restart: to full caches; to every Gateway compared; CPU", "%.1f s; %.1f s; %.1f s",
		leading.Seconds(), took.Seconds(), s.cpu().Seconds())
	s.results.set("restart: writes", "%s", writes(after.minus(before).calls()))
	if err := s.memoryUsed(ctx, "after a restart"); err != nil {
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() {
		_, err := s.drained(ctx)
		over <- err
	}()
	edited, err := editor.editWhile(ctx, 1, func() bool { return len(over) > 0 })
	if err != nil {
		return err
	}
	s.results.set("edit to children applied, while it starts: p50, p99", "%s", quantiles(edited))
	return <-over
}

// steady looks at a resync without edits, and at one with.
func (s *subject) steady(ctx context.Context, editor *editor) error {
	before, err := s.server.metrics(ctx)
	if err != nil {
		return err
	}
	used, serverUsed, start := s.cpu(), s.server.process.cpu(), time.Now()
	select {
	case <-time.After(s.window):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := s.server.metrics(ctx)
	if err != nil {
		return err
	}
	elapsed := time.Since(start)
	s.results.set(fmt.Sprintf("steady state, a resync of all in %v: writes", s.window), "%s", writes(after.minus(before).calls()))
	s.results.set("steady state: CPU of the controller; of the API server, of a core", "%.1f%%; %.1f%%",
		100*float64(s.cpu()-used)/float64(elapsed), 100*float64(s.server.process.cpu()-serverUsed)/float64(elapsed))
	end := time.Now().Add(s.window)
	took, err := editor.editWhile(ctx, manyEdits, func() bool { return time.Now().After(end) })
	if err != nil {
		return err
	}
	s.results.set("edit to children applied, through a resync: p50, p99", "%s", quantiles(took))
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// perGateway lists the requests that count: reads and writes of the objects that the Gateways are made of.
func perGateway(calls map[string]float64, gateways float64) string {
	total := 0.0
	var list []string
	for _, what := range slices.Sorted(maps.Keys(calls)) {
		if counts(what) && what != "POST gateways" && calls[what] > gateways/100 {
			total += calls[what]
			list = append(list, fmt.Sprintf("%.2f %s", calls[what]/gateways, what))
		}
	}
	return fmt.Sprintf("%.2f: %s", total/gateways, strings.Join(list, ", "))
}

// writes counts the requests that want to change something, and that the benchmark does not make itself.
func writes(calls map[string]float64) string {
	total := 0.0
	for what, n := range calls {
		if verb, _, _ := strings.Cut(what, " "); counts(what) && slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE"}, verb) {
			total += n
		}
	}
	return fmt.Sprintf("%.0f", total)
}

// counts leaves out what is not about Gateways: lists and watches, leases, the API server's own, and reviews.
func counts(what string) bool {
	verb, resource, _ := strings.Cut(what, " ")
	return resource != "" && !slices.Contains([]string{"LIST", "WATCH", "CONNECT"}, verb) &&
		slices.Contains([]string{"gateways", "gateways/status", "deployments", "services", "serviceaccounts", "roles", "rolebindings",
			"poddisruptionbudgets", "events"}, resource)
}
