//go:build slow

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// TestHitlessUpgrades: the same as TestHitless for what changes all Gateways of the cluster, so it runs alone.
func TestHitlessUpgrades(t *testing.T) {
	needNode(t)
	h := newHitless(t)
	h.during(t, "operator rollouts", noEnd, h.rollOutOperator)
	h.during(t, "CRD upgrades", noEnd, h.upgradeCRD)
	h.during(t, "proxy rollouts (images)", h.afterDrain(), h.renameImages)
	h.during(t, "Helm upgrade and rollback", h.afterDrain(), h.upgradeChart)
}

// rollOutOperator replaces the operator's pods, twice; then an edit is still seen through.
func (h *hitless) rollOutOperator(t *testing.T) {
	t.Helper()
	for range 2 {
		annotateTemplate(t, operatorNamespace, "gateway-operator")
		waitRolledOut(t, operatorNamespace, "gateway-operator", 2)
	}
	h.editOnce(t)
}

// editOnce moves the requests to v2 and back.
func (h *hitless) editOnce(t *testing.T) {
	t.Helper()
	traffic := newClient(t, h.namespace)
	for _, version := range []string{"v2", "v1"} {
		h.answers.allow(version)
		setRoutes(t, h.namespace, h.routes(backend(version, 1))...)
		waitProgrammed(t, h.namespace)
		h.answers.retire(map[string]string{"v1": "v2", "v2": "v1"}[version])
		traffic.waitAnswer(t, host, "/", http.StatusOK, version)
	}
}

// upgradeCRD adds a field to the schema, uses it, and takes it away again, twice.
func (h *hitless) upgradeCRD(t *testing.T) {
	t.Helper()
	client := must.Get(dynamic.NewForConfig(restConfig))(t)
	objects := client.Resource(appv1.SchemeGroupVersion.WithResource("gateways")).Namespace(h.namespace)
	t.Cleanup(func() { must.Do(t, applyCRD(context.Background(), client, false)) })
	for range 2 {
		must.Do(t, applyCRD(t.Context(), client, true))
		eventually(t, "the new field is kept", func(ctx context.Context) error {
			got, err := objects.Patch(ctx, gatewayName, types.MergePatchType, []byte(`{"spec":{"newField":"x"}}`), metav1.PatchOptions{})
			if err != nil {
				return err
			}
			if value, _, _ := unstructured.NestedString(got.Object, "spec", "newField"); value != "x" {
				return fmt.Errorf("it is %q", value)
			}
			return nil
		})
		waitProgrammed(t, h.namespace)
		h.editOnce(t)
		must.Do(t, applyCRD(t.Context(), client, false))
		h.editOnce(t)
	}
}

// applyCRD does what make install does, with a new field in the schema of spec or without.
func applyCRD(ctx context.Context, client dynamic.Interface, newField bool) error {
	raw, err := os.ReadFile("../../artifacts/crd/app.example.com_gateways.yaml")
	if err != nil {
		return err
	}
	var crd unstructured.Unstructured
	if err := yaml.Unmarshal(raw, &crd.Object); err != nil {
		return err
	}
	if newField {
		versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
		err := errors.Join(
			unstructured.SetNestedField(versions[0].(map[string]any), "string",
				"schema", "openAPIV3Schema", "properties", "spec", "properties", "newField", "type"),
			unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"))
		if err != nil {
			return err
		}
	}
	crds := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	_, err = client.Resource(crds).Apply(ctx, crd.GetName(), &crd, metav1.ApplyOptions{FieldManager: "kubectl", Force: true})
	return err
}

// renameImages has all proxies replaced by such with images of other names, which are the same images, and then by the
// first again.
func (h *hitless) renameImages(t *testing.T) {
	t.Helper()
	before, set := operatorArguments(t)
	after := slices.Clone(before)
	for i, argument := range after {
		if name, image, found := strings.Cut(argument, "-image="); found {
			after[i] = name + "-image=" + otherName(image)
		}
	}
	if slices.Equal(before, after) {
		t.Fatalf("there are no images among the operator's arguments %q", before)
	}
	for _, arguments := range [][]string{after, before} {
		set(arguments)
		h.waitUpgraded(t)
	}
	waitPodCount(t, h.namespace, proxySelector, 2)
}

// waitUpgraded waits until the operator's pods are as its Deployment says, and the proxies as its flags say.
func (h *hitless) waitUpgraded(t *testing.T) {
	t.Helper()
	deployment := must.Get(kube.AppsV1().Deployments(operatorNamespace).Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
	arguments := deployment.Spec.Template.Spec.Containers[0].Args
	waitRolledOut(t, operatorNamespace, "gateway-operator", *deployment.Spec.Replicas)
	waitProxies(t, h.namespace, 2, func(pod corev1.Pod) bool {
		return slices.Contains(arguments, "-haproxy-image="+pod.Spec.Containers[0].Image) &&
			slices.Contains(arguments, "-agent-image="+pod.Spec.InitContainers[0].Image)
	})
}

// upgradeChart has Helm take over what make deploy applied, by the chart of a release before and other values, upgrade
// it, roll it back and remove it; then make deploy applies it again. The images are the same ones, by two names.
func (h *hitless) upgradeChart(t *testing.T) {
	t.Helper()
	image, haproxy := operatorImages(t)
	deploy := func(ctx context.Context) error {
		command := exec.CommandContext(ctx, "make", "-s", "deploy", "IMG="+image, "HAPROXY_IMG="+haproxy)
		command.Dir = testbuild.MustRoot(t)
		out, err := command.CombinedOutput()
		if err != nil {
			return fmt.Errorf("make deploy: %w\n%s", err, out)
		}
		return nil
	}
	t.Cleanup(func() { must.Do(t, deploy(context.Background())) })
	helm := func(args ...string) {
		t.Helper()
		testenv.Helm(t, os.Getenv("KUBECONFIG"), append(args, "-n", operatorNamespace)...)
		h.waitUpgraded(t)
	}
	values := func(image, haproxy string) string {
		at := strings.LastIndex(image, ":")
		return fmt.Sprintf("image.repository=%s,image.tag=%s,haproxyImage=%s", image[:at], image[at+1:], haproxy)
	}
	chart := func(version string) string { return filepath.Join(testenv.MakeRelease(t, version), "chart/gateway") }
	helm("install", "gateway", chart("v1.2.2"), "--take-ownership", "--force-conflicts",
		"--set", values(otherName(image), otherName(haproxy)), "--set", "replicas=1,flags={-v=1}")
	helm("upgrade", "gateway", chart("v1.2.3"), "--reset-values", "--set", values(image, haproxy))
	h.editOnce(t)
	helm("rollback", "gateway", "1")
	h.editOnce(t)
	testenv.Helm(t, os.Getenv("KUBECONFIG"), "uninstall", "gateway", "-n", operatorNamespace)
	must.Do(t, deploy(t.Context()))
	h.waitUpgraded(t)
	h.editOnce(t)
}

// otherName is another name of an image on the node: the one it is short for, or the short one.
func otherName(image string) string {
	const registry = "docker.io/library/"
	if short, found := strings.CutPrefix(image, registry); found {
		return short
	}
	return registry + image
}
