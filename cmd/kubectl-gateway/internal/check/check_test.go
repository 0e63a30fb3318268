package check

import (
	"os"
	"strings"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
)

const root = "../../../../"

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(root + file) //nolint:gosec // ours
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// expect compares a finding with its level and parts of what it prints.
func expect(t *testing.T, got Finding, level Level, parts ...string) {
	t.Helper()
	text := strings.Join(append([]string{got.About, got.Says, got.Do}, got.Details...), "\n")
	if got.Level != level {
		t.Errorf("it is %s, want %s: %s", got.Level, level, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwithout %q", text, part)
		}
	}
}

func TestServerVersion(t *testing.T) {
	expect(t, serverVersion("v1.36.3"), OK, "Kubernetes v1.36.3")
	expect(t, serverVersion("v1.31.0-eks-7f9249a"), OK)
	expect(t, serverVersion("v1.30.9+k3s1"), Wrong, "Use Kubernetes 1.31 or a newer one.")
	expect(t, serverVersion("latest"), Warning, `its version "latest" is not understood`)
	if !strings.Contains(read(t, "README.md"), "| Kubernetes | "+minimumVersion+" and newer |") {
		t.Errorf("README.md has another version than %s", minimumVersion)
	}
}

func TestOperator(t *testing.T) {
	deployment := func(wanted, ready int32, conditions ...k8sappsv1.DeploymentCondition) *k8sappsv1.Deployment {
		return &k8sappsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "operator"}, Spec: k8sappsv1.DeploymentSpec{Replicas: ptr.To(wanted)},
			Status: k8sappsv1.DeploymentStatus{ReadyReplicas: ready, Conditions: conditions},
		}
	}
	quota := k8sappsv1.DeploymentCondition{Type: k8sappsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}
	stuck := k8sappsv1.DeploymentCondition{Type: k8sappsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Message: "no progress"}
	moving := k8sappsv1.DeploymentCondition{Type: k8sappsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Message: "moves"}
	expect(t, operator(deployment(2, 2, moving)), OK, "operator system/operator", "2 of 2 replicas are ready")
	expect(t, operator(deployment(2, 1, stuck)), Warning, "1 of 2", "no progress", "kubectl -n system logs deployment/operator")
	expect(t, operator(deployment(2, 0, quota, moving)), Wrong, "0 of 2", "exceeded quota")
	expect(t, operator(deployment(0, 0)), Wrong, "kubectl -n system scale deployment/operator --replicas=2")
	if got := operator(deployment(2, 0, moving)); len(got.Details) > 0 {
		t.Errorf("a rollout that goes on is said to fail: %v", got.Details)
	}
}

type definition = *apiextensionsv1.CustomResourceDefinition

func spec(live definition) apiextensionsv1.JSONSchemaProps {
	return live.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// differing are CRDs of clusters, by what is different in them.
var differing = map[string]struct {
	change func(live definition)
	level  Level
	want   string
}{
	"the same":            {func(definition) {}, OK, "the same as this plugin has"},
	"another description": {func(live definition) { live.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "other" }, OK, "the same"},
	"fewer fields": {
		func(live definition) {
			delete(spec(live).Properties, "clientLimits")
			delete(spec(live).Properties["routes"].Items.Schema.Properties, "hostnames")
		}, Wrong, "it is older than this plugin: it lacks spec.clientLimits, spec.routes.hostnames\n",
	},
	"more fields": {
		func(live definition) {
			for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
				spec(live).Properties[name] = apiextensionsv1.JSONSchemaProps{Type: "string"}
			}
		}, Warning, "it is newer than this plugin: it has spec.a, spec.b, spec.c, spec.d and 2 more\n",
	},
	"both": {
		func(live definition) {
			delete(spec(live).Properties, "replicas")
			spec(live).Properties["copies"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
		}, Wrong, "it lacks spec.replicas, and has spec.copies\n",
	},
	"another rule": {
		func(live definition) {
			routes := spec(live).Properties["routes"]
			routes.MaxItems = ptr.To(int64(7))
			spec(live).Properties["routes"] = routes
		}, Warning, "it has the fields of this plugin's, with other rules\n",
	},
	"another version": {func(live definition) { live.Spec.Versions[0].Name = "v2" }, Wrong, "it lacks the version v1\n"},
	"not served":      {func(live definition) { live.Spec.Versions[0].Served = false }, Wrong, "it lacks the version v1\n"},
	"not established": {
		func(live definition) {
			live.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{
				Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionFalse, Message: "a name is taken",
			}}
		}, Wrong, "it is not in use: a name is taken\nSee kubectl describe crd gateways.app.example.com",
	},
}

// TestCompare changes a CRD of the plugin as clusters may have it.
func TestCompare(t *testing.T) {
	ours, err := admission.Definitions()
	if err != nil || len(ours) < 2 {
		t.Fatalf("the plugin has %d CRDs (%v)", len(ours), err)
	}
	for name, test := range differing {
		t.Run(name, func(t *testing.T) {
			for _, mine := range ours {
				if mine.Spec.Names.Kind == "Gateway" {
					live := mine.DeepCopy()
					test.change(live)
					expect(t, compare(mine, live), test.level, test.want)
				}
			}
		})
	}
}

func TestProxies(t *testing.T) {
	for count, want := range map[int32]string{0: "0 proxies", 1: "1 proxy", 2: "2 proxies"} {
		if got := proxies(count); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestExamine(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 3}
	}
	programmed := condition(appv1.ConditionProgrammed, metav1.ConditionTrue, "Programmed", "all run it")
	for name, test := range map[string]struct {
		status appv1.GatewayStatus
		levels []Level
		want   []string
	}{
		"nobody has looked": {appv1.GatewayStatus{}, []Level{Wrong}, []string{"no operator has looked at it"}},
		"an older generation": {
			appv1.GatewayStatus{Conditions: []metav1.Condition{{Type: appv1.ConditionProgrammed, Status: metav1.ConditionTrue, ObservedGeneration: 2}}},
			[]Level{Wrong}, []string{"the operator has not looked at generation 3 yet"},
		},
		"live":      {appv1.GatewayStatus{Conditions: []metav1.Condition{programmed}, ReadyReplicas: 2}, []Level{OK}, []string{"generation 3 is live in 2 proxies"}},
		"one ready": {appv1.GatewayStatus{Conditions: []metav1.Condition{programmed}, ReadyReplicas: 1}, []Level{Warning}, []string{"1 of 2 proxies are ready", "kubectl -n team describe pods -l app.example.com/gateway=shop"}},
		"filters in shadow": {
			appv1.GatewayStatus{ReadyReplicas: 2, Conditions: []metav1.Condition{programmed, condition(appv1.ConditionShadow, metav1.ConditionTrue, "Shadow", "the JWT refuses nothing")}},
			[]Level{Warning}, []string{"the JWT refuses nothing"},
		},
		"no address": {
			appv1.GatewayStatus{ReadyReplicas: 2, Conditions: []metav1.Condition{condition(appv1.ConditionProgrammed, metav1.ConditionTrue, "AddressNotAssigned", "the load balancer has none")}},
			[]Level{Warning}, []string{"the load balancer has none"},
		},
		"two conditions, with parts": {
			appv1.GatewayStatus{
				Conditions: []metav1.Condition{
					condition(appv1.ConditionResolvedRefs, metav1.ConditionFalse, "BackendNotFound", "2 of 3 routes are not served in full: no Service a"),
					condition(appv1.ConditionProgrammed, metav1.ConditionFalse, "LoadFailed", "pod p could not load it"),
				},
				Routes: []appv1.RouteStatus{
					{Kind: "HTTPRoute", Name: "one", Conditions: []metav1.Condition{condition(appv1.ConditionResolvedRefs, metav1.ConditionFalse, "BackendNotFound", "no Service a")}},
					{Kind: "TCPRoute", Name: "two", Conditions: []metav1.Condition{condition(appv1.ConditionResolvedRefs, metav1.ConditionFalse, "PortNotFound", "no port 7")}},
				},
				Listeners: []appv1.ListenerStatus{{Name: "https", Conditions: []metav1.Condition{condition(appv1.ConditionResolvedRefs, metav1.ConditionFalse, "InvalidCertificateRef", "it has expired")}}},
			},
			[]Level{Wrong, Wrong}, []string{
				"ResolvedRefs is False, BackendNotFound: 2 of 3 routes are not served in full: no Service a", "listener https: it has expired\nTCPRoute two: no port 7",
				"Programmed is False, LoadFailed: pod p could not load it",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			findings := Examine(&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", Generation: 3}, Status: test.status})
			if len(findings) != len(test.levels) {
				t.Fatalf("got %+v", findings)
			}
			var text strings.Builder
			for i, found := range findings {
				expect(t, found, test.levels[i], "Gateway team/shop")
				text.WriteString(found.Says + "\n" + strings.Join(found.Details, "\n") + "\n" + found.Do + "\n")
			}
			for _, want := range test.want {
				if !strings.Contains(text.String(), want) {
					t.Errorf("got\n%s\nwithout %q", text.String(), want)
				}
			}
		})
	}
}
