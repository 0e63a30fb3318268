package rbac

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// foreignNames are what somebody may write who wants to name something of another namespace or outside of the cluster.
var foreignNames = []string{
	"other/svc", "other%2Fsvc", "svc.other", "svc.other.svc", "svc.other.svc.cluster.local", "svc.other.svc.cluster.local.", "../svc", "..", ".", "/svc",
	"svc/", "svc:80", "svc@other", "svc other", "svc\nother", "svc\u0000", "*", "127.0.0.1", "::1", "localhost:8404", "unix@/run/haproxy/master.sock",
	"http://svc", "$NAMESPACE", "Svc", "\u0441vc",
}

// namedFields are all places of a spec that name an object, with NAME for the name.
var namedFields = map[string]string{
	"backendRefs":                 `{"listeners":[HTTP],"routes":[{"name":"r","rules":[{"backendRefs":[{"name":NAME,"port":80}]}]}]}`,
	"backendRefs of TCP routes":   `{"listeners":[{"name":"l","port":80,"protocol":"TCP"}],"tcpRoutes":[{"name":"r","listeners":["l"],"rules":[{"backendRefs":[{"name":NAME,"port":80}]}]}]}`,
	"backendRefs of TLS routes":   `{"listeners":[{"name":"l","port":80,"protocol":"TLS","tls":{"mode":"Passthrough"}}],"tlsRoutes":[{"name":"r","rules":[{"backendRefs":[{"name":NAME,"port":80}]}]}]}`,
	"backends":                    `{"listeners":[HTTP],"backends":[{"name":NAME,"port":80,"proxyProtocol":"V1"}]}`,
	"certificates":                `{"listeners":[{"name":"l","port":443,"protocol":"HTTPS","tls":{"certificateRefs":[{"name":NAME}]}}]}`,
	"authorities of clients":      `{"listeners":[{"name":"l","port":443,"protocol":"HTTPS","tls":{"certificateRefs":[{"name":"a"}],"clientValidation":{"caCertificateRefs":[{"name":NAME}]}}}]}`,
	"authorities of backends":     `{"listeners":[HTTP],"backends":[{"name":"svc","port":80,"tls":{"hostname":"svc.example.com","caCertificateRefs":[{"name":NAME}]}}]}`,
	"the namespace of a backend":  `{"listeners":[HTTP],"routes":[{"name":"r","rules":[{"backendRefs":[{"name":"svc","port":80,"namespace":NAME}]}]}]}`,
	"the namespace of a Secret":   `{"listeners":[{"name":"l","port":443,"protocol":"HTTPS","tls":{"certificateRefs":[{"name":"a","namespace":NAME}]}}]}`,
	"the namespace of the policy": `{"listeners":[HTTP],"backends":[{"name":"svc","port":80,"proxyProtocol":"V1","namespace":NAME}]}`,
}

// TestNamesNameObjectsOfTheNamespace: the API server refuses what is not the name of an object. What it takes for the
// name of a Secret or ConfigMap, which may have dots, is one of the pod's own namespace to kubelet.
func TestNamesNameObjectsOfTheNamespace(t *testing.T) {
	client := server.Dynamic.Resource(schema.GroupVersionResource{Group: appv1.GroupName, Version: "v1", Resource: "gateways"}).Namespace("default")
	create := func(template, name string) (*appv1.Gateway, error) {
		quoted := must.Get(json.Marshal(name))(t)
		spec := strings.NewReplacer("NAME", string(quoted), "HTTP]", `{"name":"h","port":80,"protocol":"HTTP"}]`).Replace(template)
		object := &unstructured.Unstructured{}
		must.Do(t, object.UnmarshalJSON([]byte(`{"apiVersion":"app.example.com/v1","kind":"Gateway","metadata":{"name":"web"},"spec":`+spec+`}`)))
		created, err := client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			return nil, err
		}
		text := must.Get(created.MarshalJSON())(t)
		gateway := &appv1.Gateway{}
		return gateway, json.Unmarshal(text, gateway)
	}
	for field, template := range namedFields {
		if _, err := create(template, "svc"); (err == nil) == strings.HasPrefix(field, "the namespace") {
			t.Errorf("%s: a plain name is answered with %v", field, err)
		}
		for _, name := range foreignNames {
			gateway, err := create(template, name)
			switch {
			case err == nil:
				expectOwnVolumes(t, gateway, field, name)
			case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
				t.Errorf("%s %q: %v", field, name, err)
			}
		}
	}
}

// expectOwnVolumes checks that a name with dots names one Secret or ConfigMap that kubelet mounts, as one directory.
func expectOwnVolumes(t *testing.T, gateway *appv1.Gateway, field, name string) {
	t.Helper()
	text := must.Get(json.Marshal(resources.DesiredDeployment(gateway, resources.Options{}).Spec.Template.Spec.Volumes))(t)
	if !strings.Contains(string(text), `"name":"`+name+`"`) || strings.Contains(name, "/") || strings.Contains(name, "..") {
		t.Errorf("%s may be %q, and the pod mounts %s", field, name, text)
	}
}

// TestAgentReachesNothingElse: the token of one Gateway's agents is no good for another Gateway, nor for another
// namespace.
func TestAgentReachesNothingElse(t *testing.T) {
	newNamespace(t, "tenant-a")
	newNamespace(t, "tenant-b")
	account := newAgent(t, newGateway(t, "tenant-a", gatewayName, 80))
	newGateway(t, "tenant-a", "other", 80)
	newGateway(t, "tenant-b", gatewayName, 80)
	agent, ctx := as(t, "tenant-a", account), t.Context()
	report := []byte(`{"status":{"replicas":7}}`)
	gateways := func(namespace string) gatewayClient { return agent.App.AppV1().Gateways(namespace) }
	own, err := gateways("tenant-a").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + gatewayName})
	if err != nil || len(own.Items) != 1 {
		t.Fatalf("an agent cannot read its Gateway: %v", err)
	}
	attempts := map[string]func() error{
		"read another Gateway":          func() error { _, err := gateways("tenant-a").Get(ctx, "other", metav1.GetOptions{}); return err },
		"list the namespace's Gateways": func() error { _, err := gateways("tenant-a").List(ctx, metav1.ListOptions{}); return err },
		"read its namesake elsewhere":   func() error { _, err := gateways("tenant-b").Get(ctx, gatewayName, metav1.GetOptions{}); return err },
		"change its Gateway's spec":     func() error { return patch(ctx, gateways("tenant-a"), gatewayName, []byte(`{"spec":{"replicas":9}}`)) },
		"change its Gateway's status":   func() error { return patch(ctx, gateways("tenant-a"), gatewayName, report, "status") },
		"report in another namespace":   func() error { return writeReport(ctx, agent, "tenant-b", "pod") },
		"read reports": func() error {
			return errorOf(agent.App.AppV1().GatewayProxies("tenant-a").List(ctx, metav1.ListOptions{}))
		},
		"read Services elsewhere": func() error { return errorOf(agent.Kube.CoreV1().Services("tenant-b").List(ctx, metav1.ListOptions{})) },
		"read endpoints elsewhere": func() error {
			return errorOf(agent.Kube.DiscoveryV1().EndpointSlices("tenant-b").List(ctx, metav1.ListOptions{}))
		},
		"read all Services": func() error { _, err := agent.Kube.CoreV1().Services("").List(ctx, metav1.ListOptions{}); return err },
		"read Secrets":      func() error { return errorOf(agent.Kube.CoreV1().Secrets("tenant-a").List(ctx, metav1.ListOptions{})) },
		"read a Secret": func() error {
			return errorOf(agent.Kube.CoreV1().Secrets("tenant-a").Get(ctx, "web-tls", metav1.GetOptions{}))
		},
		"read ConfigMaps": func() error {
			return errorOf(agent.Kube.CoreV1().ConfigMaps("tenant-a").List(ctx, metav1.ListOptions{}))
		},
		"read pods": func() error { return errorOf(agent.Kube.CoreV1().Pods("tenant-a").List(ctx, metav1.ListOptions{})) },
		"get more permissions": func() error {
			return errorOf(agent.Kube.RbacV1().Roles("tenant-a").Apply(ctx, resources.DesiredRole(wider), metav1.ApplyOptions{FieldManager: "a", Force: true}))
		},
		"get a token of somebody else":  func() error { return requestToken(ctx, agent, "tenant-a", "default") },
		"get another token for its own": func() error { return requestToken(ctx, agent, "tenant-a", account) },
		"point a Service to where it likes": func() error {
			return errorOf(agent.Kube.DiscoveryV1().EndpointSlices("tenant-a").Create(ctx, newSlice("x", "api", "10.1.2.3"), metav1.CreateOptions{}))
		},
	}
	for what, attempt := range attempts {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("an agent may %s: %v", what, err)
		}
	}
}

// errorOf returns the error of a request, whose answer does not count.
func errorOf[T any](_ T, err error) error { return err }

type gatewayClient interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (*appv1.Gateway, error)
	List(ctx context.Context, options metav1.ListOptions) (*appv1.GatewayList, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*appv1.Gateway, error)
}

func patch(ctx context.Context, client gatewayClient, name string, body []byte, subresources ...string) error {
	_, err := client.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	return err
}

// wider stands for a Gateway whose agents may do more.
var wider = &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant-a", Name: "other", UID: "1"}}

func requestToken(ctx context.Context, user testenv.Clients, namespace, account string) error {
	_, err := user.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, newTokenRequest(), metav1.CreateOptions{})
	return err
}

// newSlice is an EndpointSlice that no controller made.
func newSlice(name, service, address string) *discoveryv1.EndpointSlice {
	kind := discoveryv1.AddressTypeIPv4
	switch {
	case strings.Contains(address, ":"):
		kind = discoveryv1.AddressTypeIPv6
	case strings.Contains(address, "example"):
		kind = discoveryv1.AddressTypeFQDN
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: kind,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(8404))}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
	}
}

// TestSpecialEndpointsAreRefused: an EndpointSlice may point anywhere (CVE-2021-25740), but not to the node itself, the
// proxy's own pod or the cloud's metadata: the API server does not admit it.
func TestSpecialEndpointsAreRefused(t *testing.T) {
	newNamespace(t, "special")
	for _, address := range []string{
		"127.0.0.1", "127.1.2.3", "0.0.0.0", "169.254.169.254", "169.254.1.1", "224.0.0.1", "::", "::1", "fe80::1", "ff02::1", "::ffff:127.0.0.1",
		"::ffff:169.254.169.254", "fe80::1%eth0",
	} {
		_, err := server.Kube.DiscoveryV1().EndpointSlices("special").Create(t.Context(), newSlice("x", "api", address), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsInvalid(err) {
			t.Errorf("an endpoint at %s is answered with %v", address, err)
		}
	}
}

// TestProxyReachesNoOtherNamespace: a Gateway whose namespace has nothing of the name goes nowhere, whatever another
// namespace has, and whatever an ExternalName Service or an endpoint by name says.
func TestProxyReachesNoOtherNamespace(t *testing.T) {
	newNamespace(t, "proxy-a")
	newNamespace(t, "proxy-b")
	service := func(namespace, name string, spec corev1.ServiceSpec) {
		spec.Ports = []corev1.ServicePort{{Port: 80}}
		must.Get(server.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}))(t)
	}
	slice := func(namespace, service, address string) {
		must.Get(server.Kube.DiscoveryV1().EndpointSlices(namespace).Create(t.Context(), newSlice(service+"-1", service, address), metav1.CreateOptions{}))(t)
	}
	// "api" exists elsewhere only; "external" leads elsewhere, by its type and by its endpoints; "named" has an
	// endpoint that is a name.
	service("proxy-b", "api", corev1.ServiceSpec{})
	slice("proxy-b", "api", "10.1.2.3")
	service("proxy-a", "external", corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "api.proxy-b.svc.cluster.local"})
	slice("proxy-a", "external", "10.1.2.3")
	service("proxy-a", "named", corev1.ServiceSpec{})
	slice("proxy-a", "named", "api.example.com")
	port := haproxytest.FreePort(t)
	gateway := newGateway(t, "proxy-a", gatewayName, port)
	rules := make([]string, 0, 3)
	for _, name := range []string{"api", "external", "named"} {
		rules = append(rules, fmt.Sprintf(`{"matches":[{"path":{"value":"/%[1]s"}}],"backendRefs":[{"name":%[1]q,"port":80}]}`, name))
	}
	body := []byte(`{"spec":{"routes":[{"name":"r","rules":[` + strings.Join(rules, ",") + `]}]}}`)
	must.Do(t, patch(t.Context(), server.App.AppV1().Gateways("proxy-a"), gatewayName, body))
	newAgent(t, gateway)
	pod := server.NewPod(t, "proxy-a", gatewayName, "pod")
	startAgent(t, pod, gatewayName, server.TokenKubeconfig(t, pod.Token))
	for path, want := range map[string]int{"/api": http.StatusInternalServerError, "/external": http.StatusInternalServerError, "/named": http.StatusServiceUnavailable} {
		testenv.Eventually(t, soon, "an answer for "+path, func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
			if err != nil {
				return err
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				return err
			}
			_ = response.Body.Close()
			if response.StatusCode != want {
				return fmt.Errorf("got %d, want %d", response.StatusCode, want)
			}
			return nil
		})
	}
}

// TestForeignObjectsCountForNothing: who copies the labels of another namespace's children makes its Gateway neither
// ready nor unready, and gets no address into its status.
func TestForeignObjectsCountForNothing(t *testing.T) {
	installOperator(t)
	newNamespace(t, "status-a")
	newNamespace(t, "status-b")
	ghost := newSlice("ghost", gatewayName+"-gateway", "10.1.2.3")
	ghost.Labels[proxypod.LabelGateway] = gatewayName
	ghost.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "status-a", Name: "ghost"}
	must.Get(server.Kube.DiscoveryV1().EndpointSlices("status-b").Create(t.Context(), ghost, metav1.CreateOptions{}))(t)
	must.Get(server.Kube.CoreV1().Services("status-b").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayName + "-gateway", Labels: ghost.Labels},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, ExternalIPs: []string{"192.0.2.1"}},
	}, metav1.CreateOptions{}))(t)
	testenv.Start(t, []string{"POD_NAMESPACE=" + operatorNamespace}, testbuild.Program(t, "."),
		"-kubeconfig="+server.TokenKubeconfig(t, token(t, operatorNamespace, operatorName)), "-logtostderr",
		"-health-address=127.0.0.1:0", "-leader-elect-namespace="+operatorNamespace, "-leader-elect-name=status-a")
	newGateway(t, "status-a", gatewayName, 80)
	testenv.Eventually(t, soon, "the status", func(ctx context.Context) error {
		gateway, err := server.App.AppV1().Gateways("status-a").Get(ctx, gatewayName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		programmed := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
		if programmed == nil {
			return fmt.Errorf("there is none yet")
		}
		if text := fmt.Sprintf("%+v", gateway.Status); strings.Contains(text, "ghost") || strings.Contains(text, "192.0.2.1") || programmed.Status == metav1.ConditionTrue {
			t.Errorf("the status shows something of another namespace: %s", text)
		}
		return nil
	})
}

// writeReport applies a GatewayProxy as an agent does.
func writeReport(ctx context.Context, user testenv.Clients, namespace, pod string) error {
	proxy := applyappv1.GatewayProxy(pod, namespace).WithLabels(proxypod.SelectorLabels(gatewayName)).WithStatus(
		applyappv1.GatewayProxyStatus().WithGateway(applyappv1.ProxiedGateway().WithName(gatewayName).WithUID("forged")))
	proxies, options := user.App.AppV1().GatewayProxies(namespace), metav1.ApplyOptions{FieldManager: "forger", Force: true}
	if _, err := proxies.Apply(ctx, proxy, options); err != nil {
		return err
	}
	_, err := proxies.ApplyStatus(ctx, proxy, options)
	return err
}

// TestAnAgentReportsOfItsOwnPodOnly: RBAC lets an agent write every GatewayProxy of its namespace. The policy in
// artifacts/rbac leaves it the one that is named after the pod that its token is bound to.
func TestAnAgentReportsOfItsOwnPodOnly(t *testing.T) {
	installOperator(t)
	newNamespace(t, "reports")
	account := newAgent(t, newGateway(t, "reports", gatewayName, 80))
	own := with(t, server.NewPod(t, "reports", gatewayName, "own").Token)
	other := with(t, server.NewPod(t, "reports", gatewayName, "other").Token)
	ctx := t.Context()
	testenv.Eventually(t, soon, "the policy is in force", func(ctx context.Context) error {
		if err := writeReport(ctx, own, "reports", "none"); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a report of a pod that there is not is answered with %w", err)
		}
		return nil
	})
	must.Do(t, writeReport(ctx, own, "reports", "own"))
	must.Do(t, writeReport(ctx, own, "reports", "own"))
	if err := writeReport(ctx, other, "reports", "own"); !apierrors.IsForbidden(err) {
		t.Errorf("another pod's agent may change a report: %v", err)
	}
	if err := writeReport(ctx, as(t, "reports", account), "reports", "own"); !apierrors.IsForbidden(err) {
		t.Errorf("a token that is bound to no pod may change a report: %v", err)
	}
	update := &appv1.GatewayProxy{ObjectMeta: metav1.ObjectMeta{GenerateName: "own"}}
	update.Status.Gateway = appv1.ProxiedGateway{Name: gatewayName, UID: "forged"}
	if _, err := own.App.AppV1().GatewayProxies("reports").Create(ctx, update, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a report whose name the API server makes is answered with %v", err)
	}
	must.Do(t, writeReport(ctx, server.Clients, "reports", "own")) // it is for agents alone
}

// TestForgedReportsComeToNothing: without the policy, too, reports of pods that are no endpoints count for nothing, and
// the operator has no work with them.
func TestForgedReportsComeToNothing(t *testing.T) {
	installOperator(t)
	newNamespace(t, "forged")
	testenv.Start(t, []string{"POD_NAMESPACE=" + operatorNamespace}, testbuild.Program(t, "."),
		"-kubeconfig="+server.TokenKubeconfig(t, token(t, operatorNamespace, operatorName)), "-logtostderr",
		"-health-address=127.0.0.1:0", "-leader-elect-namespace="+operatorNamespace, "-leader-elect-name=forged")
	newGateway(t, "forged", gatewayName, 80)
	for i := range 20 {
		must.Do(t, writeReport(t.Context(), server.Clients, "forged", fmt.Sprint("forged-", i)))
	}
	var last string
	var since time.Time
	testenv.Eventually(t, soon, "the status stays as it is", func(ctx context.Context) error {
		gateway, err := server.App.AppV1().Gateways("forged").Get(ctx, gatewayName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if gateway.ResourceVersion != last {
			last, since = gateway.ResourceVersion, time.Now()
		}
		programmed := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
		if programmed == nil || programmed.Reason != "NoReadyProxies" || strings.Contains(programmed.Message, "forged-") || time.Since(since) < 2*time.Second {
			return fmt.Errorf("%v ago it became %+v", time.Since(since), gateway.Status)
		}
		return nil
	})
}
