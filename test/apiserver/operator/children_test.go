package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// childKinds are the kinds of which every Gateway has one object, with their resources.
var childKinds = map[string]schema.GroupVersionResource{
	"ServiceAccount":      {Version: "v1", Resource: "serviceaccounts"},
	"Role":                {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	"RoleBinding":         {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
	"Service":             {Version: "v1", Resource: "services"},
	"PodDisruptionBudget": {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
	"Deployment":          {Group: "apps", Version: "v1", Resource: "deployments"},
}

const shop = `
replicas: 3
listeners:
- {name: http, port: 80, protocol: HTTP, hostname: a.example.com}
- {name: other, port: 80, protocol: HTTP}
- {name: alt, port: 8080, protocol: HTTP}
service: {type: NodePort, annotations: {example.com/pool: edge}}
pods: {resources: {limits: {memory: 1024Mi}, requests: {cpu: "0.0991"}}}
`

// TestSpecs: what the operator makes of a Gateway.
func TestSpecs(t *testing.T) {
	t.Parallel()
	const namespace = "specs"
	startOperator(t, namespace, "-agent-image=example.com/gateway:1", "-haproxy-image=example.com/haproxy:2")
	gateway := createGateway(t, namespace, "shop", shop)
	expectEvent(t, namespace, "shop", corev1.EventTypeNormal, "Synced", "generation 1: applied ServiceAccount, Role, RoleBinding, Service, ")
	for kind := range childKinds {
		object := getChild(t, namespace, "shop", kind)
		owners := object.GetOwnerReferences()
		if len(owners) != 1 || owners[0].UID != gateway.UID || owners[0].Controller == nil || !*owners[0].Controller {
			t.Errorf("%s has the owners %+v", kind, owners)
		}
		if got := object.GetLabels(); got["app.example.com/gateway"] != "shop" || got["app.kubernetes.io/name"] != "gateway" ||
			got["app.kubernetes.io/instance"] != "shop" || got["app.kubernetes.io/managed-by"] != "gateway-operator" {
			t.Errorf("%s has the labels %v", kind, got)
		}
	}
	expectContains(t, getChild(t, namespace, "shop", "ServiceAccount"), `automountServiceAccountToken: false`)
	expectContains(t, getChild(t, namespace, "shop", "PodDisruptionBudget"), `spec: {selector: {matchLabels: {app.example.com/gateway: shop}}}`)
	expectContains(t, getChild(t, namespace, "shop", "Service"), `
metadata: {annotations: {example.com/pool: edge}}
spec:
  type: NodePort
  selector: {app.example.com/gateway: shop}
  ports:
  - {name: http, port: 80, targetPort: 80, protocol: TCP}
  - {name: alt, port: 8080, targetPort: 8080, protocol: TCP}
`)
	expectContains(t, getChild(t, namespace, "shop", "Deployment"), `
spec:
  replicas: 3
  selector: {matchLabels: {app.example.com/gateway: shop}}
  template:
    metadata: {labels: {app.example.com/gateway: shop}}
    spec:
      serviceAccountName: shop-gateway
      automountServiceAccountToken: false
      initContainers:
      - name: agent
        image: example.com/gateway:1
        restartPolicy: Always
        args: [-gateway=shop, -logtostderr]
      containers:
      - name: haproxy
        image: example.com/haproxy:2
        resources: {limits: {memory: 1Gi}, requests: {cpu: 100m}}
        # Not the listeners' ports: a new listener must not replace the pods.
        ports: [{containerPort: 8404, name: metrics}]
`)
}

// TestPodSecurity asks the API server for a pod of the Deployment, as a ReplicaSet would.
func TestPodSecurity(t *testing.T) {
	t.Parallel()
	const namespace = "secure"
	startOperator(t, namespace)
	createGateway(t, namespace, "secure", `
listeners:
- {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: shop-tls}], clientValidation: {caCertificateRefs: [{name: staff}]}}}
`)
	deployment, err := server.Kube.AppsV1().Deployments(namespace).Get(t.Context(),
		getChild(t, namespace, "secure", "Deployment").GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: deployment.Spec.Template.ObjectMeta, Spec: deployment.Spec.Template.Spec}
	pod.Name = "secure"
	pod, err = server.Kube.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Fatalf("the API server refuses the pods: %v", err)
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Secret != nil || volume.HostPath != nil {
			t.Errorf("volume %s is %+v", volume.Name, volume.VolumeSource)
		}
	}
	for container, want := range map[*corev1.Container]string{
		&pod.Spec.InitContainers[0]: "Secret shop-tls/tls.crt, Secret shop-tls/tls.key",
		&pod.Spec.InitContainers[1]: "ConfigMap staff/ca.crl, ConfigMap staff/ca.crt, ConfigMap staff/jwks, ConfigMap staff/rules.conf, token",
		&pod.Spec.Containers[0]:     "",
	} {
		if got := strings.Join(mountedIn(pod, container), ", "); got != want {
			t.Errorf("container %s holds %s, want %s", container.Name, got, want)
		}
	}
}

// TestUnreadyPodsCanBeEvicted: a node's drain gets rid of a pod that crashes again and again, though no other one is
// ready. The test writes what kubelet and the disruption controller would.
func TestUnreadyPodsCanBeEvicted(t *testing.T) {
	t.Parallel()
	const namespace, name = "evicted", "crashing"
	startOperator(t, namespace)
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	server.Kubectl(t, "apply", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", "operator", "pod_disruption_budget.yaml"))
	getChild(t, namespace, name, "PodDisruptionBudget")
	getChild(t, namespace, name, "Deployment")
	deployment := must.Get(server.Kube.AppsV1().Deployments(namespace).Get(t.Context(), name+"-gateway", metav1.GetOptions{}))(t)
	for budget, in := range map[string]string{name + "-gateway": namespace, operatorName: operatorNamespace} {
		crashing := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name}, Spec: deployment.Spec.Template.Spec}
		expectEviction(t, budget, crashing)
	}
}

// expectEviction makes a pod that is not ready, the only one of a PodDisruptionBudget, and evicts it.
func expectEviction(t *testing.T, budget string, pod *corev1.Pod) {
	t.Helper()
	budgets, pods := server.Kube.PolicyV1().PodDisruptionBudgets(pod.Namespace), server.Kube.CoreV1().Pods(pod.Namespace)
	guard, err := budgets.Get(t.Context(), budget, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	guard.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: guard.Generation, ExpectedPods: 1}
	if _, err = budgets.UpdateStatus(t.Context(), guard, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Labels = guard.Spec.Selector.MatchLabels
	if pod, err = pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning // one that is pending is evicted whatever the budget says
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	if _, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	if err := pods.EvictV1(t.Context(), eviction); err != nil {
		t.Errorf("PodDisruptionBudget %s/%s: %v", pod.Namespace, budget, err)
	}
}

// mountedIn returns which credentials and certificates a container holds, sorted.
func mountedIn(pod *corev1.Pod, container *corev1.Container) []string {
	var held []string
	for _, mount := range container.VolumeMounts {
		for _, volume := range pod.Spec.Volumes {
			if volume.Name != mount.Name || volume.Projected == nil {
				continue
			}
			for _, source := range volume.Projected.Sources {
				switch {
				case source.ServiceAccountToken != nil:
					held = append(held, "token")
				case source.Secret != nil:
					for _, item := range source.Secret.Items {
						held = append(held, "Secret "+item.Path)
					}
				case source.ConfigMap != nil && source.ConfigMap.Name != "kube-root-ca.crt":
					for _, item := range source.ConfigMap.Items {
						held = append(held, "ConfigMap "+item.Path)
					}
				}
			}
		}
	}
	slices.Sort(held)
	return held
}

// TestAgentPermissions: the agent may do what it must, and no more; and neither may the operator.
func TestAgentPermissions(t *testing.T) {
	t.Parallel()
	const namespace = "agents"
	startOperator(t, namespace)
	createGateway(t, namespace, "agent", "listeners: [{name: http, port: 80, protocol: HTTP}]")
	getChild(t, namespace, "agent", "RoleBinding")
	const yes, no = true, false
	for _, c := range []struct {
		allowed                           bool
		verb, group, resource, sub, named string
	}{
		{yes, "list", "app.example.com", "gateways", "", "agent"},
		{no, "get", "app.example.com", "gateways", "", "agent"},
		{yes, "watch", "app.example.com", "gateways", "", "agent"},
		{yes, "create", "app.example.com", "gatewayproxies", "", ""},
		{yes, "patch", "app.example.com", "gatewayproxies", "", "pod"},
		{no, "delete", "app.example.com", "gatewayproxies", "", "pod"},
		{no, "list", "app.example.com", "gatewayproxies", "", ""},
		{no, "patch", "app.example.com", "gateways", "status", "agent"},
		{yes, "list", "", "services", "", ""},
		{yes, "watch", "discovery.k8s.io", "endpointslices", "", ""},
		{no, "patch", "app.example.com", "gateways", "", "agent"},
		{no, "get", "app.example.com", "gateways", "", "shop"},
		{no, "list", "app.example.com", "gateways", "", ""},
		{no, "patch", "app.example.com", "gateways", "status", "shop"},
		{no, "get", "", "secrets", "", "any"},
		{no, "get", "", "configmaps", "", "any"},
		{no, "list", "", "pods", "", ""},
		{no, "patch", "", "services", "", "any"},
	} {
		// The role is seen by the authorizer a moment after it was made.
		testenv.Eventually(t, soon, fmt.Sprint(c), func(ctx context.Context) error {
			return expectAllowed(ctx, "system:serviceaccount:"+namespace+":agent-gateway", c.allowed, authorizationv1.ResourceAttributes{
				Namespace: namespace, Verb: c.verb, Group: c.group, Resource: c.resource, Subresource: c.sub, Name: c.named})
		})
	}
	for _, resource := range []string{"secrets", "pods", "configmaps"} {
		for _, verb := range []string{"get", "list", "watch"} {
			attributes := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: resource}
			if err := expectAllowed(t.Context(), operatorUser, false, attributes); err != nil {
				t.Error(err)
			}
		}
	}
}

func expectAllowed(ctx context.Context, user string, allowed bool, attributes authorizationv1.ResourceAttributes) error {
	_, namespace, _ := strings.Cut(strings.TrimPrefix(user, "system:serviceaccount"), ":")
	namespace, _, _ = strings.Cut(namespace, ":")
	review, err := server.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, Groups: []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:" + namespace},
			ResourceAttributes: &attributes,
		}}, metav1.CreateOptions{})
	if err == nil && review.Status.Allowed != allowed {
		err = fmt.Errorf("%s: allowed=%v for %+v", user, review.Status.Allowed, attributes)
	}
	return err
}

// TestEdit: the children follow the Gateway.
func TestEdit(t *testing.T) {
	t.Parallel()
	const namespace = "edit"
	startOperator(t, namespace)
	createGateway(t, namespace, "edit", "listeners: [{name: http, port: 80, protocol: HTTP}]")
	expectEvent(t, namespace, "edit", corev1.EventTypeNormal, "Synced", "generation 1: applied")
	patchGateway(t, namespace, "edit", `{"spec": {"replicas": 5, "listeners": [{"name": "web", "port": 81, "protocol": "HTTP"}]}}`)
	expectEvent(t, namespace, "edit", corev1.EventTypeNormal, "Synced", "generation 2: applied Service, Deployment")
	expectContains(t, getChild(t, namespace, "edit", "Deployment"), "spec: {replicas: 5}")
	service := getChild(t, namespace, "edit", "Service")
	expectContains(t, service, "spec: {ports: [{name: web, port: 81}]}")
	if ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports"); len(ports) != 1 {
		t.Errorf("the Service has the ports %v, want only 81", ports)
	}
}

// TestDeleted: children that are deleted are made again.
func TestDeleted(t *testing.T) {
	t.Parallel()
	const namespace = "deleted"
	startOperator(t, namespace)
	createGateway(t, namespace, "deleted", "listeners: [{name: http, port: 80, protocol: HTTP}]")
	for kind, resource := range childKinds {
		before := getChild(t, namespace, "deleted", kind)
		must.Do(t, server.Dynamic.Resource(resource).Namespace(namespace).Delete(t.Context(), before.GetName(), metav1.DeleteOptions{}))
		testenv.Eventually(t, soon, kind+" is made again", func(ctx context.Context) error {
			after, err := server.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, before.GetName(), metav1.GetOptions{})
			if err == nil && after.GetUID() == before.GetUID() {
				err = errors.New("it is the old one")
			}
			return err
		})
	}
}

// TestDrift: children that somebody else changes are repaired.
func TestDrift(t *testing.T) {
	t.Parallel()
	const namespace = "drift"
	startOperator(t, namespace)
	createGateway(t, namespace, "drift", shop)
	for kind, change := range map[string]struct{ patch, repaired string }{
		"ServiceAccount":      {`{"automountServiceAccountToken": true}`, "automountServiceAccountToken: false"},
		"Role":                {`{"rules": []}`, "rules: [{resourceNames: [drift], resources: [gateways]}]"},
		"RoleBinding":         {`{"subjects": []}`, "subjects: [{kind: ServiceAccount, name: drift-gateway}]"},
		"Service":             {`{"spec": {"type": "ClusterIP", "selector": {"a": "b"}}}`, "spec: {type: NodePort}"},
		"PodDisruptionBudget": {`{"metadata": {"labels": {"app.kubernetes.io/name": "x"}}}`, "metadata: {labels: {app.kubernetes.io/name: gateway}}"},
		"Deployment": {`{"spec": {"replicas": 9, "template": {"spec": {"automountServiceAccountToken": true}}}}`,
			"spec: {replicas: 3, template: {spec: {automountServiceAccountToken: false}}}"},
	} {
		name := getChild(t, namespace, "drift", kind).GetName()
		client := server.Dynamic.Resource(childKinds[kind]).Namespace(namespace)
		// Additions of others stay; the operator's own fields are repaired.
		for _, p := range []string{`{"metadata": {"labels": {"team": "edge"}}}`, change.patch} {
			if _, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(p), metav1.PatchOptions{FieldManager: "someone"}); err != nil {
				t.Fatalf("%s: %v", kind, err)
			}
		}
		testenv.Eventually(t, soon, kind+" is repaired", func(ctx context.Context) error {
			object, err := client.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if err := contains(object, "metadata: {labels: {team: edge}}"); err != nil {
				return err
			}
			return contains(object, change.repaired)
		})
	}
}

// TestForeign: an object of someone else with the name of a child is not touched, and the Gateway says so.
func TestForeign(t *testing.T) {
	t.Parallel()
	const namespace = "foreign"
	startOperator(t, namespace)
	for kind := range childKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			expectUntouched(t, namespace, kind)
		})
	}
}

// TestForeignThatComesBetween: objects of someone else that are made when the operator has already seen that there are
// none are not touched either. There is a Gateway for each kind.
func TestForeignThatComesBetween(t *testing.T) {
	t.Parallel()
	const namespace = "between"
	proxy, kubeconfig := startProxy(t)
	startOperator(t, namespace, "-kubeconfig="+kubeconfig)
	late := func(kind string) string { return "late-" + strings.ToLower(kind) }
	var made sync.Map // the versions of the objects by their kinds
	proxy.Set(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		for kind, resource := range childKinds {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/"+resource.Resource+"/"+late(kind)+"-gateway") {
				client := server.Dynamic.Resource(resource).Namespace(namespace)
				object, err := client.Create(r.Context(), foreign(t, late(kind), kind), metav1.CreateOptions{})
				if err == nil {
					made.Store(kind, object.GetResourceVersion())
				}
			}
		}
		next.ServeHTTP(w, r)
	})
	for kind := range childKinds {
		createGateway(t, namespace, late(kind), "listeners: [{name: http, port: 80, protocol: HTTP}]")
	}
	for kind := range childKinds {
		expectCondition(t, namespace, late(kind), "Programmed", metav1.ConditionFalse, "ChildNotOwned", "does not belong to Gateway "+late(kind))
		before, _ := made.Load(kind)
		if after := getChild(t, namespace, late(kind), kind).GetResourceVersion(); before != after {
			t.Errorf("%s: version %v became %s", kind, before, after)
		}
	}
}

// foreign is an object of someone else with the name of a child.
func foreign(t *testing.T, gateway, kind string) *unstructured.Unstructured {
	t.Helper()
	return parse(t, fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: %s-gateway}, %s}", childKinds[kind].GroupVersion(), kind, gateway,
		map[string]string{
			"RoleBinding": "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: other}",
			"Service":     "spec: {ports: [{port: 1}]}",
			"Deployment": "spec: {replicas: 0, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}," +
				" spec: {containers: [{name: a, image: a}]}}}",
		}[kind]))
}

// restOn names the children that wait for a child of some kind: they would use what is in its way.
var restOn = map[string][]string{
	"ServiceAccount": {"RoleBinding", "Deployment"},
	"Role":           {"RoleBinding", "Deployment"},
	"RoleBinding":    {"Deployment"},
}

func expectUntouched(t *testing.T, namespace, kind string) {
	t.Helper()
	name := "foreign-" + strings.ToLower(kind)
	client := server.Dynamic.Resource(childKinds[kind]).Namespace(namespace)
	before := must.Get(client.Create(t.Context(), foreign(t, name, kind), metav1.CreateOptions{}))(t)
	createGateway(t, namespace, name, "listeners: [{name: http, port: 80, protocol: HTTP}]")
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "ChildNotOwned", kind+" "+namespace+"/"+name+"-gateway")
	expectEvent(t, namespace, name, corev1.EventTypeWarning, "ChildNotOwned", kind)
	for other, resource := range childKinds {
		if !slices.Contains(restOn[kind], other) {
			getChild(t, namespace, name, other)
			continue
		}
		if _, err := server.Dynamic.Resource(resource).Namespace(namespace).Get(t.Context(), name+"-gateway", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("getting the %s, which would use that %s: got the error %v, want that there is none", other, kind, err)
		}
	}
	after := must.Get(client.Get(t.Context(), before.GetName(), metav1.GetOptions{}))(t)
	if after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("the %s that is not the Gateway's was changed", kind)
	}
	// Once it is out of the way, the Gateway takes the name.
	must.Do(t, client.Delete(t.Context(), before.GetName(), metav1.DeleteOptions{}))
	expectCondition(t, namespace, name, "Programmed", metav1.ConditionFalse, "NoReadyProxies", "")
	for other := range childKinds {
		getChild(t, namespace, name, other)
	}
}

// getChild waits for a child of the Gateway.
func getChild(t *testing.T, namespace, gateway, kind string) *unstructured.Unstructured {
	t.Helper()
	var object *unstructured.Unstructured
	resource, ok := childKinds[kind]
	if !ok {
		resource = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: strings.ToLower(kind) + "s"}
	}
	testenv.Eventually(t, soon, kind+" of "+gateway, func(ctx context.Context) (err error) {
		object, err = server.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, gateway+"-gateway", metav1.GetOptions{})
		return err
	})
	return object
}

func patchGateway(t *testing.T, namespace, name, patch string, subresources ...string) {
	t.Helper()
	_, err := server.App.AppV1().Gateways(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}, subresources...)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := map[string]any{}
	if err := yaml.Unmarshal([]byte(strings.Replace(text, ", }", "}", 1)), &object); err != nil {
		t.Fatalf("bad YAML in the test: %v\n%s", err, text)
	}
	return &unstructured.Unstructured{Object: object}
}
