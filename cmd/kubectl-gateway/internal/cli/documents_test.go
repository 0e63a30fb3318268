package cli

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"

	"gateway/internal/must"
)

// TestJSON: JSON is read as kubectl reads it, with what a YAML parser refuses.
func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"\ud83d\ude00"}}`:             "😀",
		"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"a\":\"\x7f\"}}": "\x7f",
	} {
		documents := must.Get(parse("a.json", []byte(text)))(t)
		if got := documents[0].Object.Object["data"].(map[string]any)["a"]; got != want {
			t.Errorf("%s: got %q", text, got)
		}
	}
	if _, err := parse("a.json", []byte(`{"apiVersion":"v1","kind":"ConfigMap","kind":"Secret","metadata":{"name":"a"}}`)); err == nil {
		t.Error("a field that is there twice is not refused")
	}
}

// TestEncodings: files of Windows are read whole.
func TestEncodings(t *testing.T) {
	const text = "{kind: Secret, apiVersion: v1, metadata: {name: ä}}\n---\n{kind: Secret, apiVersion: v1, metadata: {name: 😀}}\n"
	wide := func(order binary.AppendByteOrder) (all []byte) {
		for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
			all = order.AppendUint16(all, unit)
		}
		return all
	}
	for name, content := range map[string][]byte{
		"UTF-8": []byte(text), "UTF-8 with a mark": []byte("\ufeff" + text), "UTF-16": wide(binary.LittleEndian), "UTF-16, big endian": wide(binary.BigEndian),
	} {
		documents, err := parse("a.yaml", content)
		if err != nil || len(documents) != 2 || documents[0].Object.GetName() != "ä" || documents[1].Object.GetName() != "😀" {
			t.Errorf("%s: got %+v, %v", name, documents, err)
		}
	}
}

func TestPlain(t *testing.T) {
	for problem, want := range map[string]string{
		`spec.w: Invalid value: -9: spec.w in body should be greater than or equal to 0`:                               "spec.w: Invalid value: -9: should be greater than or equal to 0",
		`spec.x: Invalid value: "it's": spec.x in body should match '^[!-~]+$'`:                                        `spec.x: Invalid value: "it's": should match '^[!-~]+$'`,
		`spec.x: Invalid value: "b": spec.x in body should match '^` + strings.Repeat("a", 60) + `$'`:                  `spec.x: Invalid value: "b": has not the form that it must have: see kubectl explain`,
		`<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf); spec.p: wrong`:                  "spec.p: wrong",
		`<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf)`:                                 `<nil>: Invalid value: "": "spec.p" must validate at least one schema (anyOf)`,
		`spec.x: Invalid value: "Te": should match '^any header but those that frame a message, see kubectl explain$'`: `spec.x: Invalid value: "Te": must be any header but those that frame a message: see kubectl explain`,
	} {
		if got := Plain(problem); got != want {
			t.Errorf("%s\nbecomes\n%s, want\n%s", problem, got, want)
		}
	}
}

// TestRepair: what misses an expression by little is corrected.
func TestRepair(t *testing.T) {
	const name, duration = `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, `^([0-9]{1,5}(h|m|s|ms)){1,4}$`
	for value, want := range map[string]string{"HTTP": "http", "my_http": "my-http", "my http": "my-http", "a/": "a", "a/b": ""} {
		if want != "" {
			want = fmt.Sprintf("write %q", want)
		}
		if got := repair(value, name); got != want {
			t.Errorf("%s becomes %s, want %s", value, got, want)
		}
	}
	if got := repair("10 s", duration); got != `write "10s"` {
		t.Errorf("10 s becomes %s", got)
	}
}

// TestSimilar: names that people confuse are found, and no others.
func TestSimilar(t *testing.T) {
	fields := []string{"backendRefs", "filters", "matches", "retry", "timeouts", "gatewayClassName", "secretRef", "maxRequestBytes"}
	for name, want := range map[string]string{
		"backendRef": "backendRefs", "retries": "retry", "className": "gatewayClassName", "secretName": "secretRef", "max_request_bytes": "maxRequestBytes",
		"rateLimit": "", "trustedProxies": "", "x": "",
	} {
		if got := Similar(name, fields); got != want {
			t.Errorf("%s is taken for %q, want %q", name, got, want)
		}
	}
}

// TestForms: a long expression of the CRDs becomes an example of what it is for.
func TestForms(t *testing.T) {
	const name = `[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*`
	for pattern, want := range map[string]string{
		`^([0-9]{1,3}(\.[0-9]{1,3}){3}/([0-9]|[12][0-9]|3[0-2])|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/([0-9]|[1-9][0-9]))$`: "10.0.0.0/8",
		`^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2}|%[0-9A-Fa-f]{2})*$`:                                       "/shop",
		`^(` + name + `/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`:                                              "example.com/name",
		`^([A-Za-z0-9_:@-]|\\[.])+([.]([A-Za-z0-9_:@-]|\\[.])+)*$|^https?://([A-Za-z0-9:-]|\\[.])+$`:                "realm.roles",
		`^` + name + `$`:                 "shop.example.com",
		`^\*\.` + name + `$`:             "*.example.com",
		`^https?://` + name + `$`:        "https://shop.example.com",
		`^` + name + `:[1-9][0-9]{0,4}$`: "shop.example.com:8080",
		`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+))))?$`: "100Mi",
	} {
		want = `spec.x: Invalid value: "{": must have a form like ` + want
		if got := Plain(`spec.x: Invalid value: "{": should match '` + pattern + "'"); got != want {
			t.Errorf("%s becomes\n%s, want\n%s", pattern, got, want)
		}
	}
}
