package ingress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// configured is the controller's ConfigMap with some data.
func configured(data string) string {
	return "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {" + data + "}}\n---"
}

// secured is an Ingress with one path, whose host has a certificate.
func secured(namespace, name, host, path, annotations string) string {
	return strings.Replace(pathOf(namespace, name, host, path, annotations), "spec: {", fmt.Sprintf("spec: {tls: [{hosts: [%s], secretName: tls}], ", host), 1)
}

// TestHSTS: over HTTPS alone, answers have the header.
func TestHSTS(t *testing.T) {
	const usual = "max-age=31536000; includeSubDomains"
	for _, test := range []struct {
		name, data, annotations, want string
	}{
		{"redirects", "", "", usual},
		{"without redirects", "", Prefix + "ssl-redirect: 'false'", usual},
		{"behind proxies", "use-forwarded-headers: 'true'", "", usual},
		{"values", "hsts-max-age: '60', hsts-include-subdomains: 'false', hsts-preload: 'true'", "", "max-age=60; preload"},
		{"off", "hsts: 'false'", "", ""},
		{"a header of the ConfigMap", "add-headers: a/headers", "", ""},
		{"a header of the Ingress", "allow-snippet-annotations: 'true'", Prefix + `configuration-snippet: "more_set_headers 'strict-transport-security: x';"`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			const headers = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: headers}, data: {Strict-transport-Security: max-age=7}}\n---"
			result := convertText(t, configured(test.data)+headers+pathOf(home, "plain", "plain.test", "/", "")+secured(home, "web", "a.test", "/", test.annotations))
			overHTTPS := 0
			for _, rule := range flatten(result) {
				value := ""
				for _, filter := range rule.Filters {
					for _, header := range ptr.Deref(filter.ResponseHeaderModifier, gatewayv1.HTTPHeaderFilter{}).Set {
						if header.Name == hsts {
							value = header.Value
						}
					}
				}
				want := ""
				if slices.Contains(rule.parents, "ListenerSet") {
					want = test.want
					overHTTPS++
				}
				if value != want {
					t.Errorf("%s at %q: got %q, want %q", rule.route, rule.parents, value, want)
				}
			}
			if config, err := json.Marshal(objects[*appv1.GatewayConfig](result)); overHTTPS != 1 || err != nil || strings.Contains(string(config), usual) {
				t.Errorf("%d rules are for HTTPS, and the GatewayConfig is %s (%v)", overHTTPS, config, err)
			}
		})
	}
}

// TestProxies: the GatewayConfig has what nginx does by default, and what keys say of it.
func TestProxies(t *testing.T) {
	for _, test := range []struct {
		data string
		// with and without are parts of the GatewayConfig.
		with, without string
		note          string
	}{
		{"", `"clientLimits":{"maxHeaders":1000,"maxHeaderBytes":32768}`, `"compression"`, ""},
		{"large-client-header-buffers: 4 4k", `"maxHeaderBytes":16384`, "", ""},
		{"large-client-header-buffers: 1 1k", `"maxHeaderBytes":4096`, "", ""},
		{"large-client-header-buffers: 8 16k", `"maxHeaderBytes":65536`, "", "headers of requests have up to 64 KiB"},
		{"large-client-header-buffers: many", `"maxHeaderBytes":32768`, "", "it is no number and size"},

		{"", `"remove":["Server"]`, "", ""},
		{"server-tokens: 'true'", `"remove":["Server"]`, "", "no answer has the header Server: nginx names itself"},
		{"allow-backend-server-header: 'true'", `"remove":["Server"]`, "", ""},
		{"allow-backend-server-header: 'true', server-tokens: 'true'", "", `"Server"`, ""},
		{"hide-headers: 'server,X-A'", `"remove":["server","X-A"]`, `"Server"`, ""},

		{"", `"Forwarded"]`, "", ""},
		{"", `{"set":[{"name":"X-Real-IP","variable":"ClientAddress"}]}`, "trustedProxies", ""},
		{"use-forwarded-headers: 'true'", `{"name":"X-Forwarded-For","variable":"ClientAddress"}`, "", ""},
		{"enable-real-ip: 'true'", "", "trustedProxies", realIP},
		{"enable-real-ip: 'true', use-forwarded-headers: 'true'", "trustedProxies", "", ""},
		{"use-forwarded-headers: 'true', compute-full-forwarded-for: 'true'", `"trustedProxies"`, `{"name":"X-Forwarded-For"`, ""},

		{"use-gzip: 'true'", `"application/rss+xml"`, "", ""},
		{"use-gzip: 'true'", `"minBytes":256`, "", ""},
		{"use-gzip: 'true', gzip-min-length: '1000', gzip-types: text/html a/b", `"compression":{"contentTypes":["text/html","a/b"],"minBytes":1000}`, "", ""},
		{"use-gzip: 'true', gzip-types: '*'", `{"contentTypes":["text/html"],`, "", "* cannot be given: name up to 32 media types"},
	} {
		result := convertText(t, configured(test.data)+pathOf(home, "web", "a.test", "/", ""))
		config, err := json.Marshal(objects[*appv1.GatewayConfig](result)[0].Spec)
		if text := string(config); err != nil || !strings.Contains(text, test.with) || test.without != "" && strings.Contains(text, test.without) {
			t.Errorf("{%s}: got %s (%v), want %s and not %s", test.data, text, err, test.with, test.without)
		}
		var notes []string
		for _, note := range result.Notes {
			if note.Object.Kind == "ConfigMap" {
				_, text, _ := strings.Cut(note.Text, ": ")
				notes = append(notes, text)
			}
		}
		if text := strings.Join(slices.Compact(notes), "|"); text != test.note {
			t.Errorf("{%s}: got the notes %q, want %q", test.data, text, test.note)
		}
	}
}

// TestSnippetsAreIgnored where the ConfigMap says so. Without the key, older versions of nginx take them.
func TestSnippetsAreIgnored(t *testing.T) {
	const header, other = "configuration-snippet: \"more_set_headers 'X-A: b';\"", "configuration-snippet: proxy_buffering off;"
	for _, test := range []struct{ data, annotation, want string }{
		{"allow-snippet-annotations: 'false'", header, "Service web"},
		{"allow-snippet-annotations: 'false'", other, "Service web"},
		{"allow-snippet-annotations: 'false'", "server-snippet: deny all;", "Service web"},
		{"allow-snippet-annotations: 'false', enable-modsecurity: 'true', modsecurity-snippet: SecRuleEngine On", "modsecurity-snippet: a", "503"},
		{"allow-snippet-annotations: 'true'", header, "X-A Service web"},
		{"allow-snippet-annotations: 'true'", other, "503"},
		{"", header, "X-A Service web"},
		{"", other, "503"},
	} {
		result := convertText(t, configured(test.data)+pathOf(home, "web", "a.test", "/", Prefix+test.annotation))
		rule := flatten(result)[0]
		got := rule.answer()
		if filter := rule.filter(func(f *gatewayv1.HTTPRouteFilter) bool { return f.ResponseHeaderModifier != nil }); filter != nil {
			got = string(filter.ResponseHeaderModifier.Set[0].Name) + " " + got
		}
		isIgnored := slices.ContainsFunc(result.Notes, func(n Note) bool {
			return strings.HasSuffix(n.Text, "-snippet: nginx ignores it, as allow-snippet-annotations is false")
		})
		if wants := strings.Contains(test.data, "'false'") && !strings.Contains(test.data, "mod"); got != test.want || isIgnored != wants {
			t.Errorf("{%s} and %s: got %q and the notes %q, want %q", test.data, test.annotation, got, result.Notes, test.want)
		}
	}
}

// TestBlockedWords: an Ingress with one is left out, and others stay.
func TestBlockedWords(t *testing.T) {
	text := configured("annotation-value-word-blocklist: 'load_module,forbidden'") +
		pathOf(home, "bad", "bad.test", "/", Prefix+"configuration-snippet: '# a forbidden word'") +
		pathOf(home, "web", "a.test", "/", "example.com/note: forbidden")
	result := convertText(t, text)
	const note = `annotation configuration-snippet: it has the word "forbidden" of annotation-value-word-blocklist, so nginx leaves the Ingress out`
	if got := answers(result); !slices.Equal(got, []string{"/ Service web"}) || result.Ingresses != 2 || !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Text == note }) {
		t.Errorf("got %q and %q", got, result.Notes)
	}
}

// TestAllowedHeaders: as with nginx, custom-headers have those that the ConfigMap allows, or the path answers 503.
func TestAllowedHeaders(t *testing.T) {
	const headers = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: headers}, data: {X-A: b}}\n---"
	for text, want := range map[string]string{
		"": "Service web", configured(""): "503", configured("global-allowed-response-headers: 'X-B, X-A'"): "Service web",
		configured("global-allowed-response-headers: X-B"): "503",
	} {
		if got := flatten(convertText(t, text+headers+pathOf(home, "web", "a.test", "/", Prefix+"custom-headers: a/headers"))); got[0].answer() != want {
			t.Errorf("%s: got %s, want %s", text, got[0].answer(), want)
		}
	}
}

// TestNoAuthLocations are neither asked about nor need a password, whoever wants that. Other guards stay.
func TestNoAuthLocations(t *testing.T) {
	const passwords, own = Prefix + "auth-type: basic, " + Prefix + "auth-secret: users", Prefix + "auth-url: http://login.a.svc/check"
	const global, some = "global-auth-url: 'http://login.a.svc/check'", "no-auth-locations: '/open, /x'"
	for _, test := range []struct{ data, annotations, path, want string }{
		{some, own, "/open/a", "/open/a Service web"},
		{some, passwords, "/open", "/open Service web"},
		{some, passwords + ", " + own + ", " + Prefix + "denylist-source-range: 10.0.0.0/8", "/x", "/x.* Service web allow [] deny [10.0.0.0/8]"},
		{some + ", " + global, "", "/open", "/open Service web"},
		{some, own, "/.well-known/acme-challenge", `/\.well-known/acme-challenge.* Service web asks login:80/check []`},
		{"", own, "/.well-known/acme-challenge", "/.well-known/acme-challenge Service web"},
		{"no-auth-locations: ''", own, "/.well-known/acme-challenge", `/\.well-known/acme-challenge.* Service web asks login:80/check []`},
	} {
		result := convertText(t, configured(test.data)+pathOf(home, "web", "a.test", test.path, test.annotations))
		if got := limits(result); !slices.Equal(got, []string{test.want}) {
			t.Errorf("{%s} and %s: got %q, want %q", test.data, test.annotations, got, test.want)
		}
	}
}

// TestKeysAreNoted by their own names.
func TestKeysAreNoted(t *testing.T) {
	result := convertText(t, configured("global-auth-url: 'http://login.a.svc/', global-auth-signin: 'https://a.test', whitelist-source-range: x, denylist-source-range: x")+
		pathOf(home, "web", "a.test", "/", ""))
	var got []string
	for _, note := range result.Notes {
		if note.Object.Kind == "ConfigMap" {
			name, _, _ := strings.Cut(note.Text, ": ")
			got = append(got, name)
		}
		if note.Object.Kind == "Ingress" {
			t.Errorf("got the note %q", note)
		}
	}
	if want := []string{"key denylist-source-range, whitelist-source-range", "key global-auth-signin", "key global-auth-url"}; !slices.Equal(slices.Compact(got), want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
