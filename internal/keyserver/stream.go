package keyserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/keystream"
)

const (
	// lifetime is how long a stream lasts, and a fifth of it more or less: afterwards its pod shows its token again.
	lifetime = 5 * time.Minute
	// writeTimeout is how long a pod may take to read a line, and the request to arrive.
	writeTimeout = 10 * time.Second
	// maxStreams is the most streams, and maxGatewayStreams the most for one Gateway. A pod has one.
	maxStreams, maxGatewayStreams = 2048, 512
	// maxUnnamed bounds the names that a Gateway's pods may ask for while the Gateway does not name them.
	maxUnnamed = 100_000
	// maxBatch is how many objects are looked up at once.
	maxBatch = 64
)

// errTooMany is returned if there are too many streams.
var errTooMany = errors.New("too many pods ask at the same time")

// stream tells a pod what changes. Its state's mutex guards it.
type stream struct {
	gateway types.NamespacedName
	pod     types.UID
	// dirty are the keys whose content may be another than the pod has.
	dirty map[string]bool
	// unnamed is how many of them the Gateway did not name when the pod asked, and the pod has not been told of.
	unnamed int
	// wake has something if any is, and ended is closed when the stream has to end.
	wake, ended chan struct{}
	isEnded     bool
}

// touch notes that what a key stands for may be another.
func (st *stream) touch(key string) {
	st.dirty[key] = true
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

func (st *stream) end() {
	if !st.isEnded {
		st.isEnded = true
		close(st.ended)
	}
}

// hasGateway reports whether there is a Gateway of our own.
func (s *state) hasGateway(name types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own[name] != nil
}

// open opens a stream for a pod of a Gateway, which has some objects. An earlier one of the pod ends.
func (s *state) open(gateway types.NamespacedName, pod types.UID, have map[string]string) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier := s.pods[pod]; earlier != nil {
		earlier.end()
		s.remove(earlier)
	}
	if s.own[gateway] == nil {
		return nil, errNoGateway
	}
	p := s.plan(gateway)
	if len(s.pods) >= maxStreams || len(p.streams) >= maxGatewayStreams {
		return nil, errTooMany
	}
	extra := 0
	for key := range have {
		if p.needs[key] == nil {
			extra++
		}
	}
	if p.unnamed+extra > maxUnnamed {
		return nil, errTooMany
	}
	p.unnamed += extra
	st := &stream{
		gateway: gateway, pod: pod, unnamed: extra, dirty: make(map[string]bool, len(p.needs)),
		wake: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	for key := range p.needs {
		st.dirty[key] = true
	}
	for key := range have {
		st.dirty[key] = true
	}
	p.streams[st], s.pods[pod] = true, st
	return st, nil
}

// takeLong reports whether one more long request of a Gateway may be read. releaseLong ends that.
func (s *state) takeLong(gateway types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plan(gateway)
	if p.long >= maxLong {
		return false
	}
	p.long++
	return true
}

func (s *state) releaseLong(gateway types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plan(gateway).long--
	s.prune(gateway)
}

// close removes a stream.
func (s *state) close(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(st)
}

func (s *state) remove(st *stream) {
	if p := s.plans[st.gateway]; p != nil && p.streams[st] {
		delete(p.streams, st)
		p.unnamed -= st.unnamed
		s.prune(st.gateway)
	}
	if s.pods[st.pod] == st {
		delete(s.pods, st.pod)
	}
}

// endAll ends the streams of a Gateway.
func (s *state) endAll(gateway types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.plans[gateway]; p != nil {
		for st := range p.streams {
			st.end()
		}
	}
}

// next returns the content of some keys that may have changed.
func (s *state) next(st *stream) map[string]*content {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make(map[string]*content, min(len(st.dirty), maxBatch))
	p := s.plans[st.gateway]
	for key := range st.dirty {
		if len(found) == maxBatch || st.isEnded {
			break
		}
		delete(st.dirty, key)
		if found[key] = s.content(p, key); p.needs[key] == nil {
			found[key] = unnamed
			if st.unnamed > 0 {
				st.unnamed--
				p.unnamed--
			}
		}
	}
	return found
}

// writer writes lines to a pod.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// write writes lines. It fails if the pod does not read them.
func (w *writer) write(lines ...keystream.Line) error {
	for i := range lines {
		encoded, err := json.Marshal(&lines[i])
		if err != nil {
			return fmt.Errorf("failed to encode a line: %w", err)
		}
		if err := w.control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
			return fmt.Errorf("failed to bound how long a pod takes to read: %w", err)
		}
		if _, err := w.Write(append(encoded, '\n')); err != nil {
			return fmt.Errorf("failed to write to a pod: %w", err)
		}
	}
	return w.control.Flush()
}

// send tells a pod what differs from what it has, until ctx or the stream ends.
func (s *state) send(ctx context.Context, st *stream, have map[string]string, w *writer) error {
	const fifth = lifetime / 5
	end := time.NewTimer(lifetime - fifth + rand.N(2*fifth))
	defer end.Stop()
	ping := time.NewTicker(keystream.PingInterval)
	defer ping.Stop()
	for synced := false; ; {
		changed := s.next(st)
		if isClosed(st.ended) {
			return nil // it is not told the rest
		}
		lines := differing(changed, have)
		if !synced && len(changed) < maxBatch {
			lines, synced = append(lines, keystream.Line{Synced: true}), true
		}
		if err := w.write(lines...); err != nil {
			return err
		}
		if len(changed) == maxBatch {
			continue
		}
		select {
		case <-st.wake:
		case <-ping.C:
			if err := w.write(keystream.Line{Ping: true}); err != nil {
				return err
			}
		case <-end.C:
			return nil
		case <-st.ended:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// differing returns lines for what differs from what a pod has, and notes in have that the pod has it. What the Gateway
// does not name is forgotten.
func differing(changed map[string]*content, have map[string]string) []keystream.Line {
	var lines []keystream.Line
	for key, content := range changed {
		kind, name := split(key)
		digest, known := have[key]
		if have[key] = content.digest; content == unnamed {
			delete(have, key)
			known = true // that there is none
		}
		if kind == "" || known && digest == content.digest {
			continue
		}
		lines = append(lines, keystream.Line{Kind: kind, Name: name, Digest: content.digest, Files: content.files})
	}
	return lines
}
