package edits

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// sample is a measurement at one moment. HAProxy's memory is the sum of master and worker, in MiB. heap is the agent's
// memory after a garbage collection. resident is the agent's memory as the kernel counts it, which depends on when Go
// gives memory back.
type sample struct {
	processes, backends, entries                       int
	haproxy, heap, resident, goroutines, files, worker float64
}

// count waits until HAProxy has nothing but what the configuration has, and counts what there is.
func (s *site) count() {
	s.t.Helper()
	var now sample
	testenv.Eventually(s.t, timeout, "HAProxy has only what is used", func(context.Context) error {
		now = sample{processes: 1, backends: strings.Count(s.haproxy.Worker("show backend"), "\n") - 2}
		config, err := os.ReadFile(filepath.Join(s.paths.ConfigDir, "haproxy.cfg"))
		if err != nil {
			return err
		}
		backends, entries := strings.Count(string(config), "\nbackend ")+strings.Count(string(config), "\nlisten "), 0
		files, _ := filepath.Glob(filepath.Join(s.paths.ConfigDir, "*.map"))
		for _, file := range files {
			if !strings.Contains(string(config), file) {
				continue // HAProxy does not read it
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(content)) {
				if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
					entries++
				}
			}
			now.entries += strings.Count("\n"+s.haproxy.Worker("show map "+file), "\n0x")
		}
		now.haproxy = testenv.Memory(s.haproxy.PID)
		children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", s.haproxy.PID, s.haproxy.PID))
		for _, child := range strings.Fields(string(children)) {
			pid, _ := strconv.Atoi(child)
			now.processes++
			now.worker = testenv.Memory(pid)
			now.haproxy += now.worker
		}
		if now.processes != 2 || now.backends != backends || now.entries != entries {
			return fmt.Errorf("there are %+v, and the configuration has %d backends and %d entries:\n%s", now, backends, entries, s.haproxy.Worker("show backend"))
		}
		return nil
	})
	metrics := s.collected()
	// Go collects garbage again when the heap has twice that size.
	now.heap, now.resident = metrics["go_memstats_next_gc_bytes"]/2/(1<<20), metrics["process_resident_memory_bytes"]/(1<<20)
	now.goroutines, now.files = metrics["go_goroutines"], metrics["process_open_fds"]
	s.samples = append(s.samples, now)
}

// collected returns the agent's metrics after a garbage collection that began after the call. Each answer allocates
// memory, so enough requests lead to a collection.
func (s *site) collected() (metrics map[string]float64) {
	s.t.Helper()
	const collections = "go_gc_duration_seconds_count"
	before, err := s.metrics()
	must.Do(s.t, err)
	testenv.Eventually(s.t, timeout, "the agent collects garbage", func(context.Context) error {
		// One may have begun before.
		if metrics, err = s.metrics(); err == nil && metrics[collections] < before[collections]+2 {
			err = fmt.Errorf("it did so %.0f times, and before %.0f times", metrics[collections], before[collections])
		}
		return err
	})
	return metrics
}

func table(samples []sample) string {
	var b strings.Builder
	for _, s := range samples {
		fmt.Fprintf(&b, "processes %d, backends %d, entries of maps %d, HAProxy %.1f MiB, of which the worker has %.1f, agent %.1f MiB, of which the heap has %.1f, %.0f goroutines, %.0f files\n",
			s.processes, s.backends, s.entries, s.haproxy, s.worker, s.resident, s.heap, s.goroutines, s.files)
	}
	return b.String()
}

// growth returns what there is more of at the end than after the first part of the edits, by more than comes and goes.
func growth(samples []sample) []string {
	first, last := samples[0], samples[len(samples)-1]
	var grown []string
	for what, values := range map[string][3]float64{
		"MiB of HAProxy": {first.haproxy, last.haproxy, 16}, "MiB of the agent's heap": {first.heap, last.heap, 4},
		"goroutines": {first.goroutines, last.goroutines, 15}, "files of the agent": {first.files, last.files, 15},
	} {
		if values[1] > values[0]*1.1+values[2] {
			grown = append(grown, fmt.Sprintf("%s: %.1f at first, %.1f at the end", what, values[0], values[1]))
		}
	}
	return grown
}
