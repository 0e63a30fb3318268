package resources

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"

	appv1 "gateway/api/app/v1"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata with what the code returns now")

var testOptions = Options{AgentImage: "gateway:test", HAProxyImage: "haproxy:test"}

// children returns every child, in the order they are applied.
func children(gateway *appv1.Gateway) []any {
	return []any{
		DesiredServiceAccount(gateway),
		DesiredRole(gateway),
		DesiredRoleBinding(gateway),
		DesiredService(gateway),
		DesiredPodDisruptionBudget(gateway),
		DesiredDeployment(gateway, testOptions),
	}
}

// TestGolden compares the children of testdata/NAME.in.yaml with testdata/NAME.out.yaml. Run with -update to rewrite the
// latter, and read the difference before you commit it: on users' clusters, it replaces pods.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, input := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(input), ".in.yaml"), func(t *testing.T) {
			got := toYAML(t, children(readGateway(t, input)))
			golden := strings.TrimSuffix(input, ".in.yaml") + ".out.yaml"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs from what the code returns; if that is right, go test ./internal/resources -update\n%s", golden, got)
			}
		})
	}
}

func TestRoutesChangeNoChild(t *testing.T) {
	gateway := readGateway(t, "testdata/everything.in.yaml")
	before := children(gateway)
	gateway.Generation++
	gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{
		Name:  "new",
		Rules: []appv1.RouteRule{{BackendRefs: []appv1.BackendRef{{Name: "new", Port: 1}}}},
	})
	if after := children(gateway); !reflect.DeepEqual(before, after) {
		t.Error("a new route changed a child: editing routes must not replace pods")
	}
}

func TestListenersChangeNoPod(t *testing.T) {
	gateway := readGateway(t, "testdata/everything.in.yaml")
	before := DesiredDeployment(gateway, testOptions)
	gateway.Spec.Listeners = append(gateway.Spec.Listeners, appv1.Listener{Name: "new", Port: 81, Protocol: appv1.ProtocolHTTP})
	if after := DesiredDeployment(gateway, testOptions); !reflect.DeepEqual(before, after) {
		t.Error("a new listener changed the Deployment: HAProxy opens ports without a new pod")
	}
	if ports := DesiredService(gateway).Spec.Ports; len(ports) != 3 || *ports[2].Port != 81 {
		t.Errorf("the Service has ports %+v, want the new one, 81, as the third", ports)
	}
}

func TestNamesFitTheLongestGateway(t *testing.T) {
	longest := strings.Repeat("a", 55) // what the CRD allows
	if problems := validation.IsDNS1035Label(ChildName(longest)); len(problems) > 0 {
		t.Errorf("a Service must not be named %q: %v", ChildName(longest), problems)
	}
	for label, value := range childLabels(longest) {
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
			t.Errorf("label %s must not be %q: %v", label, value, problems)
		}
	}
	if got, want := ChildName("shop"), "shop-gateway"; got != want {
		t.Errorf("the children are named %q, want %q: existing ones would be orphaned", got, want)
	}
}

func readGateway(t *testing.T, path string) *appv1.Gateway {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var gateway appv1.Gateway
	if err := yaml.UnmarshalStrict(content, &gateway); err != nil {
		t.Fatal(err)
	}
	return &gateway
}

// toYAML writes the children as kubectl would print them.
func toYAML(t *testing.T, children []any) []byte {
	t.Helper()
	serializer := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, nil, nil,
		jsonserializer.SerializerOptions{Yaml: true})
	var out bytes.Buffer
	for _, child := range children {
		encoded, err := json.Marshal(child)
		if err != nil {
			t.Fatal(err)
		}
		var object unstructured.Unstructured
		if err := json.Unmarshal(encoded, &object.Object); err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		if err := serializer.Encode(&object, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}
