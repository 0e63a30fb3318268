// Package keystreamtest is a key server for tests: it gives everybody what a test puts.
package keystreamtest

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/keystream"
	"gateway/internal/must"
)

const token = "token-of-a-pod"

// Server is a key server.
type Server struct {
	// Client reaches it.
	Client *keystream.Client

	mu      sync.Mutex
	objects map[string]keystream.Object
	// changed is closed when there are other objects, away says that nobody gets an answer, and cut ends all streams.
	changed     chan struct{}
	away        bool
	streams     context.Context
	cut         context.CancelFunc
	connections int
}

// New starts a server.
func New(t testing.TB) *Server {
	t.Helper()
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(t, []string{"localhost"})
	certificate := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	s := &Server{objects: map[string]keystream.Object{}, changed: make(chan struct{})}
	s.streams, s.cut = context.WithCancel(context.Background())
	server := httptest.NewUnstartedServer(s)
	server.TLS, server.Config.ErrorLog = &tls.Config{Certificates: []tls.Certificate{certificate}}, log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(func() { s.SetAway(true) })
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s.Client = &keystream.Client{Address: "localhost:" + port, TokenFile: filepath.Join(dir, "token"), AuthorityFile: filepath.Join(dir, "ca.crt")}
	for file, content := range map[string][]byte{s.Client.TokenFile: []byte(token + "\n"), s.Client.AuthorityFile: authority.PEM} {
		must.Do(t, os.WriteFile(file, content, 0o600))
	}
	return s
}

// Put changes objects, by KIND/NAME; those without files are not there.
func (s *Server) Put(objects map[string]map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, files := range objects {
		kind, name, _ := strings.Cut(key, "/")
		s.objects[key] = keystream.Object{Kind: kind, Name: name, Digest: keystream.Digest(files), Files: files}
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// PutPair changes the certificate of a Secret.
func (s *Server) PutPair(secret string, pair certtest.Pair) {
	s.Put(map[string]map[string][]byte{keystream.Key(keystream.KindSecret, secret): {"tls.crt": pair.Certificate, "tls.key": pair.Key}})
}

// SetAway ends all streams, and lets nobody begin one, or does so again.
func (s *Server) SetAway(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
	s.away = away
	s.streams, s.cut = context.WithCancel(context.Background())
}

// Connections returns how often somebody asked.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request keystream.Request
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.Header.Get("Authorization") != "Bearer "+token {
		http.Error(w, "not a pod", http.StatusUnauthorized)
		return
	}
	s.mu.Lock()
	s.connections++
	streams, away := s.streams, s.away
	s.mu.Unlock()
	if away {
		http.Error(w, "not yet", http.StatusServiceUnavailable)
		return
	}
	encoder, first := json.NewEncoder(w), true
	for {
		s.mu.Lock()
		objects, changed := maps.Clone(s.objects), s.changed
		s.mu.Unlock()
		for key := range request.Have {
			if _, ok := objects[key]; !ok {
				kind, name, _ := strings.Cut(key, "/")
				objects[key] = keystream.Object{Kind: kind, Name: name}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(objects)) {
			object := objects[key]
			if have, ok := request.Have[key]; ok && have == object.Digest {
				continue
			}
			request.Have[key] = object.Digest
			_ = encoder.Encode(keystream.Line{Kind: object.Kind, Name: object.Name, Digest: object.Digest, Files: object.Files})
		}
		if first {
			_ = encoder.Encode(keystream.Line{Synced: true})
		}
		first = false
		_ = http.NewResponseController(w).Flush()
		select {
		case <-changed:
		case <-streams.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}
