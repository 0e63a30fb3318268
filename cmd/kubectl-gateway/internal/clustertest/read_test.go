package clustertest

import (
	"fmt"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/must"
)

// TestList shows all Gateways, and some.
func TestList(t *testing.T) {
	namespace := newNamespace(t, "list")
	file := gateway("good", "  replicas: 3\n") + strings.ReplaceAll(gateway("bad", ""), "site: test", "site: other")
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-").Want(t, 0)
	problem := "0 of 2 ready proxies run generation 1; pod bad-gateway-1: generation 1: " + strings.Repeat("x", 100)
	for name, problem := range map[string]string{"good": "", "bad": problem} {
		live := get(t, namespace, name)
		status := programmed(live, problem)
		if name == "bad" {
			status.Addresses = nil
		}
		must.Do(t, setStatus(t.Context(), live, status))
	}
	in := func(args ...string) []string { return append(args, "-n", namespace) }
	for _, test := range []struct {
		args    []string
		want    []string
		wantNot string
	}{
		{in("list"), []string{"NAME", "good   HTTP:80     0        10.0.0.80   2/3     True", "bad    HTTP:80     0        <pending>   2/2     False", problem}, "NAMESPACE"},
		{in("list", "-o", "json"), []string{`"name": "bad"`, `"problems": [`, problem, `"listeners": [`}, "NAME"},
		{in("list", "-o", "wide"), []string{"GENERATION   PROBLEM", problem}, "NAMESPACE"},
		{[]string{"list", "-A"}, []string{"NAMESPACE", "list ", problem}, "error"},
		{in("list", "-l", "site=other"), []string{"bad "}, "good"},
		{in("list", "--no-headers"), []string{"good "}, "NAME"},
		{in("get", "good"), []string{"good "}, "bad"},
		{in("get", "bad", "good"), []string{"bad ", "good "}, "error"},
	} {
		result := clitest.Run(t, "", test.args...)
		result.Want(t, 0, test.want...)
		if strings.Contains(result.Out, test.wantNot) {
			t.Errorf("%v prints %q:\n%s", test.args, test.wantNot, result.Out)
		}
	}
}

// TestListUsage: list reports wrong usage, and a namespace without Gateways is no error.
func TestListUsage(t *testing.T) {
	namespace := newNamespace(t, "list-usage")
	in := func(args ...string) []string { return append(args, "-n", namespace) }
	for want, args := range map[string][]string{
		`failed to get Gateway list-usage/none: gateways.app.example.com "none" not found`: in("get", "none"),
		"No Gateways found.":                            {"list", "-n", "nothing"},
		"names do not go together with -A":              {"get", "a", "-A"},
		`unknown output "name": use wide, json or yaml`: {"list", "-o", "name"},
	} {
		code := map[bool]int{true: 2, false: 1}[!strings.HasPrefix(want, "failed")]
		if strings.HasPrefix(want, "No") {
			code = 0
		}
		clitest.Run(t, "", args...).Want(t, code, want)
	}
}

// TestLive renders and explains a Gateway of the cluster, and compares it with a file.
func TestLive(t *testing.T) {
	namespace := newNamespace(t, "live")
	routes := "  routes: [{name: r, rules: [{matches: [{path: {value: /a}}], backendRefs: [{name: s, port: 80, weight: 3}, {name: none, port: 80}]}]}]\n"
	services := `---
{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]
`
	in := func(args ...string) []string { return append(args, "-n", namespace) }
	clitest.Run(t, gateway("a", routes)+services, in("apply", "-f", "-")...).Want(t, 0)
	clitest.Run(t, "", in("render", "a")...).Want(t, 0, "server 10.0.0.1_8080 10.0.0.1:8080", "_s_80\n", "|r|0|no-backend\n")
	clitest.Run(t, "", in("explain", "a", "http://x/a")...).Want(t, 0, "75% to Service s port 80, ready: 10.0.0.1:8080",
		"25% to Service none port 80, answered with 500: Service live/none does not exist: create it or change the route", "warning: live/a: not every proxy runs generation 1 yet")
	live := get(t, namespace, "a")
	must.Do(t, setStatus(t.Context(), live, programmed(live, "")))
	const warning = "warning: live/a: route \"r\": Service live/none does not exist: create it or change the route\n"
	if result := clitest.Run(t, "", in("explain", "a", "http://x/a")...); result.Err != warning {
		t.Errorf("it warns: %s", result.Err)
	}
	diff := in("render", "-f", "-", "--diff")
	clitest.Run(t, gateway("a", routes), diff...).Want(t, 0, "live/a: no difference")
	clitest.Run(t, gateway("a", strings.Replace(routes, "/a", "/b", 1)), diff...).Want(t, 3,
		"/a/ %3,1|", "/b/ %3,1|", "live/a differs, and loading it takes no reload")
	clitest.Run(t, strings.Replace(gateway("a", routes), "port: 80", "port: 81", 1), diff...).Want(t, 3, "loading it takes a reload: "+ir.ReloadPorts)
	clitest.Run(t, "", "__complete", "-n", namespace, "render", "").Want(t, 0, "a\n:4")
	clitest.Run(t, "", "__complete", "-n", namespace, "get", "a", "").Want(t, 0, ":4")
	clitest.Run(t, "", "__complete", "list", "-n", "liv").Want(t, 0, "live\n:4")
}

// authorityPEM is a certificate of a CA, and a line of it that no other has.
type authorityPEM struct{ content, line string }

func newAuthority(t *testing.T) *authorityPEM {
	t.Helper()
	content := string(certtest.NewAuthority(t).PEM)
	return &authorityPEM{content, strings.Split(content, "\n")[4]}
}

// TestDiffOfAuthorities compares with files that name ConfigMaps which the Gateway of the cluster does not name, or
// have another content for them.
func TestDiffOfAuthorities(t *testing.T) {
	namespace := newNamespace(t, "authorities")
	one, two, renewed := newAuthority(t), newAuthority(t), newAuthority(t)
	authority := func(name string, of *authorityPEM) string {
		return fmt.Sprintf("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {ca.crt: %q}}\n", name, of.content)
	}
	const routes = "  routes: [{name: r, rules: [{backendRefs: [{name: s, port: 443}]}]}]\n"
	withTLS := func(gatewayName, authority string) string {
		return gateway(gatewayName, routes) + fmt.Sprintf("  backends: [{name: s, port: 443, tls: {hostname: s.example.com, caCertificateRefs: [{name: %s}]}}]\n", authority)
	}
	withListener := func(authority string) string {
		listener := fmt.Sprintf("{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: c}], clientValidation: {caCertificateRefs: [{name: %s}]}}}", authority)
		return strings.Replace(gateway("plain", routes), "protocol: HTTP}", "protocol: HTTP}, "+listener, 1)
	}
	services := `---
{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 443}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s-1, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: "", port: 8443}]
endpoints: [{addresses: [10.0.0.1], conditions: {ready: true}}]
`
	clitest.Run(t, gateway("plain", routes)+withTLS("tls", "one")+authority("one", one)+services, "apply", "-n", namespace, "-f", "-").Want(t, 0)
	const backend, lost = "+    default-server ssl verify required ca-file ", "-    server 10.0.0.1_8443"
	const frontend, listener = "+frontend 443 ", "+443/* +"
	for _, test := range []struct {
		name, file     string
		wants, without []string
	}{
		{"backend, in the cluster", withTLS("plain", "one"), []string{backend, "+" + one.line}, []string{lost, "0|no-backend"}},
		{"backend, in the file", withTLS("plain", "two") + authority("two", two), []string{backend, "+" + two.line}, []string{lost, "0|no-backend"}},
		{"backend, in both", withTLS("plain", "one") + authority("one", renewed), []string{backend, "+" + renewed.line}, []string{lost, one.line, "0|no-backend"}},
		{"backend, in neither", withTLS("plain", "none"), []string{lost, "0|no-backend"}, []string{backend}},
		{"backend, another content", withTLS("tls", "one") + authority("one", renewed), []string{backend, "-" + one.line, "+" + renewed.line}, []string{lost, "0|no-backend"}},
		{"listener, in the cluster", withListener("one"), []string{frontend, listener, "+" + one.line}, nil},
		{"listener, in the file", withListener("two") + authority("two", two), []string{frontend, listener, "+" + two.line}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := clitest.Run(t, test.file, "render", "-n", namespace, "-f", "-", "--diff")
			result.Want(t, 3, test.wants...)
			for _, part := range test.without {
				if strings.Contains(result.Out, part) {
					t.Errorf("the output has %q:\n%s", part, result.Out)
				}
			}
		})
	}
}
