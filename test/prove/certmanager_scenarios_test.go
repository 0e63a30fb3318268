package prove

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gateway/test/internal/load"
	"gateway/test/internal/testenv"
)

// TestCertManager: cert-manager orders certificates for Gateways, ListenerSets and Ingresses, and pebble asks for them
// over HTTP. Requests under way are not lost, and HAProxy does not reload.
func TestCertManager(t *testing.T) {
	s := startSite(t)
	port := s.startEcho()
	s.createService(infra, port)
	s.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: infra, name: shop}
spec:
  gatewayClassName: gateway
  allowedListeners: {namespaces: {from: All}}
  listeners:
    - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
    - {name: https, port: 443, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: shop-tls}]}}`)
	s.route(infra, "shop", "Gateway/shop", "https", "shop.example.com")
	s.route(infra, "plain", "Gateway/shop", "http", "shop.example.com")
	p := s.startProxy(infra, "shop")
	c := startCertManager(s, p.address)
	p.expect("shop.example.com", "/", http.StatusOK)
	p.reloads()

	begin := time.Now()
	s.patchGateway(`{"metadata": {"annotations": {"cert-manager.io/cluster-issuer": "acme"}}}`)
	first := c.mustAwait(p, "infra/shop-tls", "shop.example.com", begin, nil)
	row(t, "a Gateway's first certificate", "%v from the annotation, %v of it after the Secret", seconds(first.all), first.ours.Round(time.Millisecond))
	testenv.Eventually(t, soon, "the reload that binds the port to be counted", func(context.Context) error {
		if reloads := p.reloads(); reloads != 1 {
			return fmt.Errorf("there were %v", reloads)
		}
		return nil
	})

	requests := c.startLoad(p)
	for i := range teams {
		s.createNamespace(team(i))
		s.createService(team(i), port)
	}
	for _, scenario := range []struct {
		name string
		run  func(*testing.T, *certificates, *proxy)
	}{
		{"ListenerSet", proveListenerSet}, {"TLS only", proveTLSOnly}, {"name added", proveNameAdded}, {"renewal", proveRenewal}, {"100 ListenerSets", proveMany},
	} {
		t.Run(scenario.name, func(t *testing.T) { scenario.run(t, c, p) })
		expectNoReload(t, p, scenario.name)
	}
	result := requests.Stop()
	row(t, "requests and messages meanwhile, over HTTP and HTTPS", "%d, %d of them lost", result.Requests(), len(result.Failures()))
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	t.Logf("%s", result)
	t.Run("mandatory filters", func(t *testing.T) { proveMandatory(t, c, p) })
	t.Run("Ingress", func(t *testing.T) { proveIngress(t, c, port) })
}

// startLoad sends requests to shop.example.com, over HTTP and HTTPS.
func (c *certificates) startLoad(p *proxy) *load.Load {
	return load.Start(c.t.Context(), load.Options{
		Address: net.JoinHostPort(p.address, "80"), TLSAddress: net.JoinHostPort(p.address, "443"),
		TLS:  &tls.Config{RootCAs: c.roots, ServerName: "shop.example.com", MinVersion: tls.VersionTLS12},
		Host: "shop.example.com", Rate: 50, Slow: 5, WebSockets: 20, Delay: 5 * time.Second, Timeout: soon, Interval: time.Second,
		Check: func(answer load.Answer) error {
			if answer.Status != http.StatusOK {
				return fmt.Errorf("status %d", answer.Status)
			}
			return nil
		},
	})
}

const teams = 10

func team(i int) string { return fmt.Sprintf("team-%d", i%teams) }

func seconds(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

func expectNoReload(t *testing.T, p *proxy, what string) {
	t.Helper()
	if reloads := p.reloads(); reloads > 0 {
		t.Errorf("%s: HAProxy has reloaded %v times", what, reloads)
	}
}

// listenerSet makes a ListenerSet of a team, whose certificate cert-manager orders, with an HTTPRoute. All of HTTP is
// redirected.
func (c *certificates) listenerSet(namespace, name string) (secret, host string) {
	c.t.Helper()
	c.apply("%s", listenerSet(namespace, name))
	return namespace + "/" + name, name + ".example.com"
}

func listenerSet(namespace, name string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: %[1]s, name: %[2]s, annotations: {cert-manager.io/cluster-issuer: acme}}
spec:
  parentRef: {name: shop, namespace: infra}
  listeners:
    - {name: http, port: 80, protocol: HTTP, hostname: %[3]s}
    - {name: https, port: 443, protocol: HTTPS, hostname: %[3]s, tls: {certificateRefs: [{name: %[2]s}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: %[1]s, name: %[2]s-to-https}
spec:
  parentRefs: [{kind: ListenerSet, name: %[2]s, sectionName: http}]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: %[1]s, name: %[2]s}
spec:
  parentRefs: [{kind: ListenerSet, name: %[2]s, sectionName: https}]
  rules: [{backendRefs: [{name: web, port: 80}]}]`, namespace, name, name+".example.com")
}

// proveListenerSet: the HTTP listener of a ListenerSet works before there is a certificate, and answers the challenge
// although all of HTTP is redirected.
func proveListenerSet(t *testing.T, c *certificates, p *proxy) {
	t.Helper()
	begin := time.Now()
	secret, host := c.listenerSet("team-0", "blog")
	p.expect(host, "/", http.StatusMovedPermanently)
	early := time.Since(begin)
	if _, err := p.handshake(t.Context(), host, c.roots); err == nil {
		t.Error("there is a certificate before the HTTP listener works")
	}
	took := c.mustAwait(p, secret, host, begin, nil)
	row(t, "a ListenerSet's first certificate, with a redirect of all of HTTP", "%v, %v of it after the Secret; HTTP alone after %v",
		seconds(took.all), took.ours.Round(time.Millisecond), early.Round(time.Millisecond))
}

// proveTLSOnly: a ListenerSet without HTTP gets its certificate by the Gateway's listener, if its annotation says so.
func proveTLSOnly(t *testing.T, c *certificates, p *proxy) {
	t.Helper()
	const set = `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: team-1, name: tls, annotations: {cert-manager.io/cluster-issuer: acme%s}}
spec:
  parentRef: {name: shop, namespace: infra}
  listeners: [{name: https, port: 443, protocol: HTTPS, hostname: tls.example.com, tls: {certificateRefs: [{name: tls}]}}]`
	begin := time.Now()
	c.apply(set, `, acme.cert-manager.io/http01-parentreffallback: "true"`)
	c.route("team-1", "tls", "ListenerSet/tls", "https", "tls.example.com")
	took := c.mustAwait(p, "team-1/tls", "tls.example.com", begin, nil)
	row(t, "a ListenerSet without HTTP, with http01-parentreffallback", "%v, %v of it after the Secret", seconds(took.all), took.ours.Round(time.Millisecond))
}

// proveNameAdded: one more listener with the Secret of another one adds its hostname to the certificate.
func proveNameAdded(t *testing.T, c *certificates, p *proxy) {
	t.Helper()
	before, err := p.handshake(t.Context(), "shop.example.com", c.roots)
	must(t, err)
	begin := time.Now()
	c.patchGateway(`{"spec": {"listeners": [
		{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}},
		{"name": "https", "port": 443, "protocol": "HTTPS", "hostname": "shop.example.com", "tls": {"certificateRefs": [{"name": "shop-tls"}]}},
		{"name": "www", "port": 443, "protocol": "HTTPS", "hostname": "www.example.com", "tls": {"certificateRefs": [{"name": "shop-tls"}]}}]}}`)
	took := c.mustAwait(p, "infra/shop-tls", "www.example.com", begin, before)
	row(t, "a DNS name added to a certificate in use", "%v, %v of it after the Secret", seconds(took.all), took.ours.Round(time.Millisecond))
}

// proveRenewal: a renewed certificate is shown at once.
func proveRenewal(t *testing.T, c *certificates, p *proxy) {
	t.Helper()
	before, err := p.handshake(t.Context(), "shop.example.com", c.roots)
	must(t, err)
	var ours []time.Duration
	for range 3 {
		begin := time.Now()
		c.renew(infra, "shop-tls")
		took := c.mustAwait(p, "infra/shop-tls", "shop.example.com", begin, before)
		before, ours = took.leaf, append(ours, took.ours)
	}
	row(t, "a renewal under load, from the Secret to the first handshake with it", "%v (median), %v (most)", median(ours), most(ours))
}

// proveMany: many teams bring hosts at once.
func proveMany(t *testing.T, c *certificates, p *proxy) {
	t.Helper()
	const count = 100
	var all, ours []time.Duration
	var mu sync.Mutex
	var working sync.WaitGroup
	var documents []string
	for i := range count {
		documents = append(documents, listenerSet(team(i), fmt.Sprint("many-", i)))
	}
	begin := time.Now()
	for i := range count {
		working.Go(func() {
			name := fmt.Sprint("many-", i)
			took, err := c.await(p, team(i)+"/"+name, name+".example.com", begin, nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			all, ours = append(all, took.all), append(ours, took.ours)
		})
	}
	c.apply("%s", strings.Join(documents, "\n---"))
	created := time.Since(begin)
	working.Wait()
	if t.Failed() {
		return
	}
	row(t, "100 ListenerSets at once", "created in %v, all served after %v; from the Secret on %v (median), %v (most)",
		seconds(created), seconds(most(all)), median(ours), most(ours))
}

// proveMandatory: a mandatory login of the owner leaves out challenges, if an exception says so.
func proveMandatory(t *testing.T, c *certificates, p *proxy) {
	t.Helper()
	c.apply(`
apiVersion: v1
kind: Secret
metadata: {namespace: infra, name: users}
stringData:
  auth: "alice:$6$gateway$h6LI3xBIl2uJZe0zsgVPD6p6TXul7ZKo/oJX6uqnFZApvLjLQ6lOMIyXU7hski7l.d6x56kd4iDgi05zSIi491"
---
apiVersion: app.example.com/v1
kind: GatewayConfig
metadata: {namespace: infra, name: small}
spec:
  replicas: 1
  filters:
    - type: BasicAuth
      basicAuth: {secretRef: {name: users}}
  mandatory:
    - type: BasicAuth
      exceptions: [{paths: [/.well-known/acme-challenge]}]`)
	p.expect("shop.example.com", "/", http.StatusUnauthorized)
	begin := time.Now()
	secret, host := c.listenerSet("team-2", "guarded")
	took := c.mustAwait(p, secret, host, begin, nil)
	row(t, "a ListenerSet behind a mandatory BasicAuth, with an exception for challenges", "%v, %v of it after the Secret",
		seconds(took.all), took.ours.Round(time.Millisecond))
}

// proveIngress: an Ingress with forced redirects gets its certificate by a solver that is an Ingress, too.
func proveIngress(t *testing.T, c *certificates, port int32) {
	t.Helper()
	c.createNamespace("front")
	c.createService("front", port)
	c.apply(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {namespace: front, name: first}
spec:
  ingressClassName: gateway
  rules: [{host: first.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`)
	p := c.startProxy(ingresses, "gateway")
	p.expect("first.example.org", "/", http.StatusOK)
	const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: front
  name: %[1]s
  annotations: {cert-manager.io/cluster-issuer: acme-ingress, nginx.ingress.kubernetes.io/force-ssl-redirect: "true"}
spec:
  ingressClassName: gateway
  tls: [{hosts: [%[1]s.example.org], secretName: %[1]s}]
  rules: [{host: %[1]s.example.org, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`
	for i, name := range []string{"shop", "blog"} {
		host := name + ".example.org"
		c.setAddress(host, p.address)
		p.reloads()
		begin := time.Now()
		c.apply(ingress, name)
		testenv.Eventually(t, soon, "the redirect", func(ctx context.Context) error {
			status, err := p.get(ctx, host, "/")
			if err == nil && status != http.StatusPermanentRedirect {
				err = fmt.Errorf("got %d", status)
			}
			return err
		})
		took := c.mustAwait(p, "front/"+name, host, begin, nil)
		what := []string{"the first Ingress with TLS of a class, with forced redirects", "the second one"}[i]
		reloads := p.reloads()
		row(t, what, "%v, %v of it after the Secret, %v reloads", seconds(took.all), took.ours.Round(time.Millisecond), reloads)
		if i > 0 && reloads > 0 {
			t.Errorf("HAProxy has reloaded %v times", reloads)
		}
		testenv.Eventually(t, soon, "the reload that binds the port to be counted", func(context.Context) error {
			text, err := p.ask("/metrics")
			if err == nil && !strings.Contains(text, `reason="listener ports or TLS settings changed"`) {
				err = errors.New("it is not")
			}
			return err
		})
	}
}
