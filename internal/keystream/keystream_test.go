package keystream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
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
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/must"
)

// serve starts a server over TLS, and returns a client that trusts it.
func serve(t *testing.T, handler http.HandlerFunc) *Client {
	t.Helper()
	authority := certtest.NewAuthority(t)
	server := httptest.NewUnstartedServer(handler)
	pair := authority.Issue(t, []string{"localhost"})
	certificate := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return client(t, "localhost:"+port, authority)
}

func client(t *testing.T, address string, authority *certtest.Authority) *Client {
	t.Helper()
	dir := t.TempDir()
	c := &Client{Address: address, TokenFile: filepath.Join(dir, "token"), AuthorityFile: filepath.Join(dir, "ca.crt")}
	write(t, c.TokenFile, "secret-token\n")
	write(t, c.AuthorityFile, string(authority.PEM))
	return c
}

func write(t *testing.T, file, content string) {
	t.Helper()
	must.Do(t, os.WriteFile(file, []byte(content), 0o600))
}

// send writes lines.
func send(w http.ResponseWriter, lines ...Line) {
	encoder := json.NewEncoder(w)
	for _, line := range lines {
		_ = encoder.Encode(line)
	}
	_ = http.NewResponseController(w).Flush()
}

// recorder is what was got.
type recorder struct {
	names  []string
	synced []bool
}

func (r *recorder) got(objects []Object, synced bool) error {
	for _, object := range objects {
		r.names = append(r.names, fmt.Sprintf("%s %s %s", Key(object.Kind, object.Name), object.Digest, object.Files["tls.crt"]))
	}
	r.synced = append(r.synced, synced)
	return nil
}

func TestWatch(t *testing.T) {
	var asked Request
	var header http.Header
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != Path {
			t.Errorf("%s: %v", r.URL, err)
		}
		send(w, Line{Ping: true}, Line{Kind: KindSecret, Name: "a", Digest: "1", Files: map[string][]byte{"tls.crt": []byte("A")}},
			Line{Kind: KindConfigMap, Name: "b"}, Line{Synced: true}, Line{Kind: KindSecret, Name: "c", Digest: "3"})
	})
	have := map[string]string{"Secret/a": "0", "ConfigMap/b": "2", "Secret/d": ""}
	var r recorder
	must.Do(t, c.Watch(t.Context(), have, r.got))
	if !maps.Equal(asked.Have, have) || header.Get("Authorization") != "Bearer secret-token" {
		t.Errorf("the server was asked with %v, %v", asked, header)
	}
	if want := []string{"Secret/a 1 A", "ConfigMap/b  ", "Secret/c 3 "}; !slices.Equal(r.names, want) {
		t.Errorf("got %q, want %q", r.names, want)
	}
	if !slices.Contains(r.synced, true) || !r.synced[len(r.synced)-1] {
		t.Errorf("synced was %v", r.synced)
	}
}

// What arrived together is passed on together, but never more than what came before the mark with the mark.
func TestDeliver(t *testing.T) {
	lines := make(chan Line, 2*maxBatch)
	for i := range maxBatch + 1 {
		lines <- Line{Kind: KindSecret, Name: fmt.Sprint(i)}
	}
	lines <- Line{Synced: true}
	lines <- Line{Kind: KindSecret, Name: "late"}
	close(lines)
	var batches []string
	err := deliver(lines, func(objects []Object, synced bool) error {
		batches = append(batches, fmt.Sprint(len(objects), synced))
		return nil
	})
	if want := []string{"256 false", "1 true", "1 true"}; err != nil || !slices.Equal(batches, want) {
		t.Errorf("got %v, error %v, want %v", batches, err, want)
	}
}

// failure is how a stream fails.
type failure struct {
	handler http.HandlerFunc
	change  func(c *Client)
	got     func([]Object, bool) error
	want    string
}

var errDisk = errors.New("no disk")

func TestWatchFails(t *testing.T) {
	tests := map[string]failure{
		"refused": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "the token is for nobody", http.StatusUnauthorized)
			},
			want: "the key server answers 401 Unauthorized: the token is for nobody",
		},
		"elsewhere": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
			},
			want: "answers 307 Temporary Redirect",
		},
		"cut in a line": {
			handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"kind":"Secret"`) },
			want:    "not a line of a stream",
		},
		"cut": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				send(w, Line{Synced: true})
				panic(http.ErrAbortHandler)
			},
			want: "unexpected EOF",
		},
		"a line without end": {
			handler: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", MaxLine+1)) },
			want:    "a line is longer than",
		},
		"what was got fails": {
			handler: func(w http.ResponseWriter, _ *http.Request) { send(w, Line{Synced: true}) },
			got:     func([]Object, bool) error { return errDisk },
			want:    errDisk.Error(),
		},
		"another CA": {
			change: func(c *Client) { write(t, c.AuthorityFile, string(certtest.NewAuthority(t).PEM)) },
			want:   "certificate signed by unknown authority",
		},
		"no CA":    {change: func(c *Client) { write(t, c.AuthorityFile, "") }, want: "has no certificate"},
		"no token": {change: func(c *Client) { c.TokenFile += "-" }, want: "failed to read the token"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if test.handler == nil {
					t.Error("the server was asked")
					return
				}
				test.handler(w, r)
			})
			if test.change != nil {
				test.change(c)
			}
			if test.got == nil {
				test.got = new(recorder).got
			}
			if err := c.Watch(t.Context(), nil, test.got); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

// A server that says nothing is given up, and one that pings is not.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, server := io.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		context.AfterFunc(ctx, func() { _ = server.CloseWithError(context.Cause(ctx)) })
		start, pings := time.Now(), 10*PingInterval
		go func() {
			for time.Since(start) < pings {
				time.Sleep(PingInterval)
				_ = json.NewEncoder(server).Encode(Line{Ping: true})
			}
		}()
		if err := read(ctx, cancel, stream, make(chan Line)); !errors.Is(err, errSilent) {
			t.Errorf("got error %v, want %v", err, errSilent)
		}
		if took := time.Since(start); took != pings+silence {
			t.Errorf("it was given up after %v", took)
		}
	})
}

func TestDigest(t *testing.T) {
	contents := []map[string][]byte{
		nil, {"a": nil}, {"a": []byte("b")}, {"ab": nil}, {"a": []byte("b"), "c": []byte("d")}, {"a": []byte("bcd")},
	}
	seen := map[string]int{}
	for i, files := range contents {
		digest := Digest(files)
		if other, ok := seen[digest]; ok {
			t.Errorf("%v and %v have one digest", files, contents[other])
		}
		seen[digest] = i
	}
	if Digest(map[string][]byte{}) != "" {
		t.Error("no files have a digest")
	}
}
