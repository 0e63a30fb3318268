package wait

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestLook: only a condition of the latest generation counts, at every Gateway of ours, and of no other
// controller.
func TestLook(t *testing.T) {
	const ours, others = "app.example.com/gateway", "example.net/other"
	at := func(controller, conditions string) string {
		return fmt.Sprintf("{controllerName: %s, conditions: [%s]}", controller, conditions)
	}
	condition := func(kind, status string, generation int) string {
		return fmt.Sprintf("{type: %s, status: %q, observedGeneration: %d, message: %s of generation %d is %s}", kind, status, generation, kind, generation, status)
	}
	programmed := func(status string, generation int) string { return condition("Programmed", status, generation) }
	const route, policy, gateway = "gateway.networking.k8s.io/v1, kind: HTTPRoute", "app.example.com/v1, kind: BackendPolicy", "gateway.networking.k8s.io/v1, kind: Gateway"
	for _, test := range []struct{ name, kind, status, want string }{
		{"a Gateway that nobody looked at", gateway, "{}", "no operator has looked at it"},
		{"a live Gateway", gateway, "{conditions: [" + programmed("True", 2) + "]}", ""},
		{"a Gateway after an edit", gateway, "{conditions: [" + programmed("True", 1) + "]}", "the operator has not looked at generation 2 yet"},
		{"a route that nobody looked at", route, "{}", "no operator has looked at it"},
		{"a route of another controller", route, "{parents: [" + at(others, programmed("True", 2)) + "]}", "no operator has looked at it"},
		{"a live route", route, "{parents: [" + at(others, "") + "," + at(ours, programmed("True", 2)) + "]}", ""},
		{"a route after an edit", route, "{parents: [" + at(ours, programmed("True", 1)) + "]}", "the operator has not looked at generation 2 yet"},
		{
			"a route live at one of two Gateways", route,
			"{parents: [" + at(ours, programmed("True", 2)) + "," + at(ours, programmed("False", 2)) + "]}", "Programmed of generation 2 is False",
		},
		{"a route that is refused", route, "{parents: [" + at(ours, condition("Accepted", "False", 2)) + "]}", "Accepted of generation 2 is False"},
		{"a route that is accepted so far", route, "{parents: [" + at(ours, condition("Accepted", "True", 2)) + "]}", "there is no condition Programmed yet"},
		{"a live policy", policy, "{ancestors: [" + at(ours, programmed("True", 2)) + "]}", ""},
		{"a policy after an edit", policy, "{ancestors: [" + at(ours, programmed("True", 1)) + "]}", "the operator has not looked at generation 2 yet"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var object unstructured.Unstructured
			text := fmt.Sprintf("{apiVersion: %s, metadata: {name: a, generation: 2}, status: %s}", test.kind, test.status)
			content, err := yaml.YAMLToJSON([]byte(text))
			if err == nil {
				err = object.UnmarshalJSON(content)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Look(&object); err != nil || got.Why != test.want {
				t.Errorf("got %+v, %v; want %q", got, err, test.want)
			}
		})
	}
}
