package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/internal/testtier"
	"gateway/test/internal/examples"
)

// shown are the examples that are tried on the node: those in which the network of pods and Services has a part.
// TestRequests in test/apiserver/examples tries all of them, without pods.
var shown = []string{"path-matching", "session-persistence", "h2c-grpc", "websocket", "tcp", "trusted-proxies", "proxy-protocol"}

// TestExamples applies examples, and does what their comments say.
func TestExamples(t *testing.T) {
	t.Parallel()
	if !onNode() {
		t.Skip("the requests go to the addresses of Services: this machine has to be the node")
	}
	files := must.Get(examples.Load(testbuild.MustRoot(t)))(t)
	byName := map[string]examples.Example{}
	for _, example := range files {
		byName[example.Name] = example
	}
	client := must.Get(dynamic.NewForConfig(restConfig))(t)
	applier := must.Get(examples.NewApplier(kube.Discovery(), client))(t)
	s := &exampleStage{namespace: newNamespace(t), applier: applier}
	for _, object := range byName[examples.Backends].Objects {
		if kind := object.GetKind(); kind == "Deployment" || kind == "Service" {
			s.apply(t, object)
		}
	}
	waitReplicas(t, s.namespace, "echo-v1", 2)
	waitReplicas(t, s.namespace, "echo-v2", 2)
	if testtier.All {
		shown = append(shown, "regular-expressions", "request-headers", "redirect", "url-rewrite", "direct-response", "cors", "timeouts", "retries")
	}
	for _, name := range shown {
		example, found := byName[name]
		if !found {
			t.Errorf("there is no example %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) { s.play(t, example) })
	}
}

// exampleStage is where the examples are applied.
type exampleStage struct {
	namespace string
	applier   *examples.Applier
}

// apply applies the object to the test's namespace, with the image that is on the node, and one proxy a Gateway.
func (s *exampleStage) apply(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	object = object.DeepCopy()
	object.SetNamespace(s.namespace)
	switch image := os.Getenv("ECHO_IMG"); object.GetKind() {
	case "Deployment":
		containers, _, err := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		must.Do(t, err)
		if image != "" {
			containers[0].(map[string]any)["image"] = image
		}
		must.Do(t, unstructured.SetNestedSlice(object.Object, containers, "spec", "template", "spec", "containers"))
	case "Gateway":
		must.Do(t, unstructured.SetNestedField(object.Object, int64(1), "spec", "replicas"))
	}
	must.Get(s.applier.Apply(t.Context(), object))(t)
}

// play applies the example, runs its commands, and removes its Gateway, so that not all have pods at once.
func (s *exampleStage) play(t *testing.T, example examples.Example) {
	t.Helper()
	for _, object := range example.Objects {
		s.apply(t, object)
	}
	defer func() {
		must.Do(t, gateways.AppV1().Gateways(s.namespace).Delete(context.WithoutCancel(t.Context()), example.Name, metav1.DeleteOptions{}))
	}()
	address := s.waitAddress(t, example.Name)
	setup, requests := example.Split()
	for _, command := range append(setup, requests...) {
		if command.Program() != "curl" && command.Program() != "head" {
			continue
		}
		eventually(t, "the command does what the comment says", func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return command.Run(ctx, t.TempDir(), s.namespace, "GATEWAY="+address)
		})
	}
}

// waitAddress waits until the Gateway is Programmed and returns its address.
func (s *exampleStage) waitAddress(t *testing.T, name string) string {
	t.Helper()
	var address string
	eventually(t, "Gateway "+name+" is Programmed and has an address", func(ctx context.Context) error {
		gateway, err := gateways.AppV1().Gateways(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, kind := range []string{appv1.ConditionResolvedRefs, appv1.ConditionProgrammed} {
			condition := meta.FindStatusCondition(gateway.Status.Conditions, kind)
			if condition == nil || condition.Status != metav1.ConditionTrue || condition.ObservedGeneration != gateway.Generation {
				return fmt.Errorf("condition %+v", condition)
			}
		}
		if len(gateway.Status.Addresses) == 0 {
			return errors.New("it has no address")
		}
		address = gateway.Status.Addresses[0].Value
		return nil
	})
	return address
}
