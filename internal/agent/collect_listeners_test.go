package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/render"
	"gateway/internal/inventory"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	"gateway/internal/testtier"
)

// TestChangedListenersHaveWhatAllHave: after random edits of listeners and Secrets, certificates, problems and the
// files of HAProxy are the same as if nothing had been there before.
func TestChangedListenersHaveWhatAllHave(t *testing.T) {
	t.Parallel()
	r := testtier.Rand(t)
	now := time.Now()
	files := mounted{hasKeys: true, certificates: map[string]certificateFile{}, authorities: map[string]authorityFile{}, versions: map[string]int{}, plain: map[string]*plain{}}
	put := func() {
		secret := fmt.Sprint("secret-", r.IntN(8))
		name := []string{"*.example.com", "h1.example.com", "h2.example.com", "h3.other.com"}[r.IntN(4)]
		file := certificateFile{Certificate: inventory.Certificate{NotBefore: now, NotAfter: now.Add(time.Duration(r.IntN(400)) * time.Minute), Names: []string{name}}}
		file.KeyType = 1
		if r.IntN(12) == 0 {
			file.KeyType = 3
		}
		files.certificates[secret] = file
		files.versions[secret]++
	}
	for range 8 {
		put()
	}
	var last material
	var renderer render.Renderer
	spec := appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}}
	in := func(table routing.Table, found material) render.Input {
		return render.Input{Table: table, Certificates: found.certificates, Authorities: found.authorities, Certified: found.changed}
	}
	partly := 0
	for i := range 400 {
		now = now.Add(time.Second)
		if r.IntN(10) == 0 {
			put()
			last.listeners = nil
		} else {
			editListeners(&spec, r.IntN)
		}
		table, _ := routingtest.Compile(&spec)
		got := collect(&table, files, "shop", now, &last)
		anew := files
		anew.plain = nil
		want := collect(&table, anew, "shop", now, &material{})
		if fmt.Sprint(got.certificates, got.problems, got.unmounted) != fmt.Sprint(want.certificates, want.problems, want.unmounted) || isLater(got.until, want.until) {
			t.Fatalf("%d: got %+v, want %+v", i, got, want)
		}
		if last = got; got.changed != nil {
			partly++
		}
		if a, b := renderer.Render(in(table, got)).AllFiles(), render.Render(in(table, want)).AllFiles(); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Fatalf("%d: rendered %s, want %s", i, a, b)
		}
	}
	if partly < 50 {
		t.Errorf("%d times, not all listeners were looked at", partly)
	}
}

// isLater reports whether a time that may be never, the zero one, is after another one.
func isLater(a, b time.Time) bool { return !b.IsZero() && (a.IsZero() || a.After(b)) }

// editListeners adds or removes one at random.
func editListeners(spec *appv1.GatewaySpec, n func(int) int) {
	if at := n(len(spec.Listeners)); at > 0 && n(2) == 0 {
		spec.Listeners = slices.Delete(slices.Clone(spec.Listeners), at, at+1)
		return
	}
	hostname := appv1.Hostname([]string{"", "*.example.com", "h1.example.com", "h2.example.com", "h3.other.com"}[n(5)])
	if slices.ContainsFunc(spec.Listeners, func(l appv1.Listener) bool { return l.Port == 443 && l.Hostname == hostname }) {
		return
	}
	listener := appv1.Listener{Name: appv1.Name(fmt.Sprint("l", n(1000))), Port: 443, Protocol: appv1.ProtocolHTTPS, Hostname: hostname, TLS: &appv1.ListenerTLS{}}
	for range 1 + n(2) {
		listener.TLS.CertificateRefs = append(listener.TLS.CertificateRefs, appv1.ObjectReference{Name: fmt.Sprint("secret-", n(8))})
	}
	spec.Listeners = append(spec.Listeners, listener)
}
