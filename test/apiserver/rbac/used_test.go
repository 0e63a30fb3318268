package rbac

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// recorder stands between a program and the API server, and notes which permissions it used.
type recorder struct {
	// before is called with each request.
	before func(*http.Request)
	mu     sync.Mutex
	used   map[string]bool
}

// record returns a recorder and a kubeconfig with which the ServiceAccount of a token goes through it.
func record(t *testing.T, token string) (r *recorder, kubeconfig string) {
	t.Helper()
	r = &recorder{used: map[string]bool{}, before: func(*http.Request) {}}
	target := must.Get(url.Parse(server.Admin.Host))(t)
	config := rest.AnonymousClientConfig(server.Admin)
	// The program does not send it to a server without TLS.
	config.BearerToken = token
	transport := must.Get(rest.TransportFor(config))(t)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			r.before(request.In)
			request.SetURL(target)
		},
		Transport:      transport,
		FlushInterval:  -1,
		ModifyResponse: r.note,
		ErrorHandler:   func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	through := httptest.NewServer(proxy)
	t.Cleanup(func() {
		through.CloseClientConnections()
		through.Close()
	})
	kubeconfig = server.TokenKubeconfig(t, config.BearerToken)
	content := must.Get(os.ReadFile(kubeconfig))(t)
	var kept []string
	for line := range strings.Lines(strings.ReplaceAll(string(content), server.Admin.Host, through.URL)) {
		if !strings.Contains(line, "certificate-authority-data") {
			kept = append(kept, line)
		}
	}
	must.Do(t, os.WriteFile(kubeconfig, []byte(strings.Join(kept, "")), 0o600))
	return r, kubeconfig
}

// note adds the permissions for a request that was granted: an apply that makes an object needs "create" too.
func (r *recorder) note(response *http.Response) error {
	request := response.Request
	group, resource, named := parsePath(request.URL.Path)
	if resource == "" || response.StatusCode == http.StatusForbidden {
		return nil
	}
	verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}[request.Method]
	switch {
	case verb == "" && request.URL.Query().Get("watch") == "true":
		verb = "watch"
	case verb == "" && named:
		verb = "get"
	case verb == "":
		verb = "list"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.used[group+"/"+resource+" "+verb] = true
	if verb == "patch" && response.StatusCode == http.StatusCreated {
		r.used[group+"/"+resource+" create"] = true
	}
	if verb == "watch" && request.URL.Query().Get("sendInitialEvents") == "true" {
		// It stands for a list, which the API server may ask for instead.
		r.used[group+"/"+resource+" list"] = true
	}
	return nil
}

// parsePath takes a path apart: /api/v1/namespaces/NAMESPACE/RESOURCE/NAME/SUBRESOURCE, /apis/GROUP/VERSION/RESOURCE.
func parsePath(path string) (group, resource string, named bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case parts[0] == "api" && len(parts) > 2:
		parts = parts[2:]
	case parts[0] == "apis" && len(parts) > 3:
		group, parts = parts[1], parts[3:]
	default:
		return "", "", false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	if len(parts) > 2 {
		parts[0] += "/" + parts[2]
	}
	return group, parts[0], len(parts) > 1
}

// onlyGranted are permissions that the operator has because the API server lets it give nobody what it has not itself.
var onlyGranted = map[string]bool{
	"app.example.com/gatewayproxies create": true, "app.example.com/gatewayproxies patch": true, "app.example.com/gatewayproxies/status patch": true,
}

// unused are the permissions of the table that the program has not used.
func (r *recorder) unused(t *testing.T, who string) []string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for line := range documented(t) {
		fields := strings.Split(line, "| ")
		if use := fields[2] + "/" + fields[3] + " " + fields[5]; fields[0] == who && !r.used[use] && (who != "operator" || !onlyGranted[use]) {
			all = append(all, use)
		}
	}
	slices.Sort(all)
	return all
}

func (r *recorder) expectAllUsed(t *testing.T, who string) {
	t.Helper()
	testenv.Eventually(t, soon, "all permissions are used", func(context.Context) error {
		if unused := r.unused(t, who); len(unused) > 0 {
			return fmt.Errorf("the %s never used %q", who, unused)
		}
		return nil
	})
}

// TestOperatorUsesAllPermissions: what the operator does in the life of a Gateway takes every permission it has.
func TestOperatorUsesAllPermissions(t *testing.T) {
	installOperator(t)
	const namespace = "operator-uses"
	newNamespace(t, namespace)
	r, kubeconfig := record(t, token(t, operatorNamespace, operatorName))
	names := takeNames(t, namespace)
	// It sees all Services that there are. So one has to come when it has looked.
	var taken sync.Once
	r.before = func(request *http.Request) {
		if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/services/taken-gateway") {
			taken.Do(func() {
				_, err := server.Kube.CoreV1().Services(namespace).Create(request.Context(), &corev1.Service{
					ObjectMeta: metav1.ObjectMeta{Name: "taken-gateway"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
				}, metav1.CreateOptions{})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	operator := testenv.Start(t, []string{"POD_NAMESPACE=" + operatorNamespace}, testbuild.Program(t, "."), "-kubeconfig="+kubeconfig, "-logtostderr",
		"-health-address=127.0.0.1:0", "-leader-elect-namespace="+operatorNamespace, "-leader-elect-name="+namespace)
	for _, name := range append(names, gatewayName) {
		newGateway(t, namespace, name, 80)
	}
	for _, name := range []string{takenDaemonSet, "nodes"} {
		newGatewayOf(t, namespace, name, 80, appv1.PodsKindDaemonSet)
	}
	testenv.Eventually(t, soon, "the children", func(ctx context.Context) error {
		_, err := server.Kube.PolicyV1().PodDisruptionBudgets(namespace).Get(ctx, gatewayName+"-gateway", metav1.GetOptions{})
		return errors.Join(err, operator.Running())
	})
	// The same warning again is added to the event that there is.
	for range 3 {
		breakService(t, namespace)
	}
	useGatewayAPI(t, namespace)
	r.expectAllUsed(t, "operator")
}

// useGatewayAPI has the operator look after objects of the Gateway API, and then no more.
func useGatewayAPI(t *testing.T, namespace string) {
	t.Helper()
	team := namespace + "-team"
	newNamespace(t, team)
	server.InstallImports(t)
	server.InstallGatewayAPI(t)
	server.Kubectl(t, "apply", "-f", "testdata/gatewayapi.yaml")
	testenv.Eventually(t, soon, "agents may read in the other namespace", func(ctx context.Context) error {
		_, err := server.Kube.RbacV1().RoleBindings(team).Get(ctx, namespace+".api-gateway", metav1.GetOptions{})
		return err
	})
	for _, object := range []string{"listenerset/more", "backendtlspolicy/policy", "backendpolicy/policy", "xtelemetrypolicy/policy", "tlsroute/tls", "tcproute/tcp", "udproute/udp", "grpcroute/grpc"} {
		testenv.Eventually(t, soon, "the status of "+object, func(context.Context) error {
			if status := server.Kubectl(t, "-n", namespace, "get", object, "-o", "jsonpath={.status}"); !strings.Contains(status, "observedGeneration") {
				return fmt.Errorf("it is %q", status)
			}
			return nil
		})
	}
	server.Kubectl(t, "-n", team, "delete", "httproutes.gateway.networking.k8s.io", "http")
	server.Kubectl(t, "-n", namespace, "patch", "gateways.gateway.networking.k8s.io", "api", "--type=merge", "-p", `{"spec":{"gatewayClassName":"other"}}`)
}

// takenDaemonSet is a Gateway whose DaemonSet has a name that is taken.
const takenDaemonSet = "taken-daemonset"

// takeNames makes an object of every kind that children are of, but Services, under the name of a child. Where one is
// in the way, the operator looks whose it is. It makes no RoleBinding before it has the ServiceAccount and the Role,
// and no Deployment or DaemonSet before it has the RoleBinding. So these are in the way of Gateways of their own. It
// returns the names of the Gateways, without takenDaemonSet.
func takeNames(t *testing.T, namespace string) []string {
	t.Helper()
	const first, binding, deployment = "taken", "taken-binding", "taken-deployment"
	child := func(gateway string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: proxypod.ChildName(gateway)} }
	labels := map[string]string{"app": "other"}
	must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: child(first)}, metav1.CreateOptions{}))(t)
	must.Get(server.Kube.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: child(first)}, metav1.CreateOptions{}))(t)
	must.Get(server.Kube.PolicyV1().PodDisruptionBudgets(namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: child(first)},
		metav1.CreateOptions{}))(t)
	must.Get(server.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: child(binding), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "other"},
	}, metav1.CreateOptions{}))(t)
	selector := &metav1.LabelSelector{MatchLabels: labels}
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "other", Image: "other"}}},
	}
	must.Get(server.Kube.AppsV1().Deployments(namespace).Create(t.Context(), &k8sappsv1.Deployment{
		ObjectMeta: child(deployment), Spec: k8sappsv1.DeploymentSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{}))(t)
	must.Get(server.Kube.AppsV1().DaemonSets(namespace).Create(t.Context(), &k8sappsv1.DaemonSet{
		ObjectMeta: child(takenDaemonSet), Spec: k8sappsv1.DaemonSetSpec{Selector: selector, Template: template},
	}, metav1.CreateOptions{}))(t)
	return []string{first, binding, deployment}
}

// breakService changes each child of which something belongs to the operator alone, and waits until that is repaired.
func breakService(t *testing.T, namespace string) {
	t.Helper()
	client := server.Kube.CoreV1().Services(namespace)
	must.Get(client.Patch(t.Context(), gatewayName+"-gateway", types.MergePatchType, []byte(`{"spec":{"selector":{"app.example.com/gateway":"other"}}}`), metav1.PatchOptions{}))(t)
	testenv.Eventually(t, soon, "the Service is repaired", func(ctx context.Context) error {
		service, err := client.Get(ctx, gatewayName+"-gateway", metav1.GetOptions{})
		if err == nil && service.Spec.Selector["app.example.com/gateway"] != gatewayName {
			err = fmt.Errorf("its selector is %v", service.Spec.Selector)
		}
		return err
	})
}

// TestAgentUsesAllPermissions: so does what an agent does.
func TestAgentUsesAllPermissions(t *testing.T) {
	const namespace = "agent-uses"
	newNamespace(t, namespace)
	must.Get(server.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "api"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
	gateway := newGateway(t, namespace, gatewayName, haproxytest.FreePort(t))
	newAgent(t, gateway)
	pod := server.NewPod(t, namespace, gatewayName, "pod")
	r, kubeconfig := record(t, pod.Token)
	startAgent(t, pod, gateway.Name, kubeconfig)
	r.expectAllUsed(t, "agent")
}

// startAgent starts an agent with a HAProxy.
func startAgent(t *testing.T, pod testenv.Pod, name, kubeconfig string) {
	t.Helper()
	paths := haproxytest.NewPaths(t)
	agent := testenv.Start(t, pod.Env, testbuild.Program(t, "cmd/gateway-agent"),
		"-gateway="+name, "-logtostderr", "-v=2", "-kubeconfig="+kubeconfig,
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0")
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	haproxytest.Start(t, paths, nil)
}
