package prove

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/test/internal/testenv"
)

// dns is what external-dns writes records to: a provider by its webhook.
type dns struct {
	t  *testing.T
	mu sync.Mutex
	// records are those there are, by name and type.
	records map[string]record
	// deleted are the names of deleted ones, and looks is how often external-dns has looked at all.
	deleted []string
	looks   int
}

type record struct {
	Name    string            `json:"dnsName"`
	Targets []string          `json:"targets"`
	Type    string            `json:"recordType"`
	TTL     int64             `json:"recordTTL,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

func (r record) key() string { return r.Type + " " + r.Name }

// startExternalDNS starts external-dns, which looks at all objects five times a second, and deletes what is not wanted.
func startExternalDNS(t *testing.T) *dns {
	t.Helper()
	d := &dns{t: t, records: map[string]record{}}
	provider := httptest.NewServer(d)
	t.Cleanup(provider.Close)
	testenv.Start(t, nil, tool(t, "external-dns"), "--kubeconfig="+server.Kubeconfig, "--provider=webhook", "--webhook-provider-url="+provider.URL,
		"--source=gateway-httproute", "--gateway-listener-sets", "--source=ingress", "--registry=txt", "--txt-owner-id=prove", "--policy=sync",
		"--interval=200ms", "--metrics-address=127.0.0.1:0", "--log-level=debug")
	return d
}

func (d *dns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.Header().Set("Content-Type", "application/external.dns.webhook+json;version=1")
	var err error
	switch {
	case r.URL.Path == "/records" && r.Method == http.MethodPost:
		var changes struct{ Create, UpdateNew, Delete []record }
		err = json.NewDecoder(r.Body).Decode(&changes)
		for _, one := range changes.Delete {
			delete(d.records, one.key())
			if one.Type != "TXT" {
				d.deleted = append(d.deleted, one.Name)
			}
		}
		for _, one := range append(changes.Create, changes.UpdateNew...) {
			d.records[one.key()] = one
		}
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == "/records":
		d.looks++
		all := []record{}
		for _, one := range d.records {
			all = append(all, one)
		}
		err = json.NewEncoder(w).Encode(all)
	case r.URL.Path == "/adjustendpoints":
		_, err = io.Copy(w, r.Body)
	default:
		_, err = io.WriteString(w, "{}") // all domains
	}
	if err != nil {
		d.t.Error(err)
	}
}

// targets are the addresses of a name.
func (d *dns) targets(name string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.records["A "+name].Targets
}

// expect waits until a name has addresses, or is not there.
func (d *dns) expect(name string, want ...string) time.Duration {
	d.t.Helper()
	begin := time.Now()
	testenv.Eventually(d.t, soon, fmt.Sprintf("%s to have %q", name, want), func(context.Context) error {
		if got := d.targets(name); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
	return time.Since(begin)
}

// look waits until external-dns has looked at everything three times.
func (d *dns) look() {
	d.t.Helper()
	count := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.looks
	}
	want := count() + 4 // the first may have begun
	testenv.Eventually(d.t, soon, "external-dns to look", func(context.Context) error {
		if got := count(); got < want {
			return fmt.Errorf("%d of %d", got, want)
		}
		return nil
	})
}

// takeDeleted returns the names that were deleted since the last call.
func (d *dns) takeDeleted() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	deleted := d.deleted
	d.deleted = nil
	return deleted
}

// expectDeleted expects just these names to be deleted since the last call, and returns how many were.
func (d *dns) expectDeleted(t *testing.T, what string, want ...string) int {
	t.Helper()
	d.look()
	deleted := d.takeDeleted()
	if !slices.Equal(deleted, want) {
		t.Errorf("%s: records were deleted: %q instead of %q", what, deleted, want)
	}
	return len(deleted)
}

// TestExternalDNS: external-dns publishes the hosts of HTTPRoutes at Gateways and ListenerSets, and of Ingresses, and
// deletes none that is served.
func TestExternalDNS(t *testing.T) {
	s := startSite(t)
	port := s.startEcho()
	for _, namespace := range []string{"team-0", "front"} {
		s.createNamespace(namespace)
		s.createService(namespace, port)
	}
	s.createService(infra, port)
	s.apply(sharedGateway)
	s.apply(frontIngress)
	p := s.startProxy(infra, "shop")
	ingress := s.startProxy(ingresses, "gateway")
	d := startExternalDNS(t)

	s.route(infra, "shop", "Gateway/shop", "http", "shop.example.com")
	row(t, "a record of an HTTPRoute at a Gateway", "after %v", d.expect("shop.example.com", p.address).Round(time.Millisecond))
	s.route("team-0", "blog", "ListenerSet/blog", "http", "blog.example.com")
	row(t, "of one at a ListenerSet", "after %v", d.expect("blog.example.com", p.address).Round(time.Millisecond))
	d.expect("front.example.org", ingress.address)
	d.takeDeleted()

	t.Run("moves", func(t *testing.T) { proveMoves(t, s, d, p.address) })
	t.Run("restarts", func(t *testing.T) { proveRestarts(t, s, d, p.address) })
	t.Run("late status", func(t *testing.T) { proveLateStatus(t, s, d, p.address) })
	t.Run("another address", func(t *testing.T) {
		_, err := server.Kube.CoreV1().Services(infra).Patch(t.Context(), "shop-gateway", types.MergePatchType,
			[]byte(`{"status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.99"}]}}}`), metav1.PatchOptions{}, "status")
		must(t, err)
		for _, host := range []string{"shop.example.com", "blog.example.com"} {
			d.expect(host, "198.51.100.99")
		}
		d.expectDeleted(t, "another address")
	})
	t.Run("the end", func(t *testing.T) {
		must(t, s.api.GatewayV1().HTTPRoutes(infra).Delete(t.Context(), "shop", metav1.DeleteOptions{}))
		must(t, s.api.GatewayV1().ListenerSets("team-0").Delete(t.Context(), "blog", metav1.DeleteOptions{}))
		must(t, server.Kube.NetworkingV1().Ingresses("front").Delete(t.Context(), "front", metav1.DeleteOptions{}))
		for _, host := range []string{"shop.example.com", "blog.example.com", "front.example.org"} {
			d.expect(host)
		}
	})
}

const (
	sharedGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: infra, name: shop}
spec:
  gatewayClassName: gateway
  allowedListeners: {namespaces: {from: All}}
  listeners:
    - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
    - {name: second, port: 8080, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: team-0, name: blog}
spec:
  parentRef: {name: shop, namespace: infra}
  listeners:
    - {name: http, port: 80, protocol: HTTP, hostname: blog.example.com}
    - {name: https, port: 443, protocol: HTTPS, hostname: blog.example.com, tls: {certificateRefs: [{name: missing}]}}`
	frontIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {namespace: front, name: front}
spec:
  ingressClassName: gateway
  rules: [{host: front.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`
)

// parents changes the parents of an HTTPRoute: KIND/NAME/LISTENER.
func (s *site) parents(namespace, name string, parents ...string) {
	s.t.Helper()
	var refs []string
	for _, parent := range parents {
		words := strings.Split(parent, "/")
		in := map[string]string{"Gateway": infra}[words[0]]
		if in == "" {
			in = namespace
		}
		refs = append(refs, fmt.Sprintf(`{"kind": %q, "name": %q, "namespace": %q, "sectionName": %q}`, words[0], words[1], in, words[2]))
	}
	_, err := s.api.GatewayV1().HTTPRoutes(namespace).Patch(s.t.Context(), name, types.MergePatchType,
		fmt.Appendf(nil, `{"spec": {"parentRefs": [%s]}}`, strings.Join(refs, ",")), metav1.PatchOptions{})
	must(s.t, err)
}

// proveMoves: no record is deleted while a route moves between listeners. From one parent to another, it goes by both:
// external-dns counts parents that are in the status, so a move at once deletes the record if it looks in between.
func proveMoves(t *testing.T, s *site, d *dns, address string) {
	t.Helper()
	const moves = 10
	for range moves {
		s.parents(infra, "shop", "Gateway/shop/second")
		d.look()
		s.parents(infra, "shop", "Gateway/shop/http")
		d.look()
	}
	deleted := d.expectDeleted(t, "between listeners of a Gateway")
	for range moves {
		s.parents("team-0", "blog", "ListenerSet/blog/https")
		d.look()
		s.parents("team-0", "blog", "ListenerSet/blog/http")
		d.look()
	}
	deleted += d.expectDeleted(t, "between listeners of a ListenerSet")
	row(t, "records deleted by 40 moves between listeners of a Gateway, and of a ListenerSet", "%d", deleted)

	for range moves {
		s.parents("team-0", "blog", "ListenerSet/blog/http", "Gateway/shop/http")
		d.look()
		s.parents("team-0", "blog", "Gateway/shop/http")
		d.look()
		s.parents("team-0", "blog", "ListenerSet/blog/http", "Gateway/shop/http")
		d.look()
		s.parents("team-0", "blog", "ListenerSet/blog/http")
		d.look()
	}
	deleted = d.expectDeleted(t, "from a ListenerSet to a Gateway, by both")
	row(t, "by 20 moves between a ListenerSet and its Gateway, with both parents in between", "%d", deleted)
	for range moves {
		s.parents("team-0", "blog", "Gateway/shop/http")
		d.look()
		s.parents("team-0", "blog", "ListenerSet/blog/http")
		d.look()
	}
	d.expect("blog.example.com", address)
	row(t, "by 20 such moves at once, with external-dns looking every 200 ms", "%d", len(d.takeDeleted()))
}

// proveRestarts: no record is deleted while the operator is away, or begins again.
func proveRestarts(t *testing.T, s *site, d *dns, address string) {
	t.Helper()
	const added = "after.example.com"
	for range 3 {
		s.operator.Kill()
		d.look()
		s.startOperator()
		s.route(infra, "after", "Gateway/shop", "http", added)
		d.expect(added, address)
		must(t, s.api.GatewayV1().HTTPRoutes(infra).Delete(t.Context(), "after", metav1.DeleteOptions{}))
		d.expect(added)
	}
	d.look()
	deleted := slices.DeleteFunc(d.takeDeleted(), func(name string) bool { return name == added })
	if len(deleted) > 0 {
		t.Errorf("records were deleted: %q", deleted)
	}
	row(t, "records deleted by three restarts of the operator", "%d", len(deleted))
}

// proveLateStatus: while the operator hangs, routes and listeners change, and no record is deleted. A route that moves
// to another parent keeps its record only if it names both: external-dns counts parents that are in the spec and in the
// status.
func proveLateStatus(t *testing.T, s *site, d *dns, address string) {
	t.Helper()
	s.operator.Signal(t, syscall.SIGSTOP)
	_, err := s.api.GatewayV1().HTTPRoutes(infra).Patch(t.Context(), "shop", types.JSONPatchType,
		[]byte(`[{"op": "add", "path": "/spec/hostnames/-", "value": "late.example.com"}]`), metav1.PatchOptions{})
	must(t, err)
	d.look()
	s.patchGateway(`{"spec": {"listeners": [
		{"name": "second", "port": 8080, "protocol": "HTTP"},
		{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}}]}}`)
	s.parents("team-0", "blog", "ListenerSet/blog/http", "Gateway/shop/http")
	none := d.expectDeleted(t, "a late status")
	s.parents("team-0", "blog", "Gateway/shop/http")
	d.expect("blog.example.com")
	s.operator.Signal(t, syscall.SIGCONT)
	d.expect("late.example.com", address)
	d.expect("blog.example.com", address)
	one := d.expectDeleted(t, "a move at once", "blog.example.com")
	s.parents("team-0", "blog", "ListenerSet/blog/http", "Gateway/shop/http")
	d.look()
	s.parents("team-0", "blog", "ListenerSet/blog/http")
	none += d.expectDeleted(t, "the way back")
	row(t, "records deleted while the operator hangs, and routes and listeners change", "%d", none)
	row(t, "the same, and a route moves to another parent at once", "%d", one)
}
