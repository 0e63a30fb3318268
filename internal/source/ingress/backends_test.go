package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// serviceWith is the Service web with something in its spec.
func serviceWith(spec string) string {
	return "\n{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {" + spec + "}}\n---"
}

// TestPorts: nginx takes the first port of the Service that has the number, the name or the targetPort.
func TestPorts(t *testing.T) {
	for _, test := range []struct {
		port, spec string
		want       int32
	}{
		{"number: 80", "", 80},
		{"number: 8080", "ports: [{port: 81}, {port: 82, targetPort: 8080}]", 82},
		{"number: 8080", "ports: [{port: 82, targetPort: 8080}, {port: 8080}]", 82},
		{"name: http", "ports: [{port: 81}, {name: web, port: 82, targetPort: http}]", 82},
		{"name: http", "ports: [{name: http, port: 81}]", 81},
		{"number: 90", "ports: [{port: 81}]", 90},
	} {
		text := strings.Replace(pathOf(home, "web", "a.test", "/", ""), "number: 80", test.port, 1)
		if got := *flatten(convertText(t, serviceWith(test.spec)+text))[0].BackendRefs[0].Port; got != test.want {
			t.Errorf("%s of {%s}: got %d, want %d", test.port, test.spec, got, test.want)
		}
	}
}

// TestServicesAreNoted where proxies do something else with them than nginx, with what to do.
func TestServicesAreNoted(t *testing.T) {
	const otherProtocol = "Service web: its port has appProtocol %s, which nginx does not read: %s"
	const remove, refused = "backends get HTTP/2. Remove it if they speak HTTP/1.1", "requests get 500 until you remove it"
	for _, test := range []struct{ spec, annotations, want string }{
		{"ports: [{port: 80}]", "", ""},
		{"type: ExternalName, externalName: api.test", "", fmt.Sprintf(externalName, "web", "api.test")},
		{"ports: [{port: 80, appProtocol: http}]", "", ""},
		{"ports: [{port: 80, appProtocol: http2}]", "", fmt.Sprintf(otherProtocol, "http2", remove)},
		{"ports: [{port: 80, appProtocol: grpc}]", "", fmt.Sprintf(otherProtocol, "grpc", remove)},
		{"ports: [{port: 80, appProtocol: redis}]", "", fmt.Sprintf(otherProtocol, "redis", refused)},
		{"ports: [{port: 80, appProtocol: grpc}]", Prefix + "backend-protocol: GRPC", ""},
		{"ports: [{port: 80}]", Prefix + "backend-protocol: GRPC", "annotation backend-protocol: " + h2c},
		{"ports: [{port: 80}]", Prefix + "enable-cors: 'true', " + Prefix + "cors-allow-origin: 'https://b.test'", "annotation enable-cors: CORS headers of backends are removed"},
		{"ports: [{port: 80}]", Prefix + "affinity: cookie", ""},
		{"ports: [{port: 80}]", Prefix + "affinity: cookie, path: /a", "annotation affinity: the cookie is for all paths of the host: nginx makes one for each path"},
	} {
		annotations, path, _ := strings.Cut(test.annotations, ", path: ")
		notes := ofIngresses(convertText(t, serviceWith(test.spec)+pathOf(home, "web", "a.test", path, annotations)))
		if slices.ContainsFunc(notes, func(n Note) bool { return n.Text != test.want && !strings.Contains(n.Text, "something too") }) || len(notes) == 0 && test.want != "" {
			t.Errorf("{%s} and %s: got %q, want %q", test.spec, test.annotations, notes, test.want)
		}
	}
}

// TestAskedAtHost: a URL of the request's host leads to the Service that an Ingress has for the path there.
func TestAskedAtHost(t *testing.T) {
	const guard = Prefix + "auth-url: 'https://$host/oauth2/auth?a=b', " + Prefix + "auth-signin: 'https://$host/oauth2/start'"
	asks := func(result *Result) string {
		for _, rule := range flatten(result) {
			for _, filter := range rule.extension.Filters {
				if auth := filter.ExternalAuth; auth != nil {
					return fmt.Sprintf("%s %s:%d%s within %s", rule.route, auth.BackendRef.Name, auth.BackendRef.Port, auth.Path, auth.Timeout)
				}
			}
		}
		return flatten(result)[0].answer()
	}
	const service = "\n{apiVersion: v1, kind: Service, metadata: {name: proxy, namespace: b}, spec: {ports: [{port: 4180, name: http}]}}\n---"
	proxy := service + strings.Replace(pathOf("b", "proxy", "a.test", "/oauth2", ""), "number: 80", "name: http", 1)
	web := pathOf(home, "web", "a.test", "/", guard)
	const want = "b/ingress-a-test proxy:4180/oauth2/auth?a=b within 1m"
	for _, test := range []struct{ text, want string }{
		{web + proxy, want},
		{strings.Replace(web, "https://$host", "http://$http_host", 1) + proxy, want},
		{web + pathOf(home, "other", "a.test", "/oauth", "") + proxy, want},
		{web, "503"}, // the path is guarded itself
		{configured("global-auth-url: 'http://$host/oauth2/auth'") + pathOf(home, "web", "a.test", "/", "") + proxy, "503"},
		{web + strings.Replace(proxy, "a.test", "b.test", 1), "503"},
		{web + pathOf("b", "proxy", "a.test", "/oauth2", Prefix+"rewrite-target: /"), "503"},
		{web + pathOf("b", "proxy", "a.test", "/oauth2/start", ""), "503"},
	} {
		if got := asks(convertText(t, test.text)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.text, got, test.want)
		}
	}
	in := parseText(t, web+proxy)
	in.Serving = true
	if got := asks(Translate(in)); got != "503" {
		t.Errorf("without the consent of the other namespace, got %s", got)
	}
}

// TestForcedHTTPS: behind a proxy that ends TLS, requests over HTTP are redirected, and others are served.
func TestForcedHTTPS(t *testing.T) {
	web := pathOf(home, "web", "a.test", "/", Prefix+"force-ssl-redirect: 'true'")
	for _, test := range []struct {
		data string
		want []string
	}{
		{"", []string{"[http] 0 Service web"}},
		{"use-forwarded-headers: 'true'", []string{"[http] 1 Service web", "[http] 0 redirect"}},
	} {
		var got []string
		for _, rule := range flatten(convertText(t, configured(test.data)+web)) {
			got = append(got, fmt.Sprint(rule.parents, " ", len(rule.Matches[0].Headers), " ", rule.answer()))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("{%s}: got %q, want %q", test.data, got, test.want)
		}
	}
}

// TestDefaultCertificate: one listener serves all hosts without a certificate. Those with tls are redirected.
func TestDefaultCertificate(t *testing.T) {
	withoutSecret := strings.Replace(pathOf("c", "nosecret", "nosecret.test", "/", ""), "spec: {", "spec: {tls: [{hosts: [nosecret.test]}], ", 1)
	text := withoutSecret + pathOf("c", "plain", "plain.test", "/", "") + secured("c", "own", "own.test", "/", "")
	in := parseText(t, text)
	in.Certificate = types.NamespacedName{Namespace: "b", Name: "wild"}
	for _, result := range []*Result{Translate(in), convertText(t, configured("default-ssl-certificate: b/wild")+text)} {
		var got []string
		for _, rule := range flatten(result) {
			got = append(got, fmt.Sprint(rule.route, rule.parents, rule.answer()))
		}
		want := []string{
			"c/ingress-own-test-redirect[http]redirect", "c/ingress-own-test[ListenerSet]Service own",
			"c/ingress-plain-test-http[http]Service plain", "c/ingress-plain-test[ListenerSet]Service plain",
			"c/ingress-nosecret-test-redirect[http]redirect", "c/ingress-nosecret-test[ListenerSet]Service nosecret",
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		sets := objects[*gatewayv1.ListenerSet](result)
		if len(sets) != 2 || sets[0].Namespace != "b" || sets[0].Spec.Listeners[0].Hostname != nil ||
			sets[0].Spec.Listeners[0].TLS.CertificateRefs[0].Name != "wild" || sets[0].Spec.Listeners[0].AllowedRoutes == nil {
			t.Errorf("got the ListenerSets %+v", sets)
		}
	}
	for data, want := range map[string]string{"": "--default-ssl-certificate", "default-ssl-certificate: wild": "it is no NAMESPACE/NAME"} {
		if notes := convertText(t, configured(data)+withoutSecret).Notes; !slices.ContainsFunc(notes, func(n Note) bool { return strings.Contains(n.Text, want) }) {
			t.Errorf("{%s}: got %q", data, notes)
		}
	}
}

// TestHeadersOfConfigMaps: one that cannot be set leaves the others. custom-headers take variables for text.
func TestHeadersOfConfigMaps(t *testing.T) {
	const headers = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: headers}, data: {X-A: b, X-B: $remote_addr, Host: c}}\n---"
	const lost = "ConfigMap a/headers: up to 16 headers can be set, to fixed texts, and not "
	const custom = "global-allowed-response-headers: 'Host,X-A,X-B'"
	for _, test := range []struct{ data, annotations, lost, with string }{
		{"add-headers: a/headers", "", "Host, X-B", `"set":[{"name":"X-A","value":"b"}]`},
		{"proxy-set-headers: a/headers", "", "Host, X-B", `"set":[{"name":"X-A","value":"b"}]`},
		{custom, Prefix + "custom-headers: a/headers", "Host", `"set":[{"name":"X-A","value":"b"},{"name":"X-B","value":"$remote_addr"}]`},
	} {
		result := convertText(t, configured(test.data)+headers+pathOf(home, "web", "a.test", "/", test.annotations))
		isNoted := slices.ContainsFunc(result.Notes, func(n Note) bool { return strings.HasSuffix(n.Text, lost+test.lost) })
		if made := madeOf(t, result); !isNoted || !strings.Contains(made, test.with) {
			t.Errorf("{%s}: got %q and\n%s", test.data, result.Notes, made)
		}
	}
}
