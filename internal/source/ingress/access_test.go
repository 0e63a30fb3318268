package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
)

// TestAnnotationsOfOthers: an annotation that nginx does not read closes the paths only if another program may keep
// clients out by it. It is named, or known to be about something else.
func TestAnnotationsOfOthers(t *testing.T) {
	for _, test := range []struct {
		annotation, class string
		closes            bool
	}{
		{`ingress.example.net/whitelist-ranges: "10.0.0.0/8"`, "", true},
		{`corp.example.net/auth-url: "http://login"`, "", true},
		{`example.net/denied-ips: "10.0.0.1"`, "", true},
		{`example.net/allowedClients: "a"`, "", true},
		{`kubernetes.io/ingress.allow-http: "false"`, "", true},
		{`kubernetes.io/ingress.allow-http: "true"`, "", false},
		{`example.net/owner: "shop"`, "", false},
		{`field.cattle.io/publicEndpoints: "[]"`, "", false},
		{`helm.sh/resource-policy: keep`, "", false},
		{`helm.sh/hook-delete-policy: before-hook-creation`, "", false},
		{`gethomepage.dev/group: Media`, "", false},
		{`kubernetes.io/ingress.global-static-ip-name: x`, "", false},
		{`certmanager.k8s.io/cluster-issuer: x`, "", false},
		{`uptimerobot.monitor.stakater.com/interval: "60"`, "", false},
		{`policies.kyverno.io/scored: "false"`, "", false},
		{`deploy.example.com/strategy: blue`, "", false},
		{`example.com/generated-by: x`, "", false},
		{`company.com/resource-id: x`, "", false},
		{`oracle.com/x: x`, "", false},
		// Of controllers, in an Ingress for ingress-nginx or for another one.
		{`ingress.kubernetes.io/ssl-redirect: "true"`, "", false},
		{`ingress.kubernetes.io/ssl-redirect: "true"`, "traefik", true},
		{`ingress.kubernetes.io/whitelist-source-range: 10.0.0.0/8`, "", true},
		{`traefik.ingress.kubernetes.io/router.entrypoints: web`, "", false},
		{`traefik.ingress.kubernetes.io/router.middlewares: default-auth@kubernetescrd`, "", true},
		{`nginx.org/policies: users`, "", true},
		{`nginx.org/proxy-connect-timeout: 3s`, "", false},
		{`alb.ingress.kubernetes.io/inbound-cidrs: 10.0.0.0/8`, "", true},
		{`alb.ingress.kubernetes.io/target-type: ip`, "", false},
		{`konghq.com/plugins: key-auth`, "", true},
		{`example.net/owner: "shop"`, "traefik", false},
		// With the prefix of ingress-nginx.
		{Prefix + `secure-backends: "false"`, "", false},
		{Prefix + `enable-opentracing: "true"`, "", false},
		{Prefix + `session-cookie-hash: sha1`, "", false},
		{Prefix + `global-rate-limit: "100"`, "", false},
		{Prefix + `lua-resty-waf: active`, "", false},
		{Prefix + `client-max-body-size: 10m`, "", false},
		{Prefix + `server-tokens: "false"`, "", false},
		{Prefix + `auth-of-tomorrow: x`, "", true},
	} {
		class := either(test.class == "", "", "ingressClassName: "+test.class+", ")
		result := convertText(t, fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a, annotations: {%s}}
spec: {%sdefaultBackend: {service: {name: a, port: {number: 80}}}}
`, test.annotation, class))
		name, _, _ := strings.Cut(strings.TrimPrefix(test.annotation, Prefix), ": ")
		isNamed := slices.ContainsFunc(result.Notes, func(n Note) bool { return strings.HasPrefix(n.Text, "annotation "+name+": ") })
		if closed := answers(result)[0] == "/ 503"; closed != test.closes || !isNamed && !strings.HasSuffix(test.annotation, `allow-http: "true"`) {
			t.Errorf("%s of class %q: closed is %v; notes: %v", test.annotation, test.class, closed, result.Notes)
		}
	}
}

// TestWithoutEffect: nginx ignores empty values, and parts of what is not there.
func TestWithoutEffect(t *testing.T) {
	for _, annotations := range []string{
		"permanent-redirect: ''", "temporal-redirect: ' '", "auth-type: ''", "auth-url: ''", "auth-snippet: ''", "auth-method: ''", "auth-tls-secret: ''",
		"modsecurity-snippet: ''", "enable-modsecurity: ''", "rewrite-target: ''", "configuration-snippet: ''", "server-snippet: ''", "auth-signin: ''",
		"auth-snippet: proxy_set_header X 1;", "auth-method: POST", "auth-proxy-set-headers: a/x", "auth-tls-match-cn: CN=x",
		"modsecurity-snippet: SecRuleEngine On", "{enable-modsecurity: 'false', modsecurity-snippet: SecRuleEngine On}", "mirror-target: ''",
		"{enable-modsecurity: 'no', modsecurity-snippet: SecRuleEngine On}", "{auth-url: '', auth-snippet: proxy_set_header X 1;}", "secure-verify-ca-secret: ''",
	} {
		var all []string
		for one := range strings.SplitSeq(strings.Trim(annotations, "{}"), ", ") {
			all = append(all, Prefix+one)
		}
		result := convertText(t, pathOf(home, "web", "a.test", "/", strings.Join(all, ", ")))
		rules := flatten(result)
		if len(rules) != 1 || rules[0].answer() != "Service web" || len(rules[0].extension.Filters) > 0 {
			t.Errorf("%s: got %+v and the notes %q", annotations, rules, result.Notes)
		}
		if strings.HasSuffix(annotations, "''") && len(ofIngresses(result)) > 0 {
			t.Errorf("%s: got the notes %q", annotations, result.Notes)
		}
	}
	for _, annotation := range []string{"whitelist-source-range", "allowlist-source-range", "denylist-source-range"} { // nginx answers 503
		if got := answers(convertText(t, pathOf(home, "web", "a.test", "/", Prefix+annotation+": ''"))); got[0] != "/ 503" {
			t.Errorf("%s: got %q", annotation, got)
		}
	}
}

// TestPartsOfGlobalAuth: nginx does not read parts of auth-url without it, so they change nothing of global-auth-url.
func TestPartsOfGlobalAuth(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {global-auth-url: 'http://login.a.svc/', global-auth-response-headers: X-User}}\n---"
	for _, annotation := range []string{"auth-response-headers: X-Other", "auth-snippet: proxy_set_header X 1;", "auth-method: POST"} {
		rule := flatten(convertText(t, controller+pathOf(home, "web", "a.test", "/", Prefix+annotation)))[0]
		i := slices.IndexFunc(rule.extension.Filters, func(f appv1.RuleFilter) bool { return f.ExternalAuth != nil })
		if i < 0 || !slices.Equal(rule.extension.Filters[i].ExternalAuth.ResponseHeaders, []appv1.HeaderName{"X-User"}) {
			t.Errorf("%s: got the filters %+v", annotation, rule.extension.Filters)
		}
	}
}

// TestAllowlistBesideTheKey: the key of the ConfigMap is the default of both names.
func TestAllowlistBesideTheKey(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {whitelist-source-range: 192.0.2.0/24}}\n---"
	for annotation, want := range map[string]appv1.AddressRange{
		"": "192.0.2.0/24", Prefix + "allowlist-source-range: 127.0.0.0/8": "127.0.0.0/8", Prefix + "whitelist-source-range: 127.0.0.0/8": "127.0.0.0/8",
	} {
		rule := flatten(convertText(t, controller+pathOf(home, "web", "a.test", "/", annotation)))[0]
		i := slices.IndexFunc(rule.extension.Filters, func(f appv1.RuleFilter) bool { return f.ClientAddress != nil })
		if i < 0 || !slices.Equal(rule.extension.Filters[i].ClientAddress.Allow, []appv1.AddressRange{want}) {
			t.Errorf("%q: got the filters %+v", annotation, rule.extension.Filters)
		}
	}
}

// TestEveryoneIsAllowed: cert-manager's solvers allow all addresses. So no filter comes and goes with each challenge,
// for which HAProxy would reload.
func TestEveryoneIsAllowed(t *testing.T) {
	for ranges, want := range map[string]int{"0.0.0.0/0,::/0": 0, "192.0.2.0/24, ::/0, 0.0.0.0/0": 0, "0.0.0.0/0": 1, "::/0": 1} {
		result := convertText(t, pathOf(home, "web", "a.test", "/", fmt.Sprintf("%swhitelist-source-range: '%s'", Prefix, ranges)))
		if filters := flatten(result)[0].extension.Filters; len(filters) != want {
			t.Errorf("%s: got the filters %+v", ranges, filters)
		}
	}
	result := convertText(t, pathOf(home, "web", "a.test", "/", Prefix+"whitelist-source-range: '0.0.0.0/0,::/0', "+Prefix+"denylist-source-range: 192.0.2.0/24"))
	filters := flatten(result)[0].extension.Filters
	if len(filters) != 1 || len(filters[0].ClientAddress.Allow) > 0 || len(filters[0].ClientAddress.Deny) != 1 {
		t.Errorf("got the filters %+v", filters)
	}
}

// TestServerOfAWS: the manifest for load balancers of AWS that end TLS has a server that redirects. Others close.
func TestServerOfAWS(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {http-snippet: %q}}\n---"
	const server = "server {\n  listen 2443;\n  return 308 https://$host$request_uri;\n}\n"
	for snippet, want := range map[string]string{
		server: "Service web", server + "deny all;\n": "503", strings.Replace(server, "return", "deny all; return", 1): "503",
	} {
		result := convertText(t, fmt.Sprintf(controller, snippet)+pathOf(home, "web", "a.test", "/", ""))
		notes := 0
		for _, note := range result.Notes {
			if note.Object.Kind == "ConfigMap" {
				notes++
			}
		}
		if got := flatten(result)[0].answer(); got != want || notes != 1 {
			t.Errorf("%s: got %q and the notes %q", snippet, got, result.Notes)
		}
	}
}

// TestChallenges: the answers to ACME's challenges are served over HTTP, as ingress-nginx does, and all else is
// redirected.
func TestChallenges(t *testing.T) {
	result := convertText(t, `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  tls: [{hosts: [a.test], secretName: a-tls}]
  rules:
    - host: a.test
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
          - {path: /.well-known/acme-challenge/, pathType: Prefix, backend: {service: {name: solver, port: {number: 8089}}}}
`)
	var got []string
	for _, rule := range flatten(result) {
		got = append(got, fmt.Sprintf("%s %s %s", rule.parents, rule.path(), strings.TrimPrefix(rule.answer(), "Service ")))
	}
	slices.Sort(got)
	want := `[ListenerSet] / web
[ListenerSet] /.well-known/acme-challenge redirect
[ListenerSet] /.well-known/acme-challenge/ solver
[http] / redirect
[http] /.well-known/acme-challenge redirect
[http] /.well-known/acme-challenge/ solver`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// TestServicesOfOthers: so do annotations of Services. GKE writes some of its own on all.
func TestServicesOfOthers(t *testing.T) {
	const service = "\n{apiVersion: v1, kind: Service, metadata: {name: web, annotations: {%s: x}}, spec: {ports: [{port: 80}]}}\n---"
	for annotation, want := range map[string]string{
		"cloud.google.com/neg": "Service web", "konghq.com/plugins": "503", "haproxy.org/allow-list": "503", "example.com/allowed": "Service web",
	} {
		result := convertText(t, fmt.Sprintf(service, annotation)+pathOf(home, "web", "a.test", "/", ""))
		if got := flatten(result)[0].answer(); got != want {
			t.Errorf("%s: got %q and the notes %q", annotation, got, result.Notes)
		}
	}
}
