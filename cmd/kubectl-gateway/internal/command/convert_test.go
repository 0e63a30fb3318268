package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
)

// fixtures are what the conversion is tested with.
const fixtures = "../convert/testdata/"

// TestConvertedIsAccepted lets HAProxy check what becomes of every fixture.
func TestConvertedIsAccepted(t *testing.T) {
	outputs, err := filepath.Glob(fixtures + "*.out.yaml")
	if err != nil || len(outputs) == 0 {
		t.Fatalf("there is no output: %v", err)
	}
	for _, output := range outputs {
		t.Run(filepath.Base(output), func(t *testing.T) {
			t.Parallel()
			notes := must.Get(os.ReadFile(strings.Replace(output, ".out.yaml", ".notes.txt", 1)))(t)
			result := clitest.Run(t, "", "render", "--check", "-f", output)
			for line := range strings.Lines(result.Out + result.Err) {
				// A part that has no effect is in the notes too. Cookies of all origins are ingress-nginx's default. What the
				// notes name as left out may be a backend.
				known := strings.Contains(line, "CORS has the origin * with credentials") || strings.Contains(line, "has no backendRefs")
				warning, isWarning := strings.CutPrefix(line, "warning: ")
				_, problem, _ := strings.Cut(warning, "default/ingress") // after the file, the line and the Gateway
				_, problem, _ = strings.Cut(problem, ": ")
				if isWarning && !known && !strings.Contains(string(notes), problem) || strings.Contains(line, "HAProxy refuses it") {
					t.Error(line)
				}
			}
			result.Want(t, result.Code, "HAProxy accepts it")
		})
	}
}

// requests are made to what the fixtures for Ingresses become: ingress-nginx would do the same.
var requests = []struct {
	fixture string
	args    string
	wants   []string
}{
	{"hosts", "https://shop.example.com/cart", []string{"Service shop/shop port 8080"}},
	{"hosts", "https://shop.example.com/about", []string{"Service shop/about port 80"}},
	{"hosts", "https://shop.example.com/api/x", []string{"Service shop/api port 80"}},
	{"hosts", "https://shop.example.com/apis", []string{"Service shop/shop port 8080"}},
	{"hosts", "http://shop.example.com/cart", []string{"308: redirect to scheme https"}},
	{"hosts", "http://plain.example.com/only/x", []string{"Service shop/shop port 9090"}},
	{"hosts", "http://plain.example.com/other", []string{"answer    404"}},
	{"hosts", "http://any.example.com/x", []string{"Service shop/any port 80"}},
	{"hosts", "http://nobody.example.org/x", []string{"Service shop/fallback port 80"}},
	{"hosts", "http://nobody.example.org/status", []string{"Service shop/status port 80"}},

	{"merged", "http://www.example.com/", []string{"Service a/old port 80"}},
	{"merged", "http://example.com/", []string{"Service a/old port 80"}},
	{"merged", "http://www.example.com/young", []string{"308: redirect to scheme https"}},
	{"merged", "https://www.example.com/young", []string{"Service a/young port 80"}},
	{"merged", "http://api.example.com/other", []string{"Service a/rest port 80"}},

	{"rewrite", "http://prefix.example.com/api/x/y", []string{"Service api port 80", "request header x-forwarded-prefix: set [\"/api\"]", "path: (?i)^/api(/|$)(.*) is replaced by /\\2"}},
	{"rewrite", "http://prefix.example.com/v12/xyz", []string{"Service versions port 80", "is replaced by /\\2"}},
	{"rewrite", "http://prefix.example.com/", []string{"Service web port 80"}},
	{"rewrite", "http://prefix.example.com/Admin/x", []string{"Service admin port 80", "else 403"}},
	{"rewrite", "http://ranges.example.com/admin/x", []string{"Service admin port 80", "else 403"}},
	{"rewrite", "http://nested.example.com/outer/x", []string{"Service api port 80", "path: (?i)^/outer(/.*)?.* is replaced by /inner\\1"}},
	{"rewrite", "http://fixed.example.com/App/x", []string{"Service app port 80", "path for the backend: /\n"}},
	{"rewrite", "http://fixed.example.com/apps", []string{"Service app port 80"}},
	{"rewrite", "http://fixed.example.com/x", []string{"Service web port 80"}},
	{"rewrite", "http://regex.example.com/USERS/12/orders", []string{"Service orders port 80"}},
	{"rewrite", "http://regex.example.com/users/12/orders/1", []string{"Service user port 80"}},
	{"rewrite", "http://regex.example.com/bcd", []string{"Service ab port 80"}},

	{"redirects", "http://old.example.com/x?y=z", []string{"308: redirect to scheme https, host new.example.com, port 8443\n"}},
	{"redirects", "http://old.example.com/sale/x", []string{"302: redirect to scheme https, host sale.example.com, path /today"}},
	{"redirects", "http://mixed.example.com/.well-known/x", []string{"Service acme port 80"}},
	{"redirects", "http://mixed.example.com/x", []string{"308: redirect to scheme https"}},
	{"redirects", "https://mixed.example.com/x", []string{"Service web port 80"}},
	{"redirects", "https://example.com/", []string{"302: redirect to path /welcome"}},
	{"redirects", "https://example.com/shop/x", []string{"Service web port 80"}},
	{"redirects", "http://www.example.com/x", []string{"308: redirect to host example.com"}},

	{"canary", "http://canary.example.com/x", []string{"80% to Service web port 80", "20% to Service web-canary port 80", "timeout: 2m0s"}},
	{"canary", "http://canary.example.com/x -H X-Canary:always", []string{"100% to Service web-canary port 80"}},
	{"canary", "http://canary.example.com/x -H X-Canary:never -H Cookie:canary=always", []string{"100% to Service web port 80"}},
	{"canary", "http://canary.example.com/x -H Cookie:a=b;canary=always;c=d", []string{"100% to Service web-canary port 80"}},
	{"canary", "http://canary.example.com/x -H Cookie:nocanary=always", []string{"80% to Service web port 80"}},
	{"canary", "http://canary.example.com/api/x -H X-Region:eu-1", []string{"100% to Service api-canary port 80"}},
	{"canary", "http://canary.example.com/api/x -H X-Region:asia", []string{"100% to Service api port 80"}},

	{"settings", "http://settings.example.com/x", []string{
		"filter    CORS: pages of https://*.example.org, https://app.example.com may use it", "host for the backend: inner.example.com",
		"bodies of up to 8388608 bytes", "timeout: 1h0m0s", "retries: up to 1, also after an answer of 502, 503", "cookie route",
	}},
	{"settings", "http://settings.example.com/secure", []string{"settings of BackendTLSPolicy default/ingress-secure"}},

	{"guards", "http://plain.example.com/", []string{"clients from 192.0.2.0/24, else 403", "ExternalAuth", "Service app/echo port 80"}},
	{"guards", "http://no.example.com/", []string{"else 403", "ExternalAuth"}},
	{"guards", "http://empty.example.com/", []string{"else 403", "ExternalAuth"}},
	{"guards", "http://open.example.com/", []string{"else 403", "Service app/echo port 80"}},
	{"guards", "http://cors.example.com/", []string{"CORS: pages of * may use it", "else 403", "ExternalAuth"}},
	{"guards", "https://tls.example.com/", []string{"answer    503"}},

	{"others", "http://own.t/", []string{"clients from 127.0.0.0/8, else 403"}},
	{"others", "http://old.t/", []string{"clients from 127.0.0.0/8, else 403"}},
	{"others", "http://rancher.t/", []string{"Service app/echo port 80"}},
	{"others", "http://a3.t/", []string{"Service app/echo port 80"}},
	{"others", "http://c4.t/", []string{"Service app/echo port 80"}},
	{"others", "http://192.0.2.10/healthz", []string{"answer    200"}},
	{"others", "http://perm.t/", []string{"clients from 192.0.2.0/24, else 403", "Service app/echo port 80"}},

	{"closed", "http://open.example.com/", []string{"Service web port 80"}},
	{"closed", "http://default-firewall.example.com/", []string{"WAF: a score below 5", "Service web port 80"}},
	{"closed", "http://traefik.example.com/", []string{"answer    503"}},
	{"closed", "http://haproxy.example.com/", []string{"answer    503"}},
	{"closed", "http://alb.example.com/", []string{"answer    503"}},
	{"closed", "http://kong.example.com/", []string{"answer    503"}},
	{"closed", "http://nginx-org.example.com/", []string{"answer    503"}},
	{"closed", "http://unknown.example.com/", []string{"answer    503"}},
	{"closed", "http://snippet.example.com/", []string{"answer    503"}},
	{"closed", "http://firewall.example.com/", []string{"answer    503"}},
	{"closed", "http://server-snippet.example.com/", []string{"answer    503"}},
	{"closed", "http://server-snippet.example.com/admin", []string{"answer    503"}},
	{"closed", "http://policy.example.com/", []string{"answer    503"}},
	{"closed", "http://service.example.com/", []string{"answer    503"}},
	{"closed", "http://canary.example.com/", []string{"answer    503"}},

	{"listed", "http://listed.example.com/", []string{"Service web port 80", "51 requests per second", "600 requests per minute"}},
	{"listed", "http://listed.example.com/internal/x", []string{"Service web port 80", "else 403"}},
	{"listed", "http://user@listed.example.com/administration", []string{"a user of Secret users, else 401", "Service admin port 80"}},
	{"listed", "http://private.example.com/App/secret", []string{"answer    503"}},
	{"listed", "http://private.example.com/x", []string{"Service web port 80"}},

	{"controller", "https://nosecret.example.com/", []string{"Service shop/web port 80", "strict-transport-security: set"}},
	{"controller", "http://nosecret.example.com/", []string{"308: redirect to scheme https"}},
	{"controller", "http://plain.example.com/", []string{"Service login/oauth2-proxy:4180 at /oauth2/auth has to answer", "Service shop/web port 80"}},
	{"controller", "https://plain.example.com/oauth2/start", []string{"Service login/oauth2-proxy port 4180"}},
	{"controller", "http://behind.example.com/", []string{"308: redirect to scheme https"}},
	{"controller", "http://behind.example.com/ -H X-Forwarded-Proto:https", []string{"Service shop/web port 80", "x-forwarded-for: set to the ClientAddress"}},

	{"certificates", "https://api.example.com/v1 ingress-02", []string{"Service api port 80", "ssl-client-verify: set [\"SUCCESS\"]"}},
	{"certificates", "https://api.example.com/internal ingress-02", []string{"Service internal port 80"}},
	{"certificates", "https://api.example.com/moved ingress-02", []string{"302: redirect to scheme https, host new.example.com\n"}},
	{"certificates", "https://api.example.com/ ingress-02", []string{"302: redirect to path /welcome"}},
	{"certificates", "http://api.example.com/v1 ingress-02", []string{"308: redirect to scheme https"}},
	{"certificates", "http://canary.example.com/", []string{"answer    503"}},
	{"certificates", "http://canary.example.com/api", []string{"answer    503"}},
	{"certificates", "http://shop.example.com/x", []string{"Service shop port 80"}},
	{"certificates", "http://late.example.com/moved", []string{"302: redirect to scheme https, host new.example.com\n"}},
}

// input is the file of a fixture.
func input(fixture string) string {
	if fixture == "others" { // it has no golden file
		return fixtures + "others.yaml"
	}
	return fixtures + "ingress-" + fixture + ".in.yaml"
}

// TestOthersAreServed: ingress-nginx serves all Ingresses of a fixture.
func TestOthersAreServed(t *testing.T) {
	t.Parallel()
	converted := clitest.Run(t, "", "convert", "-f", input("others"), "-n", "default").Out
	if served := strings.Count(converted, "  - backendRefs:\n"); served != 25 || strings.Contains(converted, "statusCode: 503") || strings.Contains(converted, "requestRedirect:") {
		t.Errorf("%d of 25 Ingresses are served:\n%s", served, converted)
	}
}

// TestConvertedBehaves asks explain what becomes of requests.
func TestConvertedBehaves(t *testing.T) {
	for _, test := range requests {
		t.Run(test.fixture+" "+test.args, func(t *testing.T) {
			t.Parallel()
			converted := clitest.Run(t, "", "convert", "-f", input(test.fixture), "-n", "default").Out
			_, name, _ := strings.Cut(converted, "kind: GatewayConfig\nmetadata:\n  name: ") // the first class's
			name, _, _ = strings.Cut(name, "\n")
			args := strings.Fields(test.args)
			if last := args[len(args)-1]; strings.HasPrefix(last, name+"-") { // another Gateway of the class
				name, args = last, args[:len(args)-1]
			}
			clitest.Run(t, converted, append([]string{"explain", name, "-f", "-"}, args...)...).Want(t, 0, test.wants...)
		})
	}
}

// TestAppProtocolsAreNoted asks explain which appProtocols of a Service's port the proxies answer with 500: those are
// noted.
func TestAppProtocolsAreNoted(t *testing.T) {
	t.Parallel()
	const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a, annotations: {nginx.ingress.kubernetes.io/backend-protocol: %s}}
spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}
`
	inputs := []string{fmt.Sprintf(ingress, "HTTP"), fmt.Sprintf(ingress, "HTTPS")}
	for _, protocol := range []string{`""`, "http", "https", "kubernetes.io/h2c", "kubernetes.io/ws", "kubernetes.io/wss", "grpc", "HTTPS"} {
		service := fmt.Sprintf("---\n{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80, protocol: UDP}, {port: 80, appProtocol: %s}]}}\n", protocol)
		for i, input := range inputs {
			converted := clitest.Run(t, input+service, "convert", "-f", "-", "-n", "default")
			explained := clitest.Run(t, converted.Out+service, "explain", "-f", "-", "http://a.example.com/")
			note := fmt.Sprintf("port 80 of Service default/a has appProtocol %q, which ", strings.Trim(protocol, `"`))
			if noted := strings.Contains(converted.Err, note); noted != (explained.Code == 3) {
				t.Errorf("appProtocol %s, input %d: explain says:\n%sand convert:\n%s", protocol, i, explained.Out, converted.Err)
			}
		}
	}
}

// convertedGateway is of the Gateway API.
const convertedGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: ingress}
spec: {gatewayClassName: a, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

// TestConvert is about what the command says and how it ends.
func TestConvert(t *testing.T) { //nolint:funlen // a flat table
	t.Setenv("KUBECONFIG", "/nonexistent")
	const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a, annotations: {nginx.ingress.kubernetes.io/%s}}
spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}
`
	plain := strings.Replace(ingress, "%s", "use-regex: 'false'", 1)
	ranges := strings.Replace(ingress, "%s", "whitelist-source-range: 10.0.0.0/33", 1)
	const policy = "{apiVersion: example.com/v1, kind: AccessPolicy, metadata: {name: p}, spec: {targetRef: {kind: Service, name: a}}}\n"
	const configMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: ingress-nginx-controller}, data: {proxy-body-size: 8m, use-proxy-protocol: 'true'}}\n"
	const labelled = "{apiVersion: v1, kind: ConfigMap, metadata: {name: tcp, labels: {app.kubernetes.io/name: ingress-nginx}}, data: {'22': a/git:22}}\n"
	const deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: c}, spec: {selector: {}, template: {spec: {containers: [" +
		"{name: c, args: [/nginx-ingress-controller, --configmap=$(POD_NAMESPACE)/settings]}]}}}}\n"
	const answered, letThrough = ". Its paths answer 503\n", ". Requests are let through\n"
	const internal = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: b}
spec: {ingressClassName: internal, defaultBackend: {service: {name: b, port: {number: 80}}}}
`
	for _, test := range []struct {
		name, stdin string
		args        []string
		code        int
		wants       []string
	}{
		{"all carried over", plain + "---\n{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 80}]}}", nil, 0, []string{
			"warning: the ConfigMap of ingress-nginx's controller is not known: ", "name: ingress\n",
			"Ingresses: 1, objects made of them: 3\n",
		}},
		{"something listed", ranges, nil, 3, []string{
			"default/a Ingress: annotation whitelist-source-range: ", answered, "Ingresses: 1, objects made of them: 4, things that are not carried over as they were: 1\n", "directResponse:\n",
			"warning: paths answer 503 where something is lost that may keep clients out. --open names what may be lost\n",
		}},
		{"open", ranges, []string{"--open", "nginx.ingress.kubernetes.io/whitelist-source-range"}, 3, []string{letThrough, "backendRefs:\n"}},
		{"open for another reason", ranges, []string{"--open", "nginx.ingress.kubernetes.io/auth-url"}, 3, []string{answered, "directResponse:\n"}},
		{"closed by a policy", plain + "---\n" + policy, nil, 3, []string{"default/p AccessPolicy: it is for Service default/a, ", answered, "directResponse:\n"}},
		{"open by the policy's name", plain + "---\n" + policy, []string{"--open", "AccessPolicy/default/p"}, 3, []string{letThrough, "backendRefs:\n"}},
		{"one class of two", plain + "---" + internal, []string{"--class", "internal"}, 3, []string{
			"name: ingress\n", "name: b\n", "Ingresses: 1, objects made of them: 3, objects passed over: 1, things ",
		}},
		{"two classes", plain + "---" + internal, nil, 3, []string{"name: ingress\n", "name: ingress-internal\n", "Ingresses: 2, objects made of them: 6, "}},
		{"no such class", plain, []string{"--class", "internal"}, 1, []string{"there is no Ingress of class internal in -"}},
		{"JSON", plain, []string{"-o", "json", "--name", "web", "-n", "x"}, 0, []string{`"name": "web",`, `"namespace": "x"`, `"kind": "List"`}},
		{"notes alone as JSON", strings.Replace(plain, "networking.k8s.io/v1", "networking.k8s.io/v1beta1", 1), []string{"-o", "json"}, 3, []string{`"items": []`}},
		{"the controller's ConfigMap", plain + "---\n" + configMap, nil, 3, []string{"maxRequestBytes: 8388608\n", "default/ingress-nginx-controller ConfigMap: key use-proxy-protocol: "}},
		{"a ConfigMap that is not there", plain + "---\n" + configMap, []string{"--configmap", "default/other"}, 2, []string{
			"the ConfigMap of ingress-nginx's controller is default/other: there is none of this name in the files, which have default/ingress-nginx-controller",
		}},
		{"the ConfigMaps of two controllers", plain + "---\n" + configMap + "---\n" + strings.Replace(configMap, "ingress-nginx", "public-ingress-nginx", 1), nil, 2, []string{
			"several may be the ConfigMap of ingress-nginx's controller: name one by --configmap, and its Ingresses by --class: " +
				"default/ingress-nginx-controller, default/public-ingress-nginx-controller",
		}},
		{"one of two", plain + "---\n" + configMap + "---\n" + strings.Replace(configMap, "ingress-nginx", "public-ingress-nginx", 1),
			[]string{"--configmap", "default/ingress-nginx-controller"}, 3, []string{"maxRequestBytes: 8388608\n"}},
		{"the ConfigMap of a Deployment", plain + "---\n" + strings.Replace(configMap, "ingress-nginx-controller", "settings", 1) + "---\n" + deployment, nil, 3,
			[]string{"maxRequestBytes: 8388608\n"}},
		{"a ConfigMap that a Deployment lacks", plain + "---\n" + configMap + "---\n" + deployment, nil, 2, []string{
			"several may be the ConfigMap of ingress-nginx's controller: name one by --configmap, and its Ingresses by --class: default/ingress-nginx-controller, default/settings",
		}},
		{"a ConfigMap with the labels alone", plain + "---\n" + labelled, nil, 2, []string{
			"name the ConfigMap of ingress-nginx's controller by --configmap. Some have its labels: default/tcp",
		}},
		{"closed by the ConfigMap", plain + "---\n" + strings.Replace(configMap, "use-proxy-protocol", "block-referers", 1), nil, 3, []string{answered, "directResponse:\n"}},
		{"open by a key", plain + "---\n" + strings.Replace(configMap, "use-proxy-protocol", "block-referers", 1), []string{"--open", "block-referers"}, 3, []string{letThrough, "backendRefs:\n"}},
		{"nothing to convert", "{apiVersion: v1, kind: Service, metadata: {name: a}}", nil, 1, []string{"there is no Ingress in -"}},
		{"the Gateway API", convertedGateway, nil, 2, []string{
			"there is no Ingress in -, but objects of the Gateway API, which the operator serves as they are, with the GatewayClass gateway",
		}},
		{"the Gateway API beside an Ingress", plain + "---" + convertedGateway, nil, 3, []string{
			"name: ingress\n", "default/ingress Gateway: the operator serves it as it is, with the GatewayClass gateway\n", "objects passed over: 1, ",
		}},
		{"a wrong type", strings.Replace(plain, "number: 80", "number: eighty", 1), nil, 1, []string{"standard input:5: Ingress default/a: "}},
		{"a bad output", plain, []string{"-o", "xml"}, 2, []string{`unknown output "xml": use json or yaml`}},
		{"a bad name", plain, []string{"--name", "A"}, 2, []string{`"A" is no name for a Gateway`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			clitest.Run(t, test.stdin, append([]string{"convert", "-f", "-"}, test.args...)...).Want(t, test.code, test.wants...)
		})
	}
	clitest.Run(t, "", "convert").Want(t, 2, "name a file with -f")
}
