package operator

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/test/internal/testenv"
)

const twoRoutes = `
listeners: [{name: http, port: 80, protocol: HTTP}]
routes:
- {name: shop, rules: [{backendRefs: [{name: shop, port: 80}]}]}
- {name: blog, rules: [{backendRefs: [{name: blog, port: 80}]}]}
`

// TestResolvedRefs: the condition follows the Services as they come, change and go.
func TestResolvedRefs(t *testing.T) {
	t.Parallel()
	const namespace = "refs"
	startOperator(t, namespace)
	createService(t, namespace, "blog", 80)
	createGateway(t, namespace, "refs", twoRoutes)
	const kind, text = "ResolvedRefs", `route "shop": Service refs/shop does not exist`
	expectCondition(t, namespace, "refs", kind, metav1.ConditionFalse, "BackendNotFound", text)
	expectEvent(t, namespace, "refs", corev1.EventTypeWarning, "BackendNotFound", text)

	createService(t, namespace, "shop", 81)
	expectCondition(t, namespace, "refs", kind, metav1.ConditionFalse, "PortNotFound", "no TCP port 80")
	services := server.Kube.CoreV1().Services(namespace)
	for _, step := range []struct {
		patch  string
		status metav1.ConditionStatus
		reason string
	}{
		{`{"spec": {"ports": [{"port": 80}]}}`, metav1.ConditionTrue, "ResolvedRefs"},
		{`{"spec": {"type": "ExternalName", "externalName": "example.com"}}`, metav1.ConditionFalse, "UnsupportedBackend"},
		{`{"spec": {"type": "ClusterIP", "externalName": null}}`, metav1.ConditionTrue, "ResolvedRefs"},
		{`{"spec": {"selector": {"app.example.com/gateway": "other"}}}`, metav1.ConditionFalse, "UnsupportedBackend"},
		{`{"spec": {"selector": null}}`, metav1.ConditionTrue, "ResolvedRefs"},
		{`{"spec": {"ports": [{"port": 80, "appProtocol": "https"}]}}`, metav1.ConditionFalse, "UnsupportedProtocol"},
		{`{"spec": {"ports": [{"port": 80, "appProtocol": "kubernetes.io/h2c"}]}}`, metav1.ConditionTrue, "ResolvedRefs"},
	} {
		must.Get(services.Patch(t.Context(), "shop", types.MergePatchType, []byte(step.patch), metav1.PatchOptions{}))(t)
		expectCondition(t, namespace, "refs", kind, step.status, step.reason, "")
	}
	must.Do(t, services.Delete(t.Context(), "shop", metav1.DeleteOptions{}))
	expectCondition(t, namespace, "refs", kind, metav1.ConditionFalse, "BackendNotFound", text)
	createGateway(t, namespace, "loop", strings.ReplaceAll(twoRoutes, "name: shop, port", "name: loop-gateway, port"))
	expectCondition(t, namespace, "loop", kind, metav1.ConditionFalse, "UnsupportedBackend", "in a loop")
}

// TestAccepted: the condition counts routes that no listener takes, and the status names them. A bad rule leaves other
// routes accepted.
func TestAccepted(t *testing.T) {
	t.Parallel()
	const namespace = "accepted"
	startOperator(t, namespace)
	createGateway(t, namespace, "accepted", `
listeners: [{name: http, port: 80, protocol: HTTP, hostname: "*.example.com"}]
routes:
- {name: found, rules: [{}]}
- {name: lost, hostnames: [example.org], rules: [{}]}
- {name: odd, rules: [{matches: [{path: {type: RegularExpression, value: "("}}]}, {}]}
`)
	gateway := expectCondition(t, namespace, "accepted", "Accepted", metav1.ConditionFalse, "UnsupportedValue", "2 of 3 routes are not served in full")
	var routes []string
	for _, route := range gateway.Status.Routes {
		c := route.Conditions[0]
		routes = append(routes, fmt.Sprintf("%s %s %s=%s %s", route.Kind, route.Name, c.Type, c.Status, c.Reason))
	}
	if want := []string{
		"HTTPRoute odd Accepted=False UnsupportedValue", "HTTPRoute lost Accepted=False NoMatchingListenerHostname",
	}; !slices.Equal(routes, want) {
		t.Errorf("status.routes is %q, want %q", routes, want)
	}
	if listeners := gateway.Status.Listeners; len(listeners) != 1 || listeners[0].Name != "http" || listeners[0].AttachedRoutes != 2 {
		t.Errorf("status.listeners is %+v", listeners)
	}
	patchGateway(t, namespace, "accepted", `{"spec": {"routes": [{"name": "found", "hostnames": ["a.example.com"], "rules": [{}]}]}}`)
	gateway = expectCondition(t, namespace, "accepted", "Accepted", metav1.ConditionTrue, "Accepted", "")
	if len(gateway.Status.Routes) > 0 {
		t.Errorf("status.routes is %+v", gateway.Status.Routes)
	}
}

// TestUnusedBackends: if spec.backends has a typo in an entry with tls, the whole Gateway is not accepted, and the
// status names what is closed. For any other entry without effect, there is an event.
func TestUnusedBackends(t *testing.T) {
	t.Parallel()
	const namespace, name = "unused", "unused"
	startOperator(t, namespace)
	createService(t, namespace, "api", 8443)
	createGateway(t, namespace, name, `
listeners: [{name: http, port: 80, protocol: HTTP}]
routes: [{name: api, rules: [{backendRefs: [{name: api, port: 8443}]}]}]
backends: [{name: api, port: 443, tls: {caCertificateRefs: [{name: ca}], hostname: api.internal}}]
`)
	const text = `no route or listener refers to spec.backends[0] "api" port 443`
	expectCondition(t, namespace, name, "Accepted", metav1.ConditionFalse, "UnusedBackend", "nothing is sent to port 8443 of Service api: ")
	expectEvent(t, namespace, name, corev1.EventTypeWarning, "UnusedBackend", text)
	patchGateway(t, namespace, name, `{"spec": {"backends": [{"name": "api", "port": 443, "proxyProtocol": "V2"}]}}`)
	expectCondition(t, namespace, name, "Accepted", metav1.ConditionTrue, "UnusedBackend", text)
	expectEvent(t, namespace, name, corev1.EventTypeWarning, "UnusedBackend", text)
	patchGateway(t, namespace, name, `{"spec": {"backends": [{"name": "api", "port": 8443, "proxyProtocol": "V2"}]}}`)
	expectCondition(t, namespace, name, "Accepted", metav1.ConditionTrue, "Accepted", "")
}

// TestProgrammed plays two proxy pods: their endpoints and their reports. kstatus takes the Gateway for current exactly
// when it is programmed.
func TestProgrammed(t *testing.T) {
	t.Parallel()
	const namespace = "programmed"
	startOperator(t, namespace)
	createGateway(t, namespace, "programmed", "{listeners: [{name: http, port: 80, protocol: HTTP}], service: {type: ClusterIP}}")
	gateway := expectCondition(t, namespace, "programmed", "Programmed", metav1.ConditionFalse, "NoReadyProxies", "")
	if gateway.Status.Selector != "app.example.com/gateway=programmed" {
		t.Errorf("the status is %+v", gateway.Status)
	}
	expectKstatus(t, gateway, kstatus.InProgressStatus)
	setReplicas(t, namespace, "programmed-gateway", 2)
	putEndpoints(t, namespace, "programmed", "pod-a", "pod-b")
	report(t, namespace, "programmed", "pod-a", 1)
	report(t, namespace, "programmed", "pod-b", 0)
	gateway = expectCondition(t, namespace, "programmed", "Programmed", metav1.ConditionFalse, "Pending", "1 of 2 ready proxies run generation 1")
	if gateway.Status.ReadyReplicas != 2 {
		t.Errorf("status.readyReplicas is %d, want 2", gateway.Status.ReadyReplicas)
	}
	expectKstatus(t, gateway, kstatus.InProgressStatus)
	report(t, namespace, "programmed", "pod-b", 1)
	gateway = expectCondition(t, namespace, "programmed", "Programmed", metav1.ConditionTrue, "Programmed", "2 of 2 ready proxies run generation 1")
	expectKstatus(t, gateway, kstatus.CurrentStatus)
	gateway.Generation++ // an edit that the operator has not seen
	expectKstatus(t, gateway, kstatus.InProgressStatus)

	patchGateway(t, namespace, "programmed", `{"spec": {"routes": [{"name": "new", "rules": [{}]}]}}`)
	gateway = expectCondition(t, namespace, "programmed", "Programmed", metav1.ConditionFalse, "Pending", "0 of 2")
	expectKstatus(t, gateway, kstatus.InProgressStatus)
	report(t, namespace, "programmed", "pod-a", 2)
	origin := applyappv1.ProblemOrigin().WithKind("Gateway").WithNamespace(namespace).WithName("programmed").WithGeneration(2)
	report(t, namespace, "programmed", "pod-b", 1,
		applyappv1.ProxyProblem().WithOrigin(origin).WithReason(appv1.ProblemLoadFailed).WithMessage("HAProxy refuses it"))
	expectCondition(t, namespace, "programmed", "Programmed", metav1.ConditionFalse, "LoadFailed", "pod pod-b: HAProxy refuses it")
	expectEvent(t, namespace, "programmed", corev1.EventTypeWarning, "LoadFailed", "HAProxy refuses it")

	// A pod that is gone does not count. Its report goes with it, which nobody does here.
	putEndpoints(t, namespace, "programmed", "pod-a")
	setReplicas(t, namespace, "programmed-gateway", 1)
	expectCondition(t, namespace, "programmed", "Programmed", metav1.ConditionTrue, "Programmed", "1 of 1")
}

// TestInternalErrorThatLasts: a webhook that does not answer is, like a range of node ports or cluster IPs without a
// free one, an internal error of the API server. The condition says what fails and why.
func TestInternalErrorThatLasts(t *testing.T) {
	t.Parallel()
	const namespace, name = "internal-error", "refused"
	startOperator(t, namespace)
	createWebhook(t, namespace, "services", admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1")})
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	const text = "failed to apply Service internal-error/refused-gateway: Internal error occurred: failed calling webhook"
	expectEvent(t, namespace, name, corev1.EventTypeWarning, "ApplyFailed", text)
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "ApplyFailed", text)
	webhooks := server.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	must.Do(t, webhooks.Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "NoReadyProxies", "")
}

// createWebhook has a webhook asked about new objects of a resource in a namespace, and waited for as long as can be
// said.
func createWebhook(t *testing.T, namespace, resource string, at admissionregistrationv1.WebhookClientConfig) {
	t.Helper()
	webhooks := server.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	must.Get(webhooks.Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name:              "nobody.example.com",
			ClientConfig:      at,
			TimeoutSeconds:    ptr.To[int32](30),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule: admissionregistrationv1.Rule{
					APIGroups: []string{"*"}, APIVersions: []string{"v1"}, Resources: []string{resource},
				},
			}},
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}, metav1.CreateOptions{}))(t)
}

// TestReportedProblems plays a proxy that cannot use a certificate. The problem is reported, and keeps nothing else
// from being live.
func TestReportedProblems(t *testing.T) {
	t.Parallel()
	const namespace, name = "problems", "shop"
	startOperator(t, namespace)
	createGateway(t, namespace, name, `
listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: shop-tls}]}}]
service: {type: ClusterIP}
`)
	expectCondition(t, namespace, name, "ResolvedRefs", metav1.ConditionTrue, "ResolvedRefs", "")
	putEndpoints(t, namespace, name, "pod-a")
	origin := applyappv1.ProblemOrigin().WithKind("Secret").WithNamespace(namespace).WithName("shop-tls")
	report(t, namespace, name, "pod-a", 1, applyappv1.ProxyProblem().WithOrigin(origin).WithListener("https").
		WithReason(appv1.ProblemInvalidCertificateRef).WithMessage("Secret problems/shop-tls: the certificate expired on 2026-01-02"))
	const text = `listener "https": Secret problems/shop-tls: the certificate expired on 2026-01-02`
	gateway := expectCondition(t, namespace, name, "ResolvedRefs", metav1.ConditionFalse, "InvalidCertificateRef", text)
	if conditions := gateway.Status.Listeners[0].Conditions; len(conditions) != 1 || conditions[0].Reason != "InvalidCertificateRef" {
		t.Errorf("the listener's conditions are %+v", conditions)
	}
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionTrue, "Programmed", "")
	expectEvent(t, namespace, name, corev1.EventTypeWarning, "InvalidCertificateRef", text)
	report(t, namespace, name, "pod-a", 1)
	expectCondition(t, namespace, name, "ResolvedRefs", metav1.ConditionTrue, "ResolvedRefs", "")
}

// TestARoleThatIsRefused: the API server then says of the RoleBinding that something is not found. Once the Role may be
// made, it is.
func TestARoleThatIsRefused(t *testing.T) {
	t.Parallel()
	const namespace, name = "refused", "refused"
	startOperator(t, namespace)
	// There is no controller that counts: the test does that for it.
	none := corev1.ResourceList{"count/roles.rbac.authorization.k8s.io": resource.MustParse("0")}
	quotas := server.Kube.CoreV1().ResourceQuotas(namespace)
	quota, err := quotas.Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "no-roles"}, Spec: corev1.ResourceQuotaSpec{Hard: none},
	}, metav1.CreateOptions{})
	if err == nil {
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		_, err = quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "ApplyFailed", "exceeded quota: no-roles")
	must.Do(t, quotas.Delete(t.Context(), "no-roles", metav1.DeleteOptions{}))
	getChild(t, namespace, name, "RoleBinding")
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "NoReadyProxies", "")
}

// options are all that a Gateway can say of its Service and its pods. Some is what the API server drops or adds to.
const options = `
service: {type: NodePort, externalTrafficPolicy: Local, ipFamilyPolicy: PreferDualStack, annotations: {a: b}}
pods:
  labels: {a: b}
  annotations: {a: b}
  nodeSelector: {a: b}
  tolerations: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}, {operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
  affinity:
    nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [], matchExpressions: [{key: a, operator: Exists}]}}]}
    podAffinity: {}
  topologySpreadConstraints:
    - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}
    - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [pod-template-hash], labelSelector: {matchLabels: {a: b}}}
  priorityClassName: edge
  imagePullSecrets: [{name: registry}]
  resources: {limits: {memory: 0.5Gi}, requests: {cpu: 1e-1}}
`

// TestSteadyState: a Gateway that needs nothing costs no write, whatever its status is, however often the operator
// looks at it.
func TestSteadyState(t *testing.T) {
	t.Parallel()
	const namespace, gateways, rounds = "steady", 5, 3
	o := startOperator(t, namespace, "-resync=1s")
	for i := range gateways {
		name := fmt.Sprintf("steady-%d", i)
		createGateway(t, namespace, name, `
listeners: [{name: http, port: 80, protocol: HTTP, hostname: a.example.com}, {name: other, port: 80, protocol: HTTP}]
routes: [{name: missing, rules: [{backendRefs: [{name: missing, port: 80}]}]}]
`+options)
		putEndpoints(t, namespace, name, name+"-pod")
		report(t, namespace, name, name+"-pod", 1)
		expectCondition(t, namespace, name, "Programmed", metav1.ConditionTrue, "Programmed", "")
	}
	waitForSyncs := func(n int) {
		t.Helper()
		until := syncs(t, o) + n
		testenv.Eventually(t, soon, "the operator looks at the Gateways again", func(context.Context) error {
			if got := syncs(t, o); got < until {
				return fmt.Errorf("%d syncs, want %d", got, until)
			}
			return nil
		})
	}
	// Events about what happened so far are still on their way.
	waitForSyncs(gateways)
	writes := len(namespaceWrites(t, namespace))
	if writes == 0 {
		t.Fatal("the audit log has no write of the operator, so it proves nothing")
	}
	waitForSyncs(gateways * rounds)
	if now := namespaceWrites(t, namespace); len(now) > writes {
		t.Errorf("the operator wrote though nothing changed: %v", now[writes:])
	}
	if errors := metric(t, o, `gateway_syncs_total{result="error"}`); errors != 0 {
		t.Errorf("%d syncs failed", errors)
	}
}

func namespaceWrites(t *testing.T, namespace string) []testenv.Write {
	t.Helper()
	var writes []testenv.Write
	for _, w := range server.Writes(t, operatorUser, time.Time{}) {
		if w.Namespace == namespace {
			writes = append(writes, w)
		}
	}
	return writes
}

func syncs(t *testing.T, o *operator) int {
	t.Helper()
	return metric(t, o, "gateway_sync_duration_seconds_count")
}

// metric reads one number from the operator's metrics.
func metric(t *testing.T, o *operator, name string) int {
	t.Helper()
	status, body := get(t, o, "/metrics")
	if status != http.StatusOK {
		t.Fatalf("/metrics answers %d", status)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\d+)$`).FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("there is no metric %s in\n%s", name, body)
	}
	value := must.Get(strconv.Atoi(found[1]))(t)
	return value
}

func get(t *testing.T, o *operator, path string) (status int, body string) {
	t.Helper()
	status, body, err := testenv.Get(t.Context(), http.DefaultClient, "http://"+o.address+path)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

func createService(t *testing.T, namespace, name string, port int32) {
	t.Helper()
	must.Get(server.Kube.CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: port}}},
	}, metav1.CreateOptions{}))(t)
}

// report writes what a proxy pod reports, as its agent does.
func report(t *testing.T, namespace, gateway, pod string, generation int64, problems ...*applyappv1.ProxyProblemApplyConfiguration) {
	t.Helper()
	writeReport(t, namespace, gateway, pod, applyappv1.GatewayProxyStatus().WithObservedGeneration(generation).WithProblems(problems...))
}

// writeReport writes a whole report at once: the operator may act on each write.
func writeReport(t *testing.T, namespace, gateway, pod string, status *applyappv1.GatewayProxyStatusApplyConfiguration) {
	t.Helper()
	proxied, err := server.App.AppV1().Gateways(namespace).Get(t.Context(), gateway, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status.WithGateway(applyappv1.ProxiedGateway().WithName(gateway).WithUID(proxied.UID))
	proxy := applyappv1.GatewayProxy(pod, namespace).WithLabels(proxypod.SelectorLabels(gateway)).WithStatus(status)
	proxies, options := server.App.AppV1().GatewayProxies(namespace), metav1.ApplyOptions{FieldManager: "gateway-agent", Force: true}
	if _, err = proxies.Apply(t.Context(), proxy, options); err == nil {
		_, err = proxies.ApplyStatus(t.Context(), proxy, options)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// setReplicas writes how many pods a Deployment has, as its controller does.
func setReplicas(t *testing.T, namespace, deployment string, replicas int32) {
	t.Helper()
	patch := fmt.Sprintf(`{"status": {"observedGeneration": 1, "replicas": %d}}`, replicas)
	must.Get(server.Kube.AppsV1().Deployments(namespace).Patch(t.Context(), deployment, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, "status"))(t)
}

// putEndpoints writes the EndpointSlice of the Gateway's Service, as the endpointslice controller does, with the pods
// ready, and waits until the operator has seen it.
func putEndpoints(t *testing.T, namespace, gateway string, pods ...string) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: gateway + "-gateway-1", Labels: map[string]string{
			"app.example.com/gateway": gateway, discoveryv1.LabelServiceName: gateway + "-gateway",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for i, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.0.0.%d", i+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: pod, Namespace: namespace},
		})
	}
	client := server.Kube.DiscoveryV1().EndpointSlices(namespace)
	if _, err := client.Create(t.Context(), slice, metav1.CreateOptions{}); err != nil {
		must.Get(client.Update(t.Context(), slice, metav1.UpdateOptions{}))(t)
	}
	testenv.Eventually(t, soon, "the operator sees the endpoints", func(ctx context.Context) error {
		gateway, err := server.App.AppV1().Gateways(namespace).Get(ctx, gateway, metav1.GetOptions{})
		if err == nil && int(gateway.Status.ReadyReplicas) != len(pods) {
			err = fmt.Errorf("it sees %d", gateway.Status.ReadyReplicas)
		}
		return err
	})
}
