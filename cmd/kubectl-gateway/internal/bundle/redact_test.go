package bundle

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gateway/internal/must"
)

// TestRedactEncoded: a secret is found however a file writes it.
func TestRedactEncoded(t *testing.T) {
	for _, secret := range []string{"a<b>&c-4711", `a"b\c-4711`, "it's-4711 'two'", strings.Repeat("word ", 40) + "4711", "ü\n4711", "#: 4711-é"} {
		r := &redactor{}
		encode := func(value any) []byte {
			content := must.Get(json.Marshal(value))(t)
			return content
		}
		must.Get(r.object(encode(map[string]any{"name": "X-Api-Key", "value": secret}), false))(t)
		message := map[string]any{"message": strings.Repeat("long ", 10) + secret + " is there"}
		asYAML := must.Get(yaml.Marshal(message))(t)
		for _, content := range [][]byte{encode(message), asYAML, []byte("plain " + secret)} {
			if got := string(r.text(content)); strings.Contains(got, "4711") {
				t.Errorf("%q is in %s", secret, got)
			}
		}
	}
}

// TestRedactOthers: annotations have configuration, and paths parameters.
func TestRedactOthers(t *testing.T) {
	r := &redactor{}
	got, err := r.object([]byte(`{"metadata":{"annotations":{"nginx.ingress.kubernetes.io/configuration-snippet":"proxy_set_header X-A \"b-4711\";"}}}`), false)
	if err != nil || strings.Contains(string(got), "4711") {
		t.Errorf("it has %s, %v", got, err)
	}
	for _, query := range []string{"token=x4711", "X-Amz-Signature=x4711", "sig=x4711", "session=x4711", "code=x4711", "id=1&api_key=x4711", "client_secret=x4711"} {
		line := `2026-11-29T12:00:00Z {"path":"/a?` + query + `","status":200}`
		if got := string(r.log([]byte(line))); strings.Contains(got, "4711") || !strings.Contains(got, `"status":200`) {
			t.Errorf("a log has %s", got)
		}
	}
}
