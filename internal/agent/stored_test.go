package agent

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/testtier"
	"gateway/internal/tree"
)

// TestAnEditWritesWhatItChanges: on the disk and in memory, it takes about as much among ten times as many. Whatever an
// earlier test has left running may write a line meanwhile, so the median of the edits counts.
func TestAnEditWritesWhatItChanges(t *testing.T) { //nolint:paralleltest // others would write meanwhile
	const few, many, edits = 100, 1000, 20
	for name, next := range map[string]func(n int) func(i int) ir.Config{
		"a path": func(n int) func(int) ir.Config {
			f := newFleet(n)
			return func(i int) ir.Config {
				f.put(1, f.route(1, "host-1.example.com", fmt.Sprint("/", i), map[int]int32{1: 1}))
				return f.config
			}
		},
		"another Service": func(n int) func(int) ir.Config {
			f := newFleet(n)
			return func(i int) ir.Config {
				f.put(1, f.route(1, "host-1.example.com", "/", map[int]int32{n + i%2: 1}))
				return f.config
			}
		},
		"a listener": func(n int) func(int) ir.Config {
			h := newHosts(n / 4)
			return func(i int) ir.Config {
				sections, files := h.config.Sections, h.config.Files
				h.put(h.set(7, 4+i%2))
				if i > 0 { // as state.next has it
					h.config.Sections, h.config.Files = sections, files
				}
				return h.config
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(n int) (wrote, allocated uint64) {
				s, next := store{current: filepath.Join(t.TempDir(), "current"), epoch: 1}, next(n)
				write := func(i int) (wrote, allocated uint64) {
					config, id := next(i), s.nextID()
					wrote, allocated = written(t), allocatedBytes()
					mustDo(t, s.write(id, config, nil, false, true))
					mustDo(t, s.point(id))
					mustDo(t, s.prune(id))
					return written(t) - wrote, allocatedBytes() - allocated
				}
				write(0)
				write(1) // makes the other copy
				var all, inMemory [edits]uint64
				for i := range edits {
					all[i], inMemory[i] = write(2 + i)
				}
				slices.Sort(all[:])
				slices.Sort(inMemory[:])
				return all[edits/2], inMemory[edits/2]
			}
			fewWrote, fewAllocated := cost(few)
			manyWrote, manyAllocated := cost(many)
			if float64(manyWrote) > 1.3*float64(fewWrote) || float64(manyAllocated) > 1.5*float64(fewAllocated) {
				t.Errorf("an edit writes %d bytes and allocates %d among %d, and %d and %d among %d",
					manyWrote, manyAllocated, many, fewWrote, fewAllocated, few)
			}
		})
	}
}

// written is how many bytes this process has written.
func written(t *testing.T) (bytes uint64) {
	t.Helper()
	content, err := os.ReadFile("/proc/self/io")
	mustDo(t, err)
	_, after, _ := strings.Cut(string(content), "wchar: ")
	_, err = fmt.Sscan(after, &bytes)
	mustDo(t, err)
	return bytes
}

func allocatedBytes() uint64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.TotalAlloc
}

// TestPatchedFiles: after random edits, the files have the same lines as if they were written whole. Until the symlink
// leads to the next configuration, no byte of that before has changed. So an agent may be killed at any time: the next
// one finds what was on the disk before, which HAProxy is known to start on.
func TestPatchedFiles(t *testing.T) {
	t.Parallel()
	r := testtier.Rand(t)
	s, config, before := store{current: filepath.Join(t.TempDir(), "current"), epoch: 1}, ir.Config{}, map[string][]byte(nil)
	text := func() string { return strings.Repeat("x", 1+r.IntN(200)) }
	for i := range 150 {
		config = patched(r.IntN, config, text)
		id, whole := s.nextID(), r.IntN(50) == 0
		mustDo(t, s.write(id, config, []byte(id), whole, true))
		if now := files(t, s.current); i > 0 && !maps.EqualFunc(now, before, bytes.Equal) {
			t.Fatalf("%d: the configuration that HAProxy may start on has changed", i)
		}
		if i > 0 && r.IntN(10) == 0 { // it is killed, in the midst of a file
			for name, content := range files(t, s.dir(id)) {
				if path := filepath.Join(s.dir(id), name); !isOne(path, filepath.Join(s.current, name)) {
					mustDo(t, os.WriteFile(path, content[:r.IntN(len(content)+1)], fileMode))
				}
			}
			current, err := os.Readlink(s.current)
			mustDo(t, err)
			s = store{current: s.current, epoch: int64(i)}
			if found, proven, err := s.open(); found != current || !proven || err != nil {
				t.Fatalf("%d: the next agent finds %q, %t, %v, and not %q", i, found, proven, err, current)
			}
			mustDo(t, s.prune(current))
			continue
		}
		mustDo(t, s.point(id))
		mustDo(t, s.prune(id))
		before = files(t, s.current)
		for name, content := range config.AllFiles() {
			if got, want := lines(before[name]), lines(content); !slices.Equal(got, want) {
				t.Fatalf("%d: %s is %q, want %q", i, name, got, want)
			}
			if size := len(before[name]); size > 4*len(content)+2*spareBytes {
				t.Fatalf("%d: %s has %d bytes for %d", i, name, size, len(content))
			}
		}
		if found, proven, err := (&store{current: s.current}).open(); found != id || !proven || err != nil {
			t.Fatalf("%d: the next agent finds %q, %t, %v", i, found, proven, err)
		}
		if all, err := os.ReadDir(filepath.Dir(s.current)); err != nil || len(all) > 3 {
			t.Fatalf("%d: there are %v, %v", i, all, err)
		}
	}
}

// TestAFileThatIsGone is in no later directory, so that the mark of what HAProxy has run is right.
func TestAFileThatIsGone(t *testing.T) {
	t.Parallel()
	s := store{current: filepath.Join(t.TempDir(), "current"), epoch: 1}
	for i, names := range [][]string{{ir.HostsFile, ir.HSTSFile}, {ir.HostsFile, ir.HSTSFile}, {ir.HostsFile}, {ir.HostsFile}} {
		id, config := s.nextID(), ir.Config{Maps: map[string]tree.Map[string]{}}
		for _, name := range names {
			config.Maps[name] = tree.Of(map[string]string{"key": fmt.Sprint(i)})
		}
		mustDo(t, s.write(id, config, []byte(id), false, true))
		mustDo(t, s.point(id))
		mustDo(t, s.prune(id))
		if found, proven, err := (&store{current: s.current}).open(); found != id || !proven || err != nil {
			t.Errorf("%d: the next agent finds %q, %t, %v", i, found, proven, err)
		}
	}
}

// patched returns a configuration after a random change.
func patched(n func(int) int, config ir.Config, text func() string) ir.Config {
	key := fmt.Sprint("key-", n(30))
	all := map[string]tree.Map[string]{}
	maps.Copy(all, config.Maps)
	config.Maps = all
	switch n(6) {
	case 0:
		all[ir.HostsFile] = all[ir.HostsFile].With(key, text())
	case 1:
		all[ir.HostsFile] = all[ir.HostsFile].Without(key)
	case 2:
		name, content := ir.NewContent([]string{ir.PathsFile, ir.FiltersFile}[n(2)], []ir.MapEntry{{Key: "/" + text(), Value: text()}, {Key: "/", Value: "x"}})
		config.Contents = config.Contents.With(ir.ContentKey(content.File, name), content)
		for id := range config.Contents.Keys() {
			if n(8) == 0 {
				config.Contents = config.Contents.Without(id)
			}
		}
	case 3:
		config.Backends = config.Backends.With(key, (ir.Backend{Defaults: "d"}).WithServers([]ir.Server{{Address: "10.0.0.1", Port: int32(1 + n(9))}}))
	case 4:
		config.Backends = config.Backends.Without(key)
	case 5:
		list := config.Certificates["certificates-443.list"]
		line := ir.CertificateLine{File: key, Options: text()}
		if list.Lines.Len() > n(20) {
			list.Lines = list.Lines.Without(list.Lines.First().String())
		}
		list.Lines = list.Lines.With(line.String(), &line)
		config.Certificates = map[string]ir.CertificateList{"certificates-443.list": list}
	}
	if n(40) == 0 {
		config.Sections = []ir.Section{{Header: "defaults " + key, Lines: ir.Lines("", text())}}
	}
	return config
}

// files are those of a directory.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	mustDo(t, err)
	files := map[string][]byte{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		mustDo(t, err)
		files[entry.Name()] = content
	}
	return files
}

// lines are those that are not empty, sorted.
func lines(content []byte) []string {
	all := slices.DeleteFunc(strings.Split(string(content), "\n"), func(line string) bool { return line == "" })
	slices.Sort(all)
	return all
}

// TestHAProxyStartsOnPatchedFiles after listeners, hosts and backends have come and gone.
func TestHAProxyStartsOnPatchedFiles(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "a", "b")
	a, b := r.authority.Issue(t, []string{"a.example.com"}), r.authority.Issue(t, []string{"b.example.com", "c.example.com"})
	r.put("a", a)
	r.put("b", b)
	r.start(r.tlsSpec(r.https("first", "a.example.com", "a"), r.https("second", "b.example.com", "b")))
	r.expectReport(1, "")
	r.createService("other")
	r.createSlice("other", "one", newEndpoint(t, "another"))
	worker := r.process()
	for _, hostname := range []string{"c.example.com", "b.example.com", "c.example.com"} {
		spec := r.tlsSpec(r.https("first", "a.example.com", "a"), r.https("second", hostname, "b"))
		if hostname == "c.example.com" {
			spec.Routes = append(spec.Routes, r.spec("api", "other").Routes[1])
		}
		r.expectReport(r.edit(spec), "")
		if hostname == "c.example.com" { // the agent may hear of the Service after the Gateway
			r.expectBody("/other", "another")
		}
	}
	r.expectNoReload(worker) // which writes all files anew
	for _, file := range []string{ir.ConfigFile, ir.HostsFile, ir.NamesFile, fmt.Sprintf("certificates-%d.list", r.httpsPort)} {
		content, err := os.ReadFile(filepath.Join(r.options.Paths.ConfigDir, file))
		if err != nil || !bytes.Contains(content, []byte("\n\n\n")) {
			t.Errorf("%s has no emptied lines: it was not patched (%v)", file, err)
		}
	}
	r.haproxy.Stop()
	r.startHAProxy()
	for hostname, pair := range map[string]certtest.Pair{"a.example.com": a, "c.example.com": b} {
		if state, err := r.shown(hostname); err != nil || !state.PeerCertificates[0].Equal(pair.Leaf) {
			t.Errorf("%s: %v", hostname, err)
		}
	}
	if _, err := r.shown("b.example.com"); err == nil {
		t.Error("the hostname that is gone is served")
	}
	if status, body, err := r.get("/other"); err != nil || body != "another" {
		t.Errorf("/other is answered with %d %q, %v", status, body, err)
	}
}
