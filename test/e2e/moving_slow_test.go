//go:build slow

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/certtest"
	"gateway/internal/must"
	"gateway/internal/plugintest"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// TestMovingFromIngressNginx does what the tutorial says: two controllers serve a host beside each other, and the old
// one goes. It is ingress-nginx where INGRESS_NGINX_IMG names its image on the node. Else, HAProxy stands in for it,
// with answers as nginx gives them for the Ingress of the page.
func TestMovingFromIngressNginx(t *testing.T) {
	needNode(t)
	root := testbuild.MustRoot(t)
	s := newDocsStage(t, plugintest.Build(t, root), root)
	s.serveIngresses(t, root)
	image, _ := operatorImages(t)
	printed := strings.Fields(testenv.Run(t, root, []string{"IMG=" + image}, filepath.Join(root, "hack", "key-server.sh")))
	addOperatorFlags(t, "-ingress-namespace=gateway-ingress", "-key-server="+printed[len(printed)-1])
	authority := certtest.NewAuthority(t)
	s.script(t, "kubectl create namespace "+s.namespace)
	newBackend(t, s.namespace, "api", 1)
	waitReplicas(t, s.namespace, "api", 1)
	certificate := authority.Issue(t, []string{"shop.example.com"})
	putSecret(t, s.namespace, "shop-tls", certificate)
	s.startOld(t, root, certificate)

	must.Do(t, os.WriteFile(filepath.Join(s.dir, "ca.crt"), authority.PEM, 0o600))
	page := filepath.Join(root, "docs", "tutorials", "ingress-nginx.md")
	plugintest.ComparePage(t, page, "console moving", func(command string) string {
		name, _, _ := strings.Cut(command, "=")
		if !setsVariable.MatchString(command) {
			return s.shell(t, command)
		}
		s.variables += name + "=" + s.shell(t, command+"; echo $"+name) // what it asks for goes
		return ""
	}, normal)
}

// script runs commands, all of which have to succeed.
func (s *docsStage) script(t *testing.T, commands string) {
	t.Helper()
	if out := s.shell(t, "set -ex\n"+commands+"\necho all commands succeeded"); !strings.HasSuffix(out, "all commands succeeded\n") {
		t.Fatalf("a command failed:\n%s", out)
	}
}

// serveIngresses applies what the operator needs to serve Ingresses. Data planes have one proxy and no load balancer.
func (s *docsStage) serveIngresses(t *testing.T, root string) {
	t.Helper()
	crds := filepath.Join(strings.TrimSpace(testenv.Run(t, ".", nil, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")),
		"config/crd/experimental/gateway.networking.k8s.io_")
	files := must.Get(filepath.Glob(crds + "*s.yaml"))(t)
	var names []string
	for _, file := range files {
		if !strings.HasSuffix(file, "_vap_safeupgrades.yaml") {
			names = append(names, "-f "+file)
		}
	}
	all := strings.Join(names, " ")
	t.Cleanup(func() {
		runAtEnd(t, "remove='hack/kubectl.sh delete --ignore-not-found'\n"+
			"$remove namespace gateway-ingress ingress-nginx "+s.namespace+"; $remove gatewayclass gateway; $remove ingressclass nginx\n"+
			"$remove clusterrolebinding ingress-nginx; $remove -f artifacts/key-server -f artifacts/ingress "+all)
	})
	s.script(t, `kubectl apply --server-side `+all+`
		kubectl apply -f `+root+`/artifacts/ingress
		kubectl apply -f - <<END
apiVersion: app.example.com/v1
kind: GatewayConfig
metadata: {namespace: gateway-ingress, name: small}
spec: {replicas: 1, service: {type: ClusterIP}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway}
spec:
  controllerName: app.example.com/gateway
  parametersRef: {group: app.example.com, kind: GatewayConfig, namespace: gateway-ingress, name: small}
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: v1
kind: Namespace
metadata: {name: ingress-nginx}
END`)
}

// startOld applies the Ingress of the page, and starts the controller that serves it.
func (s *docsStage) startOld(t *testing.T, root string, certificate certtest.Pair) {
	t.Helper()
	example := must.Get(os.ReadFile(filepath.Join(root, "cmd/kubectl-gateway/internal/convert/testdata/ingress-example.in.yaml")))(t)
	ingress := strings.NewReplacer("namespace: shop", "namespace: "+s.namespace, "spec:", "spec:\n  ingressClassName: nginx").Replace(string(example))
	image := os.Getenv("INGRESS_NGINX_IMG")
	pods := fmt.Sprintf(ingressNginx, image)
	if image == "" {
		service := must.Get(kube.CoreV1().Services(s.namespace).Get(t.Context(), "api", metav1.GetOptions{}))(t)
		_, image = operatorImages(t)
		pem := base64.StdEncoding.EncodeToString(append(certificate.Certificate, certificate.Key...))
		pods = fmt.Sprintf(standIn, image, service.Spec.ClusterIP, pem)
	}
	s.script(t, "kubectl apply -f - <<'END'\n"+oldService+pods+"\n---\n"+ingress+"\nEND\nkubectl -n ingress-nginx rollout status deployment/ingress-nginx-controller --timeout=60s")
	if os.Getenv("INGRESS_NGINX_IMG") == "" {
		s.script(t, `kubectl -n shop patch ingress shop --subresource=status --type=merge -p '{"status":{"loadBalancer":{"ingress":[{"ip":"'$(`+
			`kubectl -n ingress-nginx get service ingress-nginx-controller -o jsonpath='{.spec.clusterIP}')'"}]}}}'`)
	}
	s.script(t, "kubectl -n shop wait ingress/shop --for=jsonpath='{.status.loadBalancer.ingress}' --timeout=90s")
}

const oldService = `
apiVersion: v1
kind: Service
metadata: {namespace: ingress-nginx, name: ingress-nginx-controller}
spec:
  selector: {app: ingress-nginx}
  ports: [{name: http, port: 80, targetPort: http}, {name: https, port: 443, targetPort: https}]
---`

// ingressNginx is ingress-nginx's controller with an image.
const ingressNginx = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ingress-nginx}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, namespace: ingress-nginx, name: default}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: ingress-nginx, name: ingress-nginx-controller}
spec:
  selector: {matchLabels: {app: ingress-nginx}}
  template:
    metadata: {labels: {app: ingress-nginx}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: controller
        image: %s
        args: [/nginx-ingress-controller, --publish-service=ingress-nginx/ingress-nginx-controller]
        env:
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        ports: [{name: http, containerPort: 80}, {name: https, containerPort: 443}]
        readinessProbe: {httpGet: {path: /healthz, port: 10254}, periodSeconds: 1}`

// standIn is HAProxy with an image and the address of the backend, and answers of nginx.
const standIn = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: ingress-nginx, name: ingress-nginx-controller}
spec:
  selector: {matchLabels: {app: ingress-nginx}}
  template:
    metadata: {labels: {app: ingress-nginx}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: haproxy
        image: %s
        command: [haproxy, -f, /config/haproxy.cfg]
        ports: [{name: http, containerPort: 8080}, {name: https, containerPort: 8443}]
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: config, mountPath: /config}]
      volumes: [{name: config, secret: {secretName: stand-in}}]
---
apiVersion: v1
kind: Secret
metadata: {namespace: ingress-nginx, name: stand-in}
stringData:
  haproxy.cfg: |
    defaults
      mode http
      timeout connect 5s
      timeout client 30s
      timeout server 30s
    frontend old
      bind :8080
      bind :8443 ssl crt /config/tls.pem alpn h2,http/1.1
      acl api path_reg -i ^/api(/|$)
      http-request return status 308 content-type text/html hdr Location "https://%%[hdr(host)]%%[url]" string "<html>\r\n<head><title>308 Permanent Redirect</title></head>\r\n<body>\r\n<center><h1>308 Permanent Redirect</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n" if api !{ ssl_fc }
      http-request return status 404 content-type text/html string "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n" unless api
      http-request replace-path (?i)^/api(?:/|$)(.*) /\1
      http-after-response set-header Strict-Transport-Security "max-age=31536000; includeSubDomains" if { ssl_fc }
      default_backend api
    backend api
      server api %s:80
data:
  tls.pem: %s`
