package cli

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gateway/artifacts"
)

func TestPlain(t *testing.T) {
	for problem, want := range map[string]string{
		`spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`:                 "spec.replicas: must be an integer, not a string",
		`spec.routes: Invalid value: "object": spec.routes in body must be of type array: "object"`:                       "spec.routes: must be a list, not a map",
		`spec.a: Invalid value: "null": spec.a in body must be of type boolean: "null"`:                                   "spec.a: must be true or false, not null",
		`spec.w: Invalid value: -9: spec.w in body should be greater than or equal to 0`:                                  "spec.w: Invalid value: -9: should be greater than or equal to 0",
		`spec.t: Invalid value: "1d": spec.t in body should match '^([0-9]{1,5}(h|m|s|ms)){1,4}$'`:                        `spec.t: "1d" must be like 500ms, 10s or 1m30s`,
		`spec.x: Invalid value: "it's": spec.x in body should match '^[!-~]+$'`:                                           `spec.x: "it's" must match ^[!-~]+$`,
		`spec.r[3].m[0].v: Invalid value: "b": spec.r[3].m[0].v in body should match '^` + strings.Repeat("a", 50) + `$'`: `spec.r[3].m[0].v: "b" has not the form that it must have: see kubectl explain gateways.app.example.com.spec.r.m.v`,
		`spec.h: Invalid value: "te": spec.h in body should match '^any header but those that frame a message$'`:          `spec.h: "te" must be any header but those that frame a message`,
		`spec.listeners[0].protocol: Unsupported value: "http": supported values: "HTTP", "TLS"`:                          `spec.listeners[0].protocol: Unsupported value: "http": supported values: "HTTP", "TLS"`,
		`<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf)`:                                    `<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf)`,
	} {
		if got := Plain([]string{problem}); !slices.Equal(got, []string{want}) {
			t.Errorf("%s\nbecomes\n%q, want\n%s", problem, got, want)
		}
	}
	both := []string{`<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf)`, "spec.p: wrong"}
	if got := Plain(both); !slices.Equal(got, both[1:]) {
		t.Errorf("what another problem says in words stays: %q", got)
	}
}

func TestPlainDecoding(t *testing.T) {
	for kind, want := range map[string]string{"int32": "an integer", "uint16": "an integer", "string": "a string", "bool": "true or false", "[]v1.Port": "a list", "map[string]string": "a map", "v1.Spec": "a map"} {
		got := plainDecoding("json: cannot unmarshal object into Go struct field ServiceSpec.spec.ports.x of type " + kind)
		if want := "spec.ports.x: must be " + want + ", not a map"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPlainPatch(t *testing.T) {
	for message, want := range map[string]string{
		"failed to create typed patch object (a/b; app.example.com/v1, Kind=Gateway): .spec.replicas: expected numeric (int or float), got string": "the API server refuses it: spec.replicas: must be a number, not a string",
		"failed to create typed patch object (a/b; v1, Kind=Service): errors:\n  .spec.a: expected map, got list\n  .spec.b[c=\"d\"].e: expected string, got boolean": "the API server refuses it: spec.a: must be a map, not a list;" +
			`  spec.b[c="d"].e: must be a string, not true or false`,
		"failed to create typed patch object (a/b; v1, Kind=Service): .spec.a: field not declared in schema": "failed to create typed patch object (a/b; v1, Kind=Service): .spec.a: field not declared in schema",
		"expected map, got list": "expected map, got list",
	} {
		if got := PlainPatch(message); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestForms: what a long expression of the CRD asks for is said in words.
func TestForms(t *testing.T) {
	files, err := fs.Glob(artifacts.CRDs, "crd/*_gateways.yaml")
	if err != nil || len(files) != 1 {
		t.Fatalf("the CRDs are %v (%v)", files, err)
	}
	content, err := artifacts.CRDs.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var definition any
	if content, err = yaml.YAMLToJSON(content); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &definition); err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	collect(definition, found)
	for pattern := range found {
		if words := form(pattern, "spec"); strings.HasPrefix(words, "has not the form") {
			t.Errorf("forms has no words for %s", pattern)
		}
	}
	for pattern := range forms {
		if !found[pattern] {
			t.Errorf("the CRD has no expression %s", pattern)
		}
	}
}

// collect finds the expressions that a value must match.
func collect(value any, found map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			if pattern, ok := below.(string); ok && key == "pattern" {
				found[pattern] = true
			}
			if key != "not" {
				collect(below, found)
			}
		}
	case []any:
		for _, below := range value {
			collect(below, found)
		}
	}
}

// TestJSON: JSON is read as kubectl reads it, with what a YAML parser refuses.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"\ud83d\ude00"}}`:             "😀",
		"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"a\":\"\x7f\"}}": "\x7f",
	} {
		documents, err := parse("a.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := documents[0].Object.Object["data"].(map[string]any)["a"]; got != want {
			t.Errorf("%s: got %q", text, got)
		}
	}
	if _, err := parse("a.json", []byte(`{"apiVersion":"v1","kind":"ConfigMap","kind":"Secret","metadata":{"name":"a"}}`)); err == nil {
		t.Error("a field that is there twice is not refused")
	}
}
