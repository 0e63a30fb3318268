package config_test

import (
	"fmt"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/config"
)

// featuresWorld is what runs before every change of TestDiffOfFeatures.
const featuresWorld = `
generation: 1
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: https, port: 443, protocol: HTTPS, hostname: a.io, tls: {certificateRefs: [{name: cert}]}}
    - {name: tls, port: 444, protocol: TLS}
  trustedProxies: [10.0.0.0/8]
  routes:
    - name: r
      rules:
        - matches: [{path: {value: /api}, headers: [{name: X-A, value: one}], queryParams: [{name: q, value: one}]}]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: one}]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /old}}]
          filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]
        - matches: [{path: {value: /text}}]
          filters: [{type: DirectResponse, directResponse: {body: one}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
        - timeouts: {request: 1s}
          maxRequestBytes: 10
          backendRefs: [{name: one, port: 80}]
  tlsRoutes: [{name: t, hostnames: [b.io], rules: [{backendRefs: [{name: one, port: 80}]}]}]
backends: [{service: one, port: 80, servers: ["10.0.0.1:80"]}]
certificates: {https: [{secret: cert, names: [a.io]}]}
`

// TestDiffOfFeatures has, with TestDiff and TestDiffOfFirstTimes, the rows of the table in docs/architecture.md.
func TestDiffOfFeatures(t *testing.T) { //nolint:funlen // a flat table
	tests := map[string]struct{ old, new, reload string }{
		"a path":                                      {"value: /api", "value: /other", ""},
		"another type of path":                        {"path: {value: /api}", "path: {type: Exact, value: /api}", ""},
		"the first regular expression":                {"path: {value: /api}", "path: {type: RegularExpression, value: /a.*}", ""},
		"a method":                                    {"path: {value: /api},", "path: {value: /api}, method: GET,", ""},
		"the value of a header":                       {"name: X-A, value: one", "name: X-A, value: two", ""},
		"a regular expression for a header":           {"name: X-A, value: one", "name: X-A, type: RegularExpression, value: o.*", ""},
		"no condition on a header any more":           {"headers: [{name: X-A, value: one}],", "", ""},
		"the value of a parameter":                    {"name: q, value: one", "name: q, value: two", ""},
		"a condition on a header of another name":     {"name: X-A", "name: X-B", config.ReloadKinds},
		"a condition on a parameter of another name":  {"name: q,", "name: p,", config.ReloadKinds},
		"the value of a header that is set":           {"name: X-Set, value: one", "name: X-Set, value: two", ""},
		"a header that is removed and was set before": {"set: [{name: X-Set, value: one}]", "remove: [X-Set]", ""},
		"no filter any more":                          {"filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: one}]}}]", "", ""},
		"a header of another name that is set":        {"name: X-Set", "name: X-Other", config.ReloadKinds},
		"the status of a redirect":                    {"statusCode: 301", "statusCode: 308", ""},
		"the prefix of a redirect":                    {"replacePrefixMatch: /new", "replacePrefixMatch: /newer", ""},
		"a full path of a redirect":                   {"type: ReplacePrefixMatch, replacePrefixMatch: /new", "type: ReplaceFullPath, replaceFullPath: /new", ""},
		"a prefix of another depth that is replaced":  {"value: /old", "value: /old/one", config.ReloadKinds},
		"a fixed answer":                              {"body: one", "body: two", config.ReloadKinds},
		"an origin":                                   {"https://a.io", "https://*.b.io", ""},
		"any origin":                                  {"https://a.io", "*", ""},
		"a timeout":                                   {"request: 1s", "request: 2s", ""},
		"a body limit":                                {"maxRequestBytes: 10", "maxRequestBytes: 20", ""},
		"retries":                                     {"timeouts: {request: 1s}", "retry: {attempts: 1}", config.ReloadBackends},
		"session persistence":                         {"timeouts: {request: 1s}", "sessionPersistence: {}", config.ReloadBackends},
		"how to talk to a backend":                    {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, loadBalancing: {algorithm: RoundRobin}}]", config.ReloadPolicies},
		"a limit of requests":                         {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, connections: {maxPerEndpoint: 9}}]", config.ReloadPolicies},
		"the protocol of a Service port":              {"{service: one, port: 80,", "{service: one, port: 80, appProtocol: kubernetes.io/h2c,", config.ReloadPolicies},
		"a trusted proxy":                             {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8, 192.0.2.0/24]", config.ReloadKinds},
		"a proxy that is not trusted any more":        {"trustedProxies: [10.0.0.0/8]", "trustedProxies: []", config.ReloadKinds},
		"another certificate":                         {"{secret: cert, names: [a.io]}", "{secret: cert, names: [a.io]}, {secret: other, names: [a.io]}", ""},
		"a minimum version of TLS":                    {"certificateRefs: [{name: cert}]", "certificateRefs: [{name: cert}], minVersion: TLSv1.3", config.ReloadCertificates},
		"HSTS":                                        {"certificateRefs: [{name: cert}]", "certificateRefs: [{name: cert}], hsts: {}", ""},
		"a redirect to HTTPS":                         {"protocol: HTTP}", "protocol: HTTP, httpsRedirect: true}", ""},
		"the PROXY protocol":                          {"protocol: HTTP}", "protocol: HTTP, proxyProtocol: true}", config.ReloadPorts},
		"a server name of a TLS route":                {"hostnames: [b.io]", "hostnames: [c.io]", ""},
		"the first wildcard server name":              {"hostnames: [b.io]", "hostnames: [\"*.b.io\"]", config.ReloadKinds},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(featuresWorld, test.old, test.new, 1)
			if changed == featuresWorld {
				t.Fatal("the test changes nothing")
			}
			running := config.Render(parseWorld(t, featuresWorld).input(t))
			desired := config.Render(parseWorld(t, changed).input(t))
			plan := config.Diff(desired, running)
			if plan.Reload != test.reload {
				t.Errorf("got %q, want %q", plan.Reload, test.reload)
			}
			if plan.Empty() {
				t.Error("there is nothing to do")
			}
			if again := config.Diff(desired, plan.After); !again.Empty() {
				t.Errorf("once the plan is carried out, there is more to do: %+v", again)
			}
			if back := config.Diff(running, plan.After); test.reload == "" && back.Reload != "" {
				t.Errorf("the way back needs a reload: %s", back.Reload)
			}
		})
	}
}

// TestDiffOfFirstTimes has the edits that take a reload because there was nothing of the kind before.
func TestDiffOfFirstTimes(t *testing.T) {
	tests := map[string]struct{ old, before, after, reload string }{
		"the first CORS filter with named origins": {"https://a.io", "*", "https://a.io", config.ReloadKinds},
		"client validation": {"certificateRefs: [{name: cert}]", "certificateRefs: [{name: cert}]",
			"certificateRefs: [{name: cert}], clientValidation: {caCertificateRefs: [{name: ca}]}", config.ReloadSettings},
	}
	for name, test := range tests {
		render := func(with string) config.Config {
			w := parseWorld(t, strings.Replace(featuresWorld, test.old, with, 1))
			w.Authorities = map[string]string{"ca": "PEM"}
			return config.Render(w.input(t))
		}
		if plan := config.Diff(render(test.after), render(test.before)); plan.Reload != test.reload {
			t.Errorf("%s: got %q, want %q", name, plan.Reload, test.reload)
		}
	}
}

// TestDiffOfProtocols: a port that was for TLS connections refuses all that do not begin like one.
func TestDiffOfProtocols(t *testing.T) {
	t.Parallel()
	render := func(protocol string) config.Config {
		return config.Render(parseWorld(t, `{spec: {listeners: [{name: db, port: 5432, protocol: `+protocol+`}]}}`).input(t))
	}
	if plan := config.Diff(render("TCP"), render("TLS")); plan.Reload != config.ReloadKinds {
		t.Errorf("from TLS to TCP: got %q, want %q", plan.Reload, config.ReloadKinds)
	}
	if plan := config.Diff(render("TLS"), render("TCP")); plan.Reload != config.ReloadKinds {
		t.Errorf("from TCP to TLS: got %q, want %q", plan.Reload, config.ReloadKinds)
	}
}

// TestDiffOfManyTrustedProxies: HAProxy takes so many ranges in a line, and one that is not trusted any more may have had a line of
// its own.
func TestDiffOfManyTrustedProxies(t *testing.T) {
	render := func(n int) config.Config {
		w := parseWorld(t, featuresWorld)
		w.Spec.TrustedProxies = nil
		for i := range n {
			w.Spec.TrustedProxies = append(w.Spec.TrustedProxies, appv1.CIDR(fmt.Sprintf("10.0.%d.0/24", i+10)))
		}
		return config.Render(w.input(t))
	}
	for _, n := range []int{2, 32, 33, 64} {
		if plan := config.Diff(render(n-1), render(n)); plan.Reload != config.ReloadKinds {
			t.Errorf("one of %d is not trusted any more: got %q, want %q", n, plan.Reload, config.ReloadKinds)
		}
	}
}
