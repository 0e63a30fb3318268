package ingress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

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
					for _, header := range or(filter.ResponseHeaderModifier, gatewayv1.HTTPHeaderFilter{}).Set {
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
