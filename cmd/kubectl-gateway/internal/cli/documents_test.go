package cli

import (
	"strings"
	"testing"
)

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

func TestPlain(t *testing.T) {
	for problem, want := range map[string]string{
		`spec.w: Invalid value: -9: spec.w in body should be greater than or equal to 0`:              "spec.w: Invalid value: -9: should be greater than or equal to 0",
		`spec.x: Invalid value: "it's": spec.x in body should match '^[!-~]+$'`:                       `spec.x: Invalid value: "it's": should match '^[!-~]+$'`,
		`spec.x: Invalid value: "b": spec.x in body should match '^` + strings.Repeat("a", 60) + `$'`: `spec.x: Invalid value: "b": has not the form that it must have: see kubectl explain`,
		`<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf); spec.p: wrong`: "spec.p: wrong",
		`<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf)`:                `<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf)`,
	} {
		if got := Plain(problem); got != want {
			t.Errorf("%s\nbecomes\n%s, want\n%s", problem, got, want)
		}
	}
}
