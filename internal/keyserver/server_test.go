package keyserver

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"gateway/internal/certtest"
	"gateway/internal/keystream"
	"gateway/internal/must"
)

// fixture is a server that listens. Its API server takes the tokens of pods.
type fixture struct {
	*handler
	t         *testing.T
	address   string
	authority []byte
	config    *tls.Config
	// unready is what is missing, reviews counts what the API server was asked, and away says that it does not answer.
	unready atomic.Pointer[string]
	reviews atomic.Int32
	away    atomic.Bool
	// pods are those that exist, by UID.
	pods atomic.Pointer[map[string]bool]
}

// tokenOf returns the token of a pod, for an audience. The API server takes it unless its signature is another.
func tokenOf(audience, account, pod, signature string) string {
	payload := fmt.Sprintf(`{"aud":[%q],"sub":%q,"exp":%d,"pod":%q}`, audience, account, time.Now().Add(time.Hour).Unix(), pod)
	return "header." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + signature
}

func podToken(gateway, pod string) string {
	return tokenOf(keystream.Audience, "system:serviceaccount:web:"+gateway+"-gateway", pod, "valid")
}

// newFixture returns a server with objects that does not listen.
func newFixture(t *testing.T, documents ...string) *fixture {
	t.Helper()
	f := &fixture{t: t}
	f.pods.Store(&map[string]bool{"pod-1": true, "pod-2": true})
	kube := kubefake.NewClientset()
	kube.PrependReactor("create", "tokenreviews", f.reviewToken)
	f.handler = &handler{state: newState(everywhere), review: newReviewer(kube), ready: func() error {
		if missing := f.unready.Load(); missing != nil {
			return errors.New(*missing)
		}
		return nil
	}}
	f.state.put(t, false, read(t, documents...)...)
	authority := certtest.NewAuthority(t)
	pair := authority.Issue(t, []string{"localhost"})
	certificate := must.Get(tls.X509KeyPair(pair.Certificate, pair.Key))(t)
	f.config = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	f.authority = authority.PEM
	return f
}

// start returns a fixture that listens.
func start(t *testing.T, documents ...string) *fixture {
	t.Helper()
	f := newFixture(t, documents...)
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	must.Do(t, err)
	f.address = "localhost:" + port
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- f.serve(ctx, listener, f.config) }()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-served)
	})
	return f
}

// reviewToken is the API server.
func (f *fixture) reviewToken(action clienttesting.Action) (bool, runtime.Object, error) {
	f.reviews.Add(1)
	if f.away.Load() {
		return true, nil, errors.New("connection refused")
	}
	review := action.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
	parts := strings.Split(review.Spec.Token, ".")
	payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Aud      []string
		Sub, Pod string
	}
	must.Do(f.t, json.Unmarshal(payload, &claims))
	isFor := slices.Equal(review.Spec.Audiences, claims.Aud)
	answer := &authenticationv1.TokenReview{}
	if pod := claims.Pod; parts[2] == "valid" && isFor && (pod == "" || (*f.pods.Load())[pod]) {
		answer.Status = authenticationv1.TokenReviewStatus{
			Authenticated: true, Audiences: claims.Aud,
			User: authenticationv1.UserInfo{Username: claims.Sub, Extra: map[string]authenticationv1.ExtraValue{}},
		}
		if pod != "" {
			answer.Status.User.Extra = map[string]authenticationv1.ExtraValue{extraPodName: {"name-of-" + pod}, extraPodUID: {pod}}
		}
	}
	return true, answer, nil
}

// client returns a client that shows a token.
func (f *fixture) client(token string) *keystream.Client {
	dir := f.t.TempDir()
	c := &keystream.Client{Address: f.address, TokenFile: filepath.Join(dir, "token"), AuthorityFile: filepath.Join(dir, "ca.crt")}
	must.Do(f.t, os.WriteFile(c.TokenFile, []byte(token), 0o600))
	must.Do(f.t, os.WriteFile(c.AuthorityFile, f.authority, 0o600))
	return c
}

// watcher is a pod that watches.
type watcher struct {
	t     *testing.T
	lines chan string
	ended chan error
}

// watch starts a pod that shows a token and has some objects.
func (f *fixture) watch(token string, have map[string]string) *watcher {
	w := &watcher{f.t, make(chan string, 1000), make(chan error, 1)}
	ctx, cancel := context.WithCancel(f.t.Context())
	f.t.Cleanup(cancel)
	client := f.client(token)
	go func() {
		isSynced := false
		w.ended <- client.Watch(ctx, have, func(objects []keystream.Object, synced bool) error {
			for _, object := range objects {
				w.lines <- fmt.Sprintf("%s/%s %d", object.Kind, object.Name, len(object.Files))
			}
			if synced && !isSynced {
				isSynced = true
				w.lines <- "synced"
			}
			return nil
		})
	}()
	return w
}

// expect expects the next lines, in any order.
func (w *watcher) expect(want ...string) {
	w.t.Helper()
	var got []string
	for range want {
		select {
		case line := <-w.lines:
			got = append(got, line)
		case err := <-w.ended:
			w.t.Fatalf("the stream ended with %v after %q, want %q", err, got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Fatalf("the pod got %q, want %q", got, want)
	}
}

// expectRefused expects that a pod gets nothing.
func (w *watcher) expectRefused(status int) {
	w.t.Helper()
	var refused *keystream.StatusError
	if err := <-w.ended; !errors.As(err, &refused) || refused.Status != status || len(w.lines) > 0 {
		w.t.Fatalf("got error %v and %d lines, want status %d", err, len(w.lines), status)
	}
}

var granted = "Secret/" + local("certs/granted")

func TestAPodGetsWhatItsGatewayMayHave(t *testing.T) {
	f := start(t, secrets, shop, own)
	first := f.watch(podToken("shop", "pod-1"), nil)
	first.expect("ConfigMap/clients 4", granted+" 2", "Secret/own 2", "synced")
	other := f.watch(podToken("plain", "pod-2"), map[string]string{granted: "", "Secret/passed": "digest", "ConfigMap/clients": ""})
	other.expect("ConfigMap/clients 4", "Secret/own 2", "Secret/passed 0", "synced")

	f.state.put(t, true, read(t, strings.Split(shop, "\n---\n")[2])...)
	first.expect(granted + " 0")
	f.state.put(t, false, read(t, shop)...)
	first.expect(granted + " 2")
	renewed := read(t, strings.ReplaceAll(secrets, "tls.crt: c", "tls.crt: renewed"))
	f.state.put(t, false, renewed...)
	first.expect(granted+" 2", "Secret/own 2")
	other.expect("Secret/own 2")
	f.state.put(t, false, renewed...)
	f.state.put(t, true, read(t, secrets)...)
	first.expect("ConfigMap/clients 0", granted+" 0", "Secret/own 0")

	f.state.put(t, true, read(t, own)...)
	if err := <-other.ended; err != nil || len(other.lines) > 2 {
		t.Errorf("after its Gateway, the stream ended with %v and %d lines", err, len(other.lines))
	}
}

// TestHave: a pod gets what differs from what it has.
func TestHave(t *testing.T) {
	f := start(t, secrets, shop)
	digest := keystream.Digest(map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k")})
	w := f.watch(podToken("shop", "pod-1"), map[string]string{"Secret/own": digest, granted: "other", "Other/own": "1", "ConfigMap/none": ""})
	w.expect("ConfigMap/clients 4", granted+" 2", "synced")
}

// TestIdentity: nobody but the pods of a Gateway gets anything.
func TestIdentity(t *testing.T) {
	f := start(t, secrets, shop)
	const account = "system:serviceaccount:web:shop-gateway"
	tests := map[string]struct {
		token   string
		status  int
		reviews int32
	}{
		"no token":                         {"", http.StatusUnauthorized, 0},
		"something":                        {"abc", http.StatusUnauthorized, 0},
		"the agent's, for the API server":  {tokenOf("https://kubernetes.default.svc", account, "pod-1", "valid"), http.StatusUnauthorized, 0},
		"of another issuer":                {tokenOf(keystream.Audience, account, "pod-1", "forged"), http.StatusUnauthorized, 1},
		"of a pod that is gone":            {tokenOf(keystream.Audience, account, "pod-3", "valid"), http.StatusUnauthorized, 1},
		"of no pod":                        {tokenOf(keystream.Audience, account, "", "valid"), http.StatusForbidden, 1},
		"of a Gateway that does not exist": {podToken("other", "pod-1"), http.StatusForbidden, 0},
		"of another ServiceAccount":        {tokenOf(keystream.Audience, "system:serviceaccount:web:shop", "pod-1", "valid"), http.StatusForbidden, 0},
		"of a user":                        {tokenOf(keystream.Audience, "web:shop-gateway", "pod-1", "valid"), http.StatusForbidden, 0},
		"too long":                         {podToken("shop", strings.Repeat("x", maxToken)), http.StatusUnauthorized, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := f.reviews.Load()
			f.watch(test.token, nil).expectRefused(test.status)
			if asked := f.reviews.Load() - before; asked != test.reviews {
				t.Errorf("the API server was asked %d times, want %d", asked, test.reviews)
			}
		})
	}
}

// TestReplay: the token of a pod that is gone opens nothing.
func TestReplay(t *testing.T) {
	f := start(t, secrets, shop)
	token := podToken("shop", "pod-1")
	f.watch(token, nil).expect("ConfigMap/clients 4", granted+" 2", "Secret/own 2", "synced")
	f.pods.Store(&map[string]bool{})
	f.watch(token, nil).expectRefused(http.StatusUnauthorized)
}

// TestUnknownIsNotNone: before all objects are known, and while tokens cannot be checked, the server reports no object
// as missing. Streams go on.
func TestUnknownIsNotNone(t *testing.T) {
	f := start(t, shop)
	missing := "the API server has not listed secrets"
	f.unready.Store(&missing)
	f.watch(podToken("shop", "pod-1"), nil).expectRefused(http.StatusServiceUnavailable)
	f.unready.Store(nil)
	f.state.put(t, false, read(t, secrets)...)
	before := f.watch(podToken("shop", "pod-1"), nil)
	before.expect("ConfigMap/clients 4", granted+" 2", "Secret/own 2", "synced")
	f.away.Store(true)
	f.watch(podToken("shop", "pod-2"), nil).expectRefused(http.StatusServiceUnavailable)
	f.state.put(t, true, read(t, strings.Split(shop, "\n---\n")[2])...)
	before.expect(granted + " 0")
}

// TestOneStreamForAPod: a pod that asks again ends its earlier stream. So one that is lost holds nothing.
func TestOneStreamForAPod(t *testing.T) {
	f := start(t, secrets, shop)
	all := []string{"ConfigMap/clients 4", granted + " 2", "Secret/own 2", "synced"}
	first := f.watch(podToken("shop", "pod-1"), nil)
	first.expect(slices.Clone(all)...)
	second := f.watch(podToken("shop", "pod-1"), nil)
	second.expect(slices.Clone(all)...)
	if err := <-first.ended; err != nil {
		t.Errorf("the first stream ended with %v", err)
	}
}

// TestBounds: the number of streams is bounded, and a Gateway cannot take the streams of others.
func TestBounds(t *testing.T) {
	s := newState(everywhere)
	s.put(t, false, read(t, shop, own)...)
	shop, plain := types.NamespacedName{Namespace: "web", Name: "shop"}, types.NamespacedName{Namespace: "web", Name: "plain"}
	var streams []*stream
	for i := range maxGatewayStreams {
		st := must.Get(s.open(shop, types.UID(fmt.Sprint(i)), nil))(t)
		streams = append(streams, st)
	}
	if _, err := s.open(shop, "more", nil); !errors.Is(err, errTooMany) {
		t.Errorf("one stream more: %v", err)
	}
	if _, err := s.open(plain, "other", nil); err != nil {
		t.Errorf("the stream of another Gateway: %v", err)
	}
	if again, err := s.open(shop, "1", nil); err != nil || !isClosed(streams[1].ended) {
		t.Errorf("a pod that asks again: %v, %v", again, err)
	}
	for _, st := range streams {
		s.close(st)
	}
	names := map[string]string{}
	for i := range maxUnnamed {
		names[fmt.Sprint("Secret/none-", i)] = "digest"
	}
	long := must.Get(s.open(shop, "long", names))(t)
	if _, err := s.open(shop, "longer", map[string]string{"Secret/none": ""}); !errors.Is(err, errTooMany) {
		t.Errorf("one name more: %v", err)
	}
	if st, err := s.open(plain, "other", names); err != nil || s.plans[plain].unnamed != maxUnnamed {
		t.Errorf("the names of another Gateway: %v, %v", st, err)
	}
	told := 0
	for changed := s.next(long); len(changed) > 0; changed = s.next(long) {
		told += len(differing(changed, names))
	}
	if told < maxUnnamed || len(names) > len(s.plans[shop].needs) || s.plans[shop].unnamed != 0 {
		t.Errorf("%d names were told, %d are kept, and %d count", told, len(names), s.plans[shop].unnamed)
	}
	s.close(long)
	if n := len(s.pods); n != 2 {
		t.Errorf("%d streams are left", n)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	b := bound(nil)
	for i := range maxConnections + 10 {
		address := fmt.Sprint("10.0.0.", i%maxConnections)
		if got, want := b.take(address), i < maxConnections; got != want {
			t.Fatalf("connection %d of all: %v", i, got)
		}
	}
	b = bound(nil)
	for i := range maxAddressConnections + 1 {
		if got, want := b.take("10.0.0.1"), i < maxAddressConnections; got != want {
			t.Fatalf("connection %d of an address: %v", i, got)
		}
	}
	b.release("10.0.0.1")
	if !b.take("10.0.0.1") || !b.take("10.0.0.2") {
		t.Error("a connection that ended counts")
	}
}
