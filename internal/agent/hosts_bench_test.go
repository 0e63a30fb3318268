package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/inventory"
	"gateway/internal/journal"
	"gateway/internal/must"
)

// BenchmarkHosts measures a pod whose hosts have a certificate each, from a key server: its start beside HAProxy's own,
// and from one more certificate to the first handshake with it.
func BenchmarkHosts(b *testing.B) {
	for _, hosts := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(hosts), func(b *testing.B) { benchmarkHosts(b, hosts) })
	}
}

func benchmarkHosts(b *testing.B, hosts int) { //nolint:funlen // one pod's life
	b.Helper()
	const spare = 20 // hosts whose certificates come later
	r := newTLSRig(b)
	r.useKeyServer()
	pairs, objects, spec := make([]certtest.Pair, hosts+spare), map[string]map[string][]byte{}, r.tlsSpec()
	for i := range pairs {
		name := fmt.Sprintf("host-%d.example.com", i)
		pairs[i] = r.authority.Issue(b, []string{name})
		key := fmt.Sprint("Secret/secret-", i)
		if objects[key] = nil; i < hosts {
			objects[key] = map[string][]byte{"tls.crt": pairs[i].Certificate, "tls.key": pairs[i].Key}
		}
		spec.Listeners = append(spec.Listeners, r.https(fmt.Sprint("listener-", i), name, fmt.Sprint("secret-", i)))
	}
	r.server.Put(objects)

	metrics := map[string]float64{}
	memory, begin, cpu := heap(), time.Now(), cpuTime(b)
	r.startKeeper()
	r.eventually("the Keeper is ready", func() error {
		found, err := journal.Open[inventory.Entry](filepath.Join(r.shownDir, inventory.File))
		if _, ok := found.Values[inventory.Status]; err == nil && !ok {
			err = errors.New("there is nothing yet")
		}
		return err
	})
	metrics["keeper-s"] = time.Since(begin).Seconds()
	metrics["keeper-cpu-s"] = (cpuTime(b) - cpu).Seconds()
	metrics["keeper-bytes/host"] = float64(heap()-memory+stored(b, r.pairsDir, r.shownDir)) / float64(hosts)

	r.createGateway(spec)
	memory, begin, cpu = heap(), time.Now(), cpuTime(b)
	r.startAgent()
	r.eventually("a configuration is on disk", func() error { return r.agent.probes.started() })
	metrics["agent-s"] = time.Since(begin).Seconds()
	metrics["agent-cpu-s"] = (cpuTime(b) - cpu).Seconds()
	begin = time.Now()
	r.haproxy = haproxytest.Start(b, r.options.Paths, nil)
	metrics["haproxy-s"] = time.Since(begin).Seconds()
	r.eventually("the pod is ready", r.agent.probes.ready)
	metrics["haproxy-to-ready-s"] = time.Since(begin).Seconds()
	metrics["agent-bytes/host"] = float64(heap()-memory) / float64(hosts)

	i, cpu := 0, cpuTime(b)
	worker := r.worker()
	for b.Loop() {
		host := hosts + i%spare
		if i++; i > spare {
			pairs[host] = r.authority.Issue(b, []string{fmt.Sprintf("host-%d.example.com", host)})
		}
		r.server.PutPair(fmt.Sprint("secret-", host), pairs[host])
		for {
			state, err := r.shown(fmt.Sprintf("host-%d.example.com", host))
			if err == nil && state.PeerCertificates[0].Equal(pairs[host].Leaf) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	b.ReportMetric((cpuTime(b)-cpu).Seconds()*1000/float64(b.N), "cpu-ms/op")
	for name, value := range metrics {
		b.ReportMetric(value, name)
	}
	if r.worker() != worker {
		b.Error("HAProxy was reloaded")
	}
}

// heap is how much is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// stored is what files take in memory: whole pages.
func stored(b *testing.B, dirs ...string) (bytes uint64) {
	b.Helper()
	const page = 4096
	for _, dir := range dirs {
		must.Do(b, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			info, err := entry.Info()
			if err == nil {
				bytes += uint64((info.Size() + page - 1) / page * page)
			}
			if strings.HasPrefix(filepath.Base(path), ".journal-") {
				err = errors.Join(err, errors.New("a journal was not written to its end"))
			}
			return err
		}))
	}
	return bytes
}
