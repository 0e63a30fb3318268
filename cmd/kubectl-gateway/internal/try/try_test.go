package try_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/cmd/kubectl-gateway/internal/command"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
)

// within bounds what is waited for, on a machine that is busy.
const within = time.Minute

const shop = `apiVersion: app.example.com/v1
kind: Gateway
metadata:
  name: shop
spec:
  listeners:
    - {name: http, port: PORT, protocol: HTTP}
    - {name: https, port: TLSPORT, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: shop}]}}
  routes:
    - name: shop
      hostnames: [shop.example.com]
      rules:
        - matches: [{path: {type: PathPrefix, value: /cart}}]
          backendRefs: [{name: cart, port: 80}]
        - backendRefs: [{name: web, port: 80}]
`

// TestOnce: the requests of the command line are sent, over HTTP and HTTPS, and the exit code reports whether the
// answers are the expected ones. Each try has ports of its own, so that several can run at once.
func TestOnce(t *testing.T) {
	t.Parallel()
	plain, secure := freePort(t), freePort(t)
	file := clitest.WriteFile(t, "shop.yaml", ports(shop, plain, secure))
	once := func(more ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"try", "-f", file, "--once"}, more...)...)
	}
	once(
		"--request", "http://shop.example.com:"+plain+"/cart/1", "--expect", "200:cart",
		"--request", "POST https://shop.example.com:"+secure+"/", "--expect", "200:web",
		"--request", "http://other.example.com:"+plain+"/", "--expect", "404",
	).Want(t, 0, "GET http://shop.example.com:"+plain+"/cart/1: 200:cart", "is live; answers as expected: 3 of 3")
	content := ports(shop, plain, secure)
	clitest.Run(t, content, "try", "-f", "-", "--once", "--request", "http://shop.example.com:"+plain+"/cart", "--expect", "200:cart").Want(t, 0)
	secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {tls.crt: none}\n"
	clitest.Run(t, content+fmt.Sprintf(secret, "shop"), "try", "-f", "-", "--once", "--request", "https://shop.example.com:"+secure+"/").
		Want(t, cli.ExitFailed, "no answer") // no other certificate is in its place
	clitest.Run(t, content+fmt.Sprintf(secret, "../shop"), "try", "-f", "-", "--once").Want(t, cli.ExitFailed, "may not contain '/'")
	once("--request", "http://shop.example.com:"+plain+"/cart", "--expect", "200:web").Want(t, cli.ExitNo, "200:cart, but expected 200:web")
	once("--request", "ftp://shop.example.com", "--expect", "200").Want(t, cli.ExitUsage, "GET http://shop.example.com/cart")
	once("--expect", "200").Want(t, cli.ExitUsage)
	once("--endpoint", "cart=127.0.0.1:1").Want(t, cli.ExitUsage, "cart:80")
	once("--endpoint", "card:80=127.0.0.1:1").Want(t, cli.ExitNo, "--endpoint card:80=127.0.0.1:1 has no effect: no rule sends requests to this Service and port\n")
	once("--endpoint", "cart:80=127.0.0.1:1", "--request", "http://shop.example.com:"+plain+"/cart", "--expect", "503").Want(t, 0)
	once("--endpoint", "cart:80=127.0.0.1:1", "--request", "http://shop.example.com:"+plain+"/cart", "--expect", "503:cart").Want(t, cli.ExitNo, ": 503, but expected 503:cart")
}

// TestBackups: the backup of a Service without ready endpoints is answered by the built-in backend, or at the address
// of the command line.
func TestBackups(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	file := clitest.WriteFile(t, "shop.yaml", strings.Replace(`apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: shop}
spec:
  listeners: [{name: http, port: PORT, protocol: HTTP}]
  routes: [{name: shop, rules: [{backendRefs: [{name: web, port: 80}]}]}]
  backends: [{name: web, port: 80, backup: {name: sorry, port: 80}}]
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{name: p, port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: sorry}, spec: {ports: [{name: p, port: 80}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: p, port: 80}]
endpoints: [{addresses: ["127.0.0.1"], conditions: {ready: false}}]
`, "PORT", port, 1))
	once := func(more ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"try", "-f", file, "--once", "--request", "http://127.0.0.1:" + port + "/"}, more...)...)
	}
	once("--expect", "200").Want(t, 0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(server.Close)
	once("--endpoint", "sorry:80="+server.Listener.Addr().String(), "--expect", "202").Want(t, 0)
}

// TestPrivilegedPorts: they are moved, and requests for them go where they are now.
func TestPrivilegedPorts(t *testing.T) {
	t.Parallel()
	plain, next := haproxytest.FreePort(t), haproxytest.FreePort(t)
	for next != plain+1 {
		plain, next = next, haproxytest.FreePort(t)
	}
	file := clitest.WriteFile(t, "shop.yaml", ports(shop, "80", "81"))
	clitest.Run(t, "", "try", "-f", file, "--once", "--port-offset", fmt.Sprint(plain-80),
		"--request", "http://shop.example.com/cart", "--expect", "200:cart",
		"--request", "https://shop.example.com:81/", "--expect", "200:web").Want(t, 0)
	if clitest.Run(t, "", "try", "-f", file, "--once", "--port-offset", "0").Code == cli.ExitUsage {
		t.Error("ports cannot stay as they are")
	}
	file = clitest.WriteFile(t, "clash.yaml", ports(shop, "80", "16880"))
	clitest.Run(t, "", "try", "-f", file, "--once", "--port-offset", "16800").Want(t, cli.ExitUsage, "choose another --port-offset")
	clitest.Run(t, "", "try", "-f", file, "--once", "--port-offset", "65500").Want(t, cli.ExitUsage, "port 80 would become 65580, which is no port: choose another --port-offset")
}

// TestGatewayAPI: a Gateway of the Gateway API runs with its HTTPRoutes, and with what it has in other namespaces.
func TestGatewayAPI(t *testing.T) {
	t.Parallel()
	plain, secure := freePort(t), freePort(t)
	file := clitest.WriteFile(t, "routes.yaml", ports(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop}
spec:
  gatewayClassName: gateway
  listeners:
    - {name: http, port: PORT, protocol: HTTP}
    - {name: https, port: TLSPORT, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: shop, namespace: certificates}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: shop, namespace: certificates}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: default}]
  to: [{group: "", kind: Secret}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other, namespace: elsewhere}
data: {some.conf: "on"}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart}
spec:
  parentRefs: [{name: shop}]
  hostnames: [shop.example.com]
  rules: [{matches: [{path: {type: PathPrefix, value: /cart}}], backendRefs: [{name: cart, port: 80}]}]
`, plain, secure))
	clitest.Run(t, "", "try", "-f", file, "--once",
		"--request", "http://shop.example.com:"+plain+"/cart", "--expect", "200:cart",
		"--request", "https://shop.example.com:"+secure+"/cart", "--expect", "200:cart",
		"--request", "http://shop.example.com:"+plain+"/", "--expect", "404").Want(t, 0)
}

// TestFollow: what is saved is live, without a reload where it takes none, and a mistake is refused while the last good
// state goes on.
func TestFollow(t *testing.T) {
	t.Parallel()
	plain, secure := freePort(t), freePort(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "shop.yaml")
	save := func(content string) {
		t.Helper()
		must.Do(t, os.WriteFile(file, []byte(ports(content, plain, secure)), 0o600))
	}
	save(shop)
	out := start(t, "try", "-f", dir)
	out.expect(t, "curl --resolve shop.example.com:"+plain+":127.0.0.1 http://shop.example.com:"+plain+"/")
	out.expect(t, "Service default/cart:80 has no endpoints here")
	get(t, "http://127.0.0.1:"+plain+"/basket", "shop.example.com", "Service default/web:80 answers")
	out.expect(t, "200  GET shop.example.com:"+plain+"/basket")
	clitest.Run(t, "", "try", "-f", dir, "--once").Want(t, cli.ExitFailed, "listener http cannot have port "+plain)

	certificate := serial(t, "127.0.0.1:"+secure)
	save(strings.Replace(shop, "/cart", "/basket", 1))
	out.expect(t, `live after \S+, without a reload`)
	get(t, "http://127.0.0.1:"+plain+"/basket", "shop.example.com", "Service default/cart:80 answers")
	if now := serial(t, "127.0.0.1:"+secure); now != certificate {
		t.Errorf("the certificate that was made is another one: %s, was %s", now, certificate)
	}

	save(strings.Replace(shop, "PathPrefix", "PathPrefiks", 1))
	out.expect(t, "refused, the last good state goes on: .*PathPrefiks")
	get(t, "http://127.0.0.1:"+plain+"/basket", "shop.example.com", "Service default/cart:80 answers")
	save(strings.Replace(shop, "/cart", "/basket", 1))
	out.expect(t, "as in the files: the Gateway has not changed")

	// Another Secret takes new mounts, which a pod would be replaced for.
	save(strings.Replace(shop, "{name: shop}]", "{name: other}]", 1) + "  clientLimits: {maxConnections: 500}\n")
	out.expect(t, `live after \S+, by a reload`)
	get(t, "http://127.0.0.1:"+plain+"/basket", "shop.example.com", "Service default/web:80 answers")
}

// TestUsers: gateway-keys checks passwords as long as try runs.
func TestUsers(t *testing.T) {
	t.Parallel()
	plain := freePort(t)
	file := clitest.WriteFile(t, "users.yaml", ports(`apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: shop}
spec:
  listeners: [{name: http, port: PORT, protocol: HTTP}]
  routes: [{name: r, rules: [{filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}], backendRefs: [{name: web, port: 80}]}]}]
---
apiVersion: v1
kind: Secret
metadata: {name: users}
stringData: {auth: "alice:$6$gateway$h6LI3xBIl2uJZe0zsgVPD6p6TXul7ZKo/oJX6uqnFZApvLjLQ6lOMIyXU7hski7l.d6x56kd4iDgi05zSIi491"}
`, plain, ""))
	clitest.Run(t, "", "try", "-f", file, "--once",
		"--request", "http://alice:secret@shop.example.com:"+plain+"/", "--expect", "200:web",
		"--request", "http://alice:guess@shop.example.com:"+plain+"/", "--expect", "401",
		"--request", "http://shop.example.com:"+plain+"/", "--expect", "401").Want(t, 0)
}

// TestProxyHeaders: the built-in backend reads the PROXY header of connections to a Service that wants one, and only
// there, also after an edit.
func TestProxyHeaders(t *testing.T) {
	t.Parallel()
	plain, dir := freePort(t), t.TempDir()
	save := func(settings string) {
		t.Helper()
		content := strings.ReplaceAll(ports(shop, plain, "0"), "    - {name: https", "#") + "  backends: [{name: cart, port: 80, " + settings + "}]\n"
		must.Do(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(content), 0o600))
	}
	save("proxyProtocol: V1")
	out := start(t, "try", "-f", dir)
	out.expect(t, "Ctrl-C ends it")
	cart, web := "http://127.0.0.1:"+plain+"/cart", "http://127.0.0.1:"+plain+"/"
	get(t, cart, "shop.example.com", "PROXY header: from 127.0.0.1:")
	get(t, web, "shop.example.com", "Service default/web:80 answers")
	for _, settings := range []string{"proxyProtocol: V2", "loadBalancing: {algorithm: RoundRobin}", "proxyProtocol: V2, loadBalancing: {algorithm: RoundRobin}"} {
		save(settings)
		out.expect(t, `live after \S+`)
		want := "Service default/cart:80 answers"
		if strings.HasPrefix(settings, "proxy") {
			want = "PROXY header: from 127.0.0.1:"
		}
		get(t, cart, "shop.example.com", want)
	}
}

// TestRenewal: a certificate that is renewed in a file is served. One that cannot be used is named, and the one before
// goes on.
func TestRenewal(t *testing.T) {
	t.Parallel()
	plain, secure := freePort(t), freePort(t)
	dir := t.TempDir()
	authority := certtest.NewAuthority(t)
	save := func(pair certtest.Pair) {
		t.Helper()
		content := must.Get(json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "shop"},
			"stringData": map[string]any{"tls.crt": string(pair.Certificate), "tls.key": string(pair.Key)},
		}))(t)
		must.Do(t, os.WriteFile(filepath.Join(dir, "secret.json"), content, 0o600))
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(ports(shop, plain, secure)), 0o600))
	first, second := authority.Issue(t, []string{"shop.example.com"}), authority.Issue(t, []string{"shop.example.com"})
	save(first)
	out := start(t, "try", "-f", dir)
	out.expect(t, "Ctrl-C ends it")
	before := serial(t, "127.0.0.1:"+secure)
	save(certtest.Pair{Certificate: second.Certificate, Key: first.Key})
	out.expect(t, "not served: Secret default/shop: tls.key is not the key of its certificate")
	save(second)
	for deadline := time.Now().Add(within); serial(t, "127.0.0.1:"+secure) == before; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the renewed certificate is not served")
		}
	}
}

// TestWrongKey: a Secret of a file whose key does not fit is named by all commands, and its listener is not served.
func TestWrongKey(t *testing.T) {
	t.Parallel()
	plain, secure := freePort(t), freePort(t)
	authority := certtest.NewAuthority(t)
	one, other := authority.Issue(t, []string{"shop.example.com"}), authority.Issue(t, nil)
	content := must.Get(json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "shop"},
		"stringData": map[string]any{"tls.crt": string(one.Certificate), "tls.key": string(other.Key)},
	}))(t)
	file := clitest.WriteFile(t, "shop.yaml", ports(shop, plain, secure)+"---\n"+string(content))
	const wrong = "Secret default/shop: tls.key is not the key of its certificate"
	clitest.Run(t, "", "render", "-f", file, "--check").Want(t, cli.ExitNo, wrong)
	clitest.Run(t, "", "explain", "-f", file, "https://shop.example.com:"+secure+"/").Want(t, cli.ExitNo, wrong, "no connection: listener https is not served")
	clitest.Run(t, "", "try", "-f", file, "--once", "--request", "http://shop.example.com:"+plain+"/", "--expect", "200:web").Want(t, cli.ExitNo, wrong)
}

// TestAbsentPrograms: if a program of proxy pods is missing, try explains why the answer is 503 and comes from no
// Service.
func TestAbsentPrograms(t *testing.T) {
	t.Parallel()
	const (
		noWAF   = "gateway-waf is neither on the PATH"
		noLogin = "gateway-login is neither on the PATH"
		oidc    = `filters: [{type: OIDC, oidc: {issuer: "https://id.example.com", clientID: shop, secretRef: {name: login}}}], backendRefs:`
	)
	for _, test := range []struct {
		rule, expect string
		want         []string
	}{
		{"backendRefs:", "200:web", nil},
		{"filters: [{type: WAF, waf: {}}], backendRefs:", "503", []string{noWAF}},
		{"filters: [{type: WAF, waf: {}}], shadow: [WAF], backendRefs:", "200:web", nil},
		{oidc, "503", []string{noLogin}},
	} {
		plain, secure := freePort(t), freePort(t)
		content := strings.Replace(ports(shop, plain, secure), "- backendRefs:", "- {"+test.rule, 1)
		content = strings.Replace(content, "[{name: web, port: 80}]", "[{name: web, port: 80}]}", 1)
		url := "http://shop.example.com:" + plain + "/"
		got := clitest.Run(t, content, "try", "-f", "-", "--once", "--request", url, "--expect", test.expect)
		for _, program := range []string{noWAF, noLogin} {
			if strings.Contains(got.Out+got.Err, program) != slices.Contains(test.want, program) {
				t.Errorf("%s: got %s%s", test.rule, got.Out, got.Err)
			}
		}
		if !strings.Contains(got.Out+got.Err, url+": "+test.expect+"\n") {
			t.Errorf("%s: got %s%s", test.rule, got.Out, got.Err)
		}
	}
}

// TestHelpers: a program that is on the PATH runs beside HAProxy, with the files of the Gateway. One that ends is
// named.
func TestHelpers(t *testing.T) {
	dir := t.TempDir()
	program := func(name, commands string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+commands+"\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	program("gateway-waf", `echo "$@" > `+filepath.Join(dir, "arguments")+`; touch "${1#-socket=}"; exec sleep 1000`)
	plain, secure := freePort(t), freePort(t)
	content := strings.Replace(ports(shop, plain, secure), "- backendRefs:", "- {filters: [{type: WAF, waf: {}}], backendRefs:", 1)
	content = strings.Replace(content, "[{name: web, port: 80}]", "[{name: web, port: 80}]}", 1)
	// Nothing answers at the file that is in place of a socket.
	got := clitest.Run(t, content, "try", "-f", "-", "--once", "--request", "http://shop.example.com:"+plain+"/", "--expect", "503")
	if got.Want(t, 0); strings.Contains(got.Out+got.Err, "gateway-waf") {
		t.Errorf("it is said to be missing: %s%s", got.Out, got.Err)
	}
	if arguments, err := os.ReadFile(filepath.Join(dir, "arguments")); err != nil || !strings.Contains(string(arguments), "-rules-dir=/tmp/gateway-try-") {
		t.Errorf("it runs with %q, %v", arguments, err)
	}
	program("gateway-waf", "echo no rules; exit 1")
	clitest.Run(t, content, "try", "-f", "-", "--once").Want(t, 1, "gateway-waf ended: exit status 1: no rules")
}

// serial returns the serial number of the certificate that a listener shows.
func serial(t *testing.T, address string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{ServerName: "shop.example.com", InsecureSkipVerify: true}) //nolint:gosec // it was made here
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func ports(content, http, https string) string {
	return strings.NewReplacer("TLSPORT", https, "PORT", http).Replace(content)
}

func freePort(t *testing.T) string {
	t.Helper()
	return fmt.Sprint(haproxytest.FreePort(t))
}

func get(t *testing.T, url, host, want string) {
	t.Helper()
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	request.Host, request.Close = host, true // the worker before a reload may answer on a connection that it has
	answer, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer answer.Body.Close() //nolint:errcheck // it is read
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.Contains(string(body), want) {
		t.Fatalf("%s answers %s %q, %v; want %q", url, answer.Status, body, err, want)
	}
}

// output is what a command printed so far. What was expected is not looked at again.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	done chan int
}

// start runs the plugin until the test ends, when it has to have ended well.
func start(t *testing.T, args ...string) *output {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out := &output{done: make(chan int, 1)}
	options := cli.NewOptions(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out})
	go func() { out.done <- cli.Execute(ctx, command.New(options), options, args) }()
	t.Cleanup(func() {
		cancel()
		if code := <-out.done; code != 0 {
			t.Errorf("exit code %d: %s", code, out.text.String())
		}
	})
	return out
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) expect(t *testing.T, pattern string) {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(within); ; <-time.After(10 * time.Millisecond) {
		o.mu.Lock()
		found := expression.FindIndex(o.text.Bytes())
		if found != nil {
			o.text.Next(found[1])
		}
		rest := o.text.String()
		o.mu.Unlock()
		if found != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it does not print %q, but:\n%s", pattern, rest)
		}
		select {
		case code := <-o.done:
			o.done <- code
			t.Fatalf("it ended with %d before it printed %q:\n%s", code, pattern, rest)
		default:
		}
	}
}

// TestUnservedListener: a listener that is not served is not listed with an address.
func TestUnservedListener(t *testing.T) {
	t.Parallel()
	plain, secure := freePort(t), freePort(t)
	text := strings.Replace(ports(shop, plain, secure), "certificateRefs: [{name: shop}]", "certificateRefs: [{name: shop}], clientValidation: {caCertificateRefs: [{name: ca}]}", 1)
	result := clitest.RunUntil(t, "Ctrl-C ends it", "", "try", "-f", clitest.WriteFile(t, "shop.yaml", text))
	result.Want(t, result.Code, "  http         curl --resolve", "  https        not served: a certificate or CA cannot be used, see below\n")
}
