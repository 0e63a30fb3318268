package fuzz

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testtier"
)

// publishedSchema is the schema of a Gateway's spec as the API server publishes it.
func publishedSchema(t *testing.T) object {
	t.Helper()
	raw := must.Get(server.Kube.Discovery().RESTClient().Get().
		AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gateways.app.example.com").DoRaw(t.Context()))(t)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema object }
			}
		}
	}
	must.Do(t, json.Unmarshal(raw, &crd))
	spec := at(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, "properties", "spec").(object)
	for _, field := range []string{"pods", "service", "allowedHostnames"} { // nothing in HAProxy comes from them
		delete(spec["properties"].(object), field)
	}
	delete(at(spec, "properties", "listeners", "items", "properties").(object), "allowedRoutes")
	return spec
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// stringFields collects the names of the fields of a schema that are strings, but for enums.
func stringFields(name string, schema object, fields map[string]wanted) {
	if schema["type"] == "string" && schema["enum"] == nil {
		fields[name] = wants(schema)
	}
	properties, _ := schema["properties"].(object)
	for field, sub := range properties {
		stringFields(name+"."+field, sub.(object), fields)
	}
	if items, ok := schema["items"].(object); ok {
		stringFields(name+"[]", items, fields)
	}
}

// note counts the hostile strings of an admitted spec.
func (r *run) note(spec any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count("spec", spec)
}

func (r *run) count(name string, value any) {
	switch value := value.(type) {
	case object:
		for field, sub := range value {
			r.count(name+"."+field, sub)
		}
	case []any:
		for _, sub := range value {
			r.count(name+"[]", sub)
		}
	case string:
		if _, ok := r.strings[name]; ok && isHostile(value) {
			r.reached[name]++
		}
	}
}

// noteRefusal counts the field, or the rule, that is the first reason why a Gateway was refused.
func (r *run) noteRefusal(err error) {
	_, reason, _ := strings.Cut(err.Error(), "is invalid: ")
	reason, _, _ = strings.Cut(reason, "Invalid value: \"")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused[reason[:min(len(reason), 150)]]++
}

// never are the string fields that cannot hold anything hostile: durations, ranges of addresses, and fields that admit
// plain characters only.
var never = regexp.MustCompile(
	`timeouts\.|Timeout$|[iI]nterval$|timeout$|clockSkew$|slowStart$|trustedProxies|clientAddress\.|authorization\.rules\[\]\.addresses|contentTypes\[\]$|oidc\.path$|claimsToHeaders\[\]\.header$`)

// TestNever compares the list of fields that cannot hold anything hostile with what their schemas admit. What a
// trustedProxies has to be, only CEL says.
func TestNever(t *testing.T) {
	root := publishedSchema(t)
	prepare(root)
	fields := map[string]wanted{}
	stringFields("spec", root, fields)
	r := testtier.Rand(t)
	for _, name := range sortedKeys(fields) {
		hostile := false
		for range 500 {
			hostile = hostile || isHostile(text(r, fields[name]))
		}
		if hostile == never.MatchString(name) && name != "spec.trustedProxies[]" {
			t.Errorf("%s can hold a hostile string: %v; the list of those that never can says otherwise", name, hostile)
		}
	}
}

// expectHostile checks that hostile strings were admitted in the fields that can hold some. They had no effect.
func (r *run) expectHostile(t *testing.T) {
	t.Helper()
	var missed []string
	total, fields := 0, 0
	for _, name := range sortedKeys(r.strings) {
		if never.MatchString(name) {
			continue
		}
		fields++
		total += r.reached[name]
		if r.reached[name] == 0 {
			missed = append(missed, name)
		}
		t.Logf("%6d hostile strings in %s", r.reached[name], name)
	}
	if fields < 40 {
		t.Errorf("the schema has only %d fields for text", fields)
	}
	// A run of few Gateways is for looking at one. In a long one, one field may be missed by chance.
	if r.admitted.Load() >= 1000 && len(missed) > 1 {
		t.Errorf("%d hostile strings were admitted, but none in %v", total, missed)
	}
}
