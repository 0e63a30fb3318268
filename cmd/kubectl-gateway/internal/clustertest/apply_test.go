package clustertest

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
)

// gateway is a document; more is appended to its spec.
func gateway(name, more string) string {
	return fmt.Sprintf(`---
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: %s, labels: {site: test}}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
%s`, name, more)
}

func configMap(i int) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d, labels: {site: test}}\ndata: {a: b}\n", i)
}

func countConfigMaps(t *testing.T, namespace string) int {
	t.Helper()
	list := must.Get(clients.Core.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "site=test"}))(t)
	return len(list.Items)
}

// TestApply creates, changes and leaves alone objects, in a namespace that comes with them.
func TestApply(t *testing.T) {
	namespace := "{apiVersion: v1, kind: Namespace, metadata: {name: applied}}\n"
	// The Namespace is last, and needed first.
	file := configMap(1) + gateway("a", "") + "---\n" + namespace
	args := []string{"apply", "-n", "applied", "-f", "-"}
	dry := clitest.Run(t, file, append(args, "--dry-run")...)
	dry.Want(t, 0, "namespace/applied created (dry run)", "gateway.app.example.com/a created, not checked: what it needs is not there yet (dry run)")
	if _, err := clients.Core.CoreV1().Namespaces().Get(t.Context(), "applied", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("a dry run made the namespace: %v", err)
	}
	clitest.Run(t, file, args...).Want(t, 0, "namespace/applied created\nconfigmap/c1 created\ngateway.app.example.com/a created\n")
	clitest.Run(t, file, args...).Want(t, 0, "namespace/applied unchanged\nconfigmap/c1 unchanged\ngateway.app.example.com/a unchanged\n")
	changed := strings.Replace(file, "port: 80", "port: 81", 1)
	clitest.Run(t, changed, append(args, "--dry-run")...).Want(t, 0, "gateway.app.example.com/a configured (dry run)")
	if port := get(t, "applied", "a").Spec.Listeners[0].Port; port != 80 {
		t.Errorf("a dry run changed the port to %d", port)
	}
	clitest.Run(t, changed, args...).Want(t, 0, "gateway.app.example.com/a configured")
	if port := get(t, "applied", "a").Spec.Listeners[0].Port; port != 81 {
		t.Errorf("the port is %d", port)
	}
}

// TestOneBadDocumentChangesNothing applies fifty documents, of which the last is bad in one way or another.
func TestOneBadDocumentChangesNothing(t *testing.T) {
	namespace := newNamespace(t, "fifty")
	var good strings.Builder
	for i := range 49 {
		good.WriteString(configMap(i))
	}
	for _, test := range []struct{ name, last, want string }{
		{"syntax", "---\na: [", "standard input:247: did not find expected node content"},
		{"unknown kind", "---\n{apiVersion: v1, kind: Nope, metadata: {name: a}}\n", "Nope a: the API server knows no kind Nope of v1"},
		{"unknown field", gateway("a", "  routs: []\n"), `.spec.routs: field not declared in schema`},
		{"against a rule of the CRD", gateway("a", "  routes: [{name: r, listeners: [x], rules: [{}]}]\n"), "must be the name of a listener"},
		{"twice", configMap(3), "ConfigMap fifty/c3: it is also in standard input:17"},
		{"another namespace", "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: b}}\n", "it is in another namespace than --namespace=fifty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := clitest.Run(t, good.String()+test.last, "apply", "-n", namespace, "-f", "-")
			result.Want(t, 1, test.want, "nothing was applied")
			if lines := strings.Count(result.Out+result.Err, "\n"); lines > 2 {
				t.Errorf("%d lines:\n%s%s", lines, result.Out, result.Err)
			}
			if n := countConfigMaps(t, namespace); n != 0 {
				t.Errorf("%d objects were applied", n)
			}
		})
	}
}

// TestLaterDocumentsAreChecked has a bad document in a namespace of the same call: nothing but the namespace is made.
func TestLaterDocumentsAreChecked(t *testing.T) {
	file := "{apiVersion: v1, kind: Namespace, metadata: {name: later}}\n" + configMap(1) + gateway("a", "  replicas: -1\n")
	clitest.Run(t, file, "apply", "-n", "later", "-f", "-").Want(t, 4, "namespace/later created\n", "spec.replicas",
		"error: 1 of 3 objects are invalid: only the Namespaces were applied")
	if n := countConfigMaps(t, "later"); n != 0 {
		t.Errorf("%d objects were applied", n)
	}
}

// TestConflicts reports who owns which field.
func TestConflicts(t *testing.T) {
	namespace := newNamespace(t, "conflicts")
	clitest.Run(t, gateway("a", "  replicas: 2\n"), "apply", "-n", namespace, "-f", "-").Want(t, 0)
	must.Get(clients.Gateways.AppV1().Gateways(namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "autoscaler"}))(t)
	file := configMap(1) + gateway("a", "  replicas: 3\n")
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-").Want(t, 1, `Gateway conflicts/a: Apply failed with 1 conflict: conflict with "autoscaler" using app.example.com/v1: .spec.replicas: `+
		"leave these fields out, or use --force-conflicts", "nothing was applied: 1 of 2 objects are invalid")
	if n := countConfigMaps(t, namespace); n != 0 {
		t.Errorf("%d objects were applied", n)
	}
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-", "--force-conflicts").Want(t, 0, "a configured")
	if replicas := *get(t, namespace, "a").Spec.Replicas; replicas != 3 {
		t.Errorf("replicas is %d", replicas)
	}
}

// TestSharedFields: the same file may be applied by kubectl and the plugin, in any order. Routes are one value for
// server-side apply, and lack defaults in the file, so that the API server reports a conflict.
func TestSharedFields(t *testing.T) {
	namespace := newNamespace(t, "shared")
	file := gateway("a", "  routes: [{name: r, rules: [{backendRefs: [{name: s, port: 80}]}]}]\n")
	apply := func(manager string) error {
		object, err := yaml.YAMLToJSON([]byte(file))
		if err != nil {
			t.Fatal(err)
		}
		_, err = clients.Gateways.AppV1().Gateways(namespace).Patch(t.Context(), "a", types.ApplyPatchType, object, metav1.PatchOptions{FieldManager: manager})
		return err
	}
	must.Do(t, apply("kubectl"))
	if err := apply("another"); !apierrors.IsConflict(err) {
		t.Fatalf("the API server reports no conflict any more: %v", err)
	}
	args := []string{"apply", "-n", namespace, "-f", "-"}
	clitest.Run(t, file, args...).Want(t, 0, "gateway.app.example.com/a unchanged\n")
	changed := strings.Replace(file, "port: 80}]}]", "port: 81}]}]", 1)
	clitest.Run(t, changed, args...).Want(t, 1, `conflict with "kubectl"`, "leave these fields out, or use --force-conflicts")
	if port := get(t, namespace, "a").Spec.Routes[0].Rules[0].BackendRefs[0].Port; port != 80 {
		t.Errorf("the port of the backend is %d", port)
	}
}

// TestInterrupted stops half way, says what was applied, and goes on.
func TestInterrupted(t *testing.T) {
	namespace := newNamespace(t, "interrupted")
	var file strings.Builder
	for i := range 10 {
		file.WriteString(configMap(i))
	}
	clitest.RunUntil(t, "configmap/c3 created", file.String(), "apply", "-n", namespace, "-f", "-").Want(t, 4,
		"error: interrupted before ConfigMap interrupted/c4: 4 of 10 objects are applied: run the same command again")
	if n := countConfigMaps(t, namespace); n != 4 {
		t.Errorf("%d objects were applied", n)
	}
	clitest.Run(t, file.String(), "apply", "-n", namespace, "-f", "-").Want(t, 0, "configmap/c3 unchanged\nconfigmap/c4 created\n")
	if n := countConfigMaps(t, namespace); n != 10 {
		t.Errorf("%d objects were applied", n)
	}
}

// TestApplyUsage is about command lines that are wrong.
func TestApplyUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"name a file with -f":                       {},
		"--wait and --dry-run do not go together":   {"-f", "-", "--wait", "--dry-run"},
		`unknown shorthand flag: 'x' in -x: see ku`: {"-x"},
	} {
		clitest.Run(t, "", append([]string{"apply"}, args...)...).Want(t, 2, want)
	}
}

// TestRefusals: the API server's error for objects is shown with file and line, and in its words.
func TestRefusals(t *testing.T) {
	namespace := newNamespace(t, "refusals")
	for spec, want := range map[string]string{
		"  replicas: two\n": ".spec.replicas: expected numeric (int or float), got string",
		"  routes: [{name: r, rules: [{timeouts: {request: 1d}}]}]\n":                             "timeouts.request: Invalid value: \"1d\"",
		"  routes:\n  - rules: [{timeouts: {request: 1d}}]\n    name: r\n":                        "standard input:8: Gateway refusals/a: ",
		"---\n{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: x}]}}\n": ".port: expected numeric",
	} {
		result := clitest.Run(t, gateway("a", spec), "apply", "-n", namespace, "-f", "-")
		result.Want(t, 1, "standard input:", want, "nothing was applied: 1 of ")
	}
}
