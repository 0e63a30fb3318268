package schema

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
)

// place is somewhere in an object: field names and indexes.
type place []any

func (p place) String() string {
	var b strings.Builder
	for i, step := range p {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		case string:
			if i > 0 {
				b.WriteString(".")
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

func (p place) then(step any) place { return append(p[:len(p):len(p)], step) }

// in returns what an object has at the place.
func (p place) in(object any) any {
	for _, step := range p {
		switch step := step.(type) {
		case int:
			object = object.([]any)[step]
		case string:
			object = object.(map[string]any)[step]
		}
	}
	return object
}

// violation is a change of an object that breaks one constraint of the schema.
type violation struct {
	at    place
	why   string
	value any
	want  string
}

// kubernetes are the fields whose types are from core/v1: their content is checked where the Deployment is made.
var kubernetes = map[string]bool{
	"spec.listeners[].allowedRoutes.namespaces.selector": true, "spec.allowedHostnames.rules[].namespaces.selector": true,
	"spec.pods.affinity": true, "spec.pods.tolerations[]": true, "spec.pods.topologySpreadConstraints[]": true,
}

// Filters of listeners equal filters of rules: see TestFiltersAreAlike.
const listenerFilter, ruleFilter = "spec.listeners[].filters[]", "spec.routes[].rules[].filters[]"

// breaker makes a violation for each constraint of a schema, in places that an object has.
type breaker struct {
	t          *testing.T
	object     any
	violations []violation
	// dear are the places with constraints that this file does not know how to break, as "anyOf", "not" or a CEL rule's
	// message.
	dear map[string][]string
}

func (b *breaker) add(at place, why string, value any, want string) {
	b.violations = append(b.violations, violation{at, why, value, want})
}

// visit looks at a field that is at the places. name is where it is, without indexes.
func (b *breaker) visit(name string, schema map[string]any, at []place) {
	if len(at) == 0 {
		b.t.Errorf("testdata/everything.yaml has no %s", name)
		return
	}
	b.scalar(at[0], schema)
	if kubernetes[name] || name == listenerFilter {
		return
	}
	b.list(at[0], schema)
	b.properties(at[0], schema)
	if _, ok := schema["anyOf"]; ok && schema["x-kubernetes-int-or-string"] == nil {
		b.dear[name] = append(b.dear[name], "anyOf")
	}
	for _, keyword := range []string{"allOf", "not"} {
		if _, ok := schema[keyword]; ok {
			b.dear[name] = append(b.dear[name], keyword)
		}
	}
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		b.dear[name] = append(b.dear[name], rule.(map[string]any)["message"].(string))
	}
	if items, ok := schema["items"].(map[string]any); ok {
		var elements []place
		for _, p := range at {
			for i := range p.in(b.object).([]any) {
				elements = append(elements, p.then(i))
			}
		}
		b.visit(name+"[]", items, elements)
	}
	fields, _ := schema["properties"].(map[string]any)
	for field, sub := range fields {
		var places []place
		for _, p := range at {
			if _, has := p.in(b.object).(map[string]any)[field]; has {
				places = append(places, p.then(field))
			}
		}
		b.visit(name+"."+field, sub.(map[string]any), places)
	}
}

var wrongType = map[string]any{"string": 1, "integer": "x", "boolean": "x", "array": "x", "object": "x"}

func (b *breaker) scalar(at place, schema map[string]any) {
	if kind, ok := schema["type"].(string); ok {
		b.add(at, "type", wrongType[kind], "must be of type "+kind)
	}
	if pattern, ok := schema["pattern"].(string); ok {
		for _, value := range []string{"a\nb", "\x00"} {
			if !regexp.MustCompile(pattern).MatchString(value) {
				b.add(at, "pattern", value, "should match '"+pattern+"'")
				break
			}
		}
	}
	if _, ok := schema["enum"]; ok {
		value := any("Nonsense")
		if schema["type"] == "integer" {
			value = 999
		}
		b.add(at, "enum", value, fmt.Sprintf("Unsupported value: %#v: supported values: ", value))
	}
	if n, ok := schema["minLength"].(float64); ok {
		b.add(at, "minLength", strings.Repeat("a", int(n)-1), fmt.Sprintf("should be at least %v chars long", n))
	}
	if n, ok := schema["maxLength"].(float64); ok {
		b.add(at, "maxLength", strings.Repeat("a", int(n)+1), fmt.Sprintf("Too long: may not be more than %v bytes", n))
	}
	if n, ok := schema["minimum"].(float64); ok {
		b.add(at, "minimum", int64(n)-1, fmt.Sprintf("should be greater than or equal to %d", int64(n)))
	}
	if n, ok := schema["maximum"].(float64); ok {
		b.add(at, "maximum", int64(n)+1, fmt.Sprintf("should be less than or equal to %d", int64(n)))
	}
}

func (b *breaker) list(at place, schema map[string]any) {
	if schema["type"] != "array" {
		return
	}
	list := at.in(b.object).([]any)
	if n, ok := schema["minItems"].(float64); ok {
		b.add(at, "minItems", list[:int(n)-1], fmt.Sprintf("should have at least %v items", n))
	}
	maximum, ok := schema["maxItems"].(float64)
	if !ok {
		b.t.Errorf("%s has no maxItems: the API server cannot tell what rules about it cost", at)
		return
	}
	var many []any
	for len(many) <= int(maximum) {
		many = append(many, list[len(list)-1])
	}
	b.add(at, "maxItems", many, fmt.Sprintf("Too many: %d: must have at most %[2]v item", len(many), maximum))
	if kind := schema["x-kubernetes-list-type"]; maximum > 1 && (kind == "set" || kind == "map") {
		b.add(at.then(len(list)), "list type", append(list[:len(list):len(list)], list[0]), "Duplicate value: ")
	}
}

func (b *breaker) properties(at place, schema map[string]any) {
	object, ok := at.in(b.object).(map[string]any)
	if !ok {
		return
	}
	required, _ := schema["required"].([]any)
	for _, field := range required {
		b.add(at.then(field), "required", nil, "Required value")
	}
	if _, ok := schema["minProperties"]; ok {
		few := map[string]any{}
		for _, field := range required {
			few[field.(string)] = object[field.(string)]
		}
		b.add(at, "minProperties", few, fmt.Sprintf("should have at least %v properties", schema["minProperties"]))
	}
	if n, ok := schema["maxProperties"].(float64); ok {
		many := map[string]any{}
		for field, value := range object {
			many[field] = value
		}
		fields, _ := schema["properties"].(map[string]any)
		for field := range fields {
			if len(many) <= int(n) {
				many[field] = map[string]any{}
			}
		}
		for i := 0; len(many) <= int(n); i++ {
			many[fmt.Sprint("k", i)] = "1"
		}
		b.add(at, "maxProperties", many, fmt.Sprintf("Too many: %d: must have at most %v item", len(many), n))
	}
}

// applied returns a copy of the object with the violation.
func (v violation) applied(t *testing.T, object map[string]any) *unstructured.Unstructured {
	t.Helper()
	changed := (&unstructured.Unstructured{Object: object}).DeepCopy()
	at, value := v.at, v.value
	if v.why == "list type" {
		at = at[:len(at)-1]
	}
	last := len(at) - 1
	switch parent := at[:last].in(changed.Object).(type) {
	case map[string]any:
		if parent[at[last].(string)] = value; value == nil {
			delete(parent, at[last].(string))
		}
	case []any:
		parent[at[last].(int)] = value
	}
	// Numbers as JSON has them.
	text := must.Get(yaml.Marshal(changed.Object))(t)
	result := &unstructured.Unstructured{}
	must.Do(t, yaml.Unmarshal(text, &result.Object))
	return result
}

// TestConstraints breaks every constraint that the published schema has for one field, and looks for an error that
// names the field and the constraint. Those that relate fields have cases of their own: see TestInvalid.
func TestConstraints(t *testing.T) {
	t.Parallel()
	object := everything(t)
	if _, err := create(t.Context(), &unstructured.Unstructured{Object: object}, true); err != nil {
		t.Fatalf("testdata/everything.yaml is refused: %v", err)
	}
	b := breaker{t: t, object: object, dear: map[string][]string{}}
	b.visit("spec", specSchema(t), []place{{"spec"}})
	if len(b.violations) < 400 {
		t.Errorf("only %d constraints were found", len(b.violations))
	}
	for _, v := range b.violations {
		t.Run(v.at.String()+" "+v.why, func(t *testing.T) {
			t.Parallel()
			_, err := create(t.Context(), v.applied(t, object), true)
			if err == nil {
				t.Fatalf("the API server admits the value %s", abridged(fmt.Sprint(v.value)))
			}
			if got := err.Error(); !strings.Contains(got, v.at.String()+": ") || !strings.Contains(got, v.want) {
				t.Errorf("the error is\n  %s\nand should be about %s and contain\n  %s", abridged(got), v.at, v.want)
			}
		})
	}
}

// TestFiltersAreAlike: filters of listeners and GatewayConfigs have the constraints of the rules' filters. All
// listeners refuse the same types.
func TestFiltersAreAlike(t *testing.T) {
	t.Parallel()
	at := func(path ...string) any {
		schema := specSchema(t)
		for _, field := range path {
			schema = schema["properties"].(map[string]any)[field].(map[string]any)["items"].(map[string]any)
		}
		return schema
	}
	if !reflect.DeepEqual(at("listeners", "filters"), at("routes", "rules", "filters")) {
		t.Errorf("the schemas of %s and %s differ", listenerFilter, ruleFilter)
	}
	filters := func(schema map[string]any) map[string]any {
		filters := maps.Clone(schema["properties"].(map[string]any)["filters"].(map[string]any))
		delete(filters, "description")
		return filters
	}
	config := crdSchema(t.Context(), t, "gatewayconfigs")["properties"].(map[string]any)["spec"].(map[string]any)
	if !reflect.DeepEqual(filters(at("listeners").(map[string]any)), filters(config)) {
		t.Errorf("the schemas of the filters of listeners and of GatewayConfigs differ")
	}
}

func everything(t *testing.T) map[string]any {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/everything.yaml"))(t)
	object := map[string]any{}
	must.Do(t, yaml.Unmarshal(text, &object))
	return object
}

func specSchema(t *testing.T) map[string]any {
	t.Helper()
	return crdSchema(t.Context(), t, "gateways")["properties"].(map[string]any)["spec"].(map[string]any)
}
