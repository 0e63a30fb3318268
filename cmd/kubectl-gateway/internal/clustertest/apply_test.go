package clustertest

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/cmd/kubectl-gateway/internal/clitest"
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
	list, err := clients.Core.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "site=test"})
	if err != nil {
		t.Fatal(err)
	}
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
		"error: 1 of 3 objects are not right: only the Namespaces and CustomResourceDefinitions were applied")
	if n := countConfigMaps(t, "later"); n != 0 {
		t.Errorf("%d objects were applied", n)
	}
}

// TestNewKind applies objects together with the CustomResourceDefinition of their kind.
func TestNewKind(t *testing.T) {
	namespace := newNamespace(t, "new-kind")
	file := `{apiVersion: test.example.com/v1, kind: Thing, metadata: {name: a}, spec: {}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.test.example.com}
spec:
  group: test.example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}}]
`
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-").Want(t, 0, "thing.test.example.com/a created")
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-").Want(t, 0, "thing.test.example.com/a unchanged")
}

// TestConflicts reports who owns which field.
func TestConflicts(t *testing.T) {
	namespace := newNamespace(t, "conflicts")
	clitest.Run(t, gateway("a", "  replicas: 2\n"), "apply", "-n", namespace, "-f", "-").Want(t, 0)
	_, err := clients.Gateways.AppV1().Gateways(namespace).Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), metav1.PatchOptions{FieldManager: "autoscaler"})
	if err != nil {
		t.Fatal(err)
	}
	file := configMap(1) + gateway("a", "  replicas: 3\n")
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-").Want(t, 1, `Gateway conflicts/a: others own the fields .spec.replicas (conflict with "autoscaler" using app.example.com/v1): `+
		"leave them out, or use --force-conflicts", "nothing was applied: 1 of 2 objects are not right")
	if n := countConfigMaps(t, namespace); n != 0 {
		t.Errorf("%d objects were applied", n)
	}
	clitest.Run(t, file, "apply", "-n", namespace, "-f", "-", "--force-conflicts").Want(t, 0, "a configured")
	if replicas := *get(t, namespace, "a").Spec.Replicas; replicas != 3 {
		t.Errorf("replicas is %d", replicas)
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

// TestPrune deletes what was applied and is not in the files any more, and nothing else.
func TestPrune(t *testing.T) {
	namespace := newNamespace(t, "prune")
	args := []string{"apply", "-n", namespace, "-f", "-", "--prune", "-l", "site=test"}
	clitest.Run(t, configMap(1)+configMap(2)+gateway("a", ""), args...).Want(t, 0)
	// One of somebody else, with the same labels.
	clitest.Run(t, strings.ReplaceAll(configMap(3), "test", "other"), "apply", "-n", namespace, "-f", "-").Want(t, 0)
	other := configMap(4)
	clitest.Run(t, other, "apply", "-n", namespace, "-f", "-").Want(t, 0)
	found, err := clients.Core.CoreV1().ConfigMaps(namespace).Get(t.Context(), "c4", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found.ManagedFields[0].Manager = "somebody"
	if _, err = clients.Core.CoreV1().ConfigMaps(namespace).Update(t.Context(), found, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}

	clitest.Run(t, strings.ReplaceAll(configMap(1), "site", "no"), args...).Want(t, 1, "it does not have the labels of -l site=test")
	clitest.Run(t, configMap(1), append(args, "--dry-run")...).Want(t, 0, "configmap/c2 pruned (dry run)\ngateway.app.example.com/a pruned (dry run)\n")
	if n := countConfigMaps(t, namespace); n != 3 {
		t.Fatalf("%d ConfigMaps after a dry run, want 3", n)
	}
	result := clitest.Run(t, configMap(1), args...)
	result.Want(t, 0, "configmap/c1 unchanged\nconfigmap/c2 pruned\ngateway.app.example.com/a pruned\n")
	if n := countConfigMaps(t, namespace); n != 2 || strings.Contains(result.Out, "c3") || strings.Contains(result.Out, "c4") {
		t.Errorf("%d ConfigMaps of the site are left, want 2:\n%s", n, result.Out)
	}
}

// TestWait waits until a Gateway is programmed.
func TestWait(t *testing.T) {
	namespace := newNamespace(t, "wait")
	args := []string{"apply", "-n", namespace, "-f", "-", "--wait"}
	clitest.Run(t, gateway("a", ""), append(args, "--timeout=1s")...).Want(t, 3,
		"waiting for Gateway wait/a: no operator has looked at it\n", "everything is applied, but Gateway wait/a is not programmed after 1s: no operator has looked at it")
	clitest.RunUntil(t, "a unchanged", gateway("a", ""), args...).Want(t, 3, "interrupted: everything is applied, but Gateway wait/a is not programmed")
	done := make(chan error)
	go func() {
		live := get(t, namespace, "a")
		done <- setStatus(t.Context(), live, programmed(live, ""))
	}()
	clitest.Run(t, gateway("a", ""), args...).Want(t, 0, "gateway.app.example.com/a programmed\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
	// It was for the generation before.
	clitest.Run(t, gateway("a", "  replicas: 3\n"), append(args, "--timeout=1s")...).Want(t, 3, "the operator has not looked at generation 2 yet")
}

// TestApplyUsage is about command lines that are wrong.
func TestApplyUsage(t *testing.T) {
	for want, args := range map[string][]string{
		"name a file with -f":                       {},
		"unknown --dry-run=client":                  {"-f", "-", "--dry-run=client"},
		"--prune and -l go together":                {"-f", "-", "--prune"},
		"--wait and --dry-run do not go together":   {"-f", "-", "--wait", "--dry-run"},
		"-l a=b=c: ":                                {"-f", "-", "--prune", "-l", "a=b=c"},
		`unknown shorthand flag: 'x' in -x: see ku`: {"-x"},
	} {
		clitest.Run(t, "", append([]string{"apply"}, args...)...).Want(t, 2, want)
	}
}

// TestRefusalsArePlain: what the API server has against objects is said in plain words, of whatever kind they are.
func TestRefusalsArePlain(t *testing.T) {
	namespace := newNamespace(t, "plain")
	for spec, want := range map[string]string{
		"  replicas: two\n": "the API server refuses it: spec.replicas: must be a number, not a string",
		"  routes: [{name: r, rules: [{matches: [{path: {value: a b}}]}]}]\n":                     `.path.value: "a b" must begin with / and have only characters`,
		"  routes: [{name: r, rules: [{timeouts: {request: 1d}}]}]\n":                             `timeouts.request: "1d" must be like 500ms, 10s or 1m30s`,
		"---\n{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: x}]}}\n": "].port: must be a number, not a string",
	} {
		result := clitest.Run(t, gateway("a", spec), "apply", "-n", namespace, "-f", "-")
		result.Want(t, 1, want, "nothing was applied: 1 of ")
		if strings.Contains(result.Err, "in body") || strings.Contains(result.Err, "%2[Ee]") {
			t.Errorf("%s: the words are not plain: %s", spec, result.Err)
		}
	}
}
