package convert

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestGolden compares what becomes of testdata/NAME.in.yaml with NAME.out.yaml and NAME.notes.txt. That an API server
// admits it, that HAProxy accepts it, and what it does is tested in packages clustertest and command.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("there is no input: %v", err)
	}
	for _, input := range inputs {
		name := strings.TrimSuffix(input, ".in.yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			result := convertFile(t, input)
			content, err := written(result.Gateways)
			if err != nil {
				t.Fatal(err)
			}
			compareGolden(t, name+".out.yaml", content)
			var notes bytes.Buffer
			for _, note := range result.Notes {
				notes.WriteString(note.String() + "\n")
			}
			compareGolden(t, name+".notes.txt", notes.Bytes())
		})
	}
}

// convertFile converts the objects of a file.
func convertFile(t *testing.T, path string) *Result {
	t.Helper()
	documents, err := cli.Files{Paths: []string{path}}.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := Convert(Input{Documents: documents, Namespace: "default", Name: "ingress"})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // as the others
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a golden file
	if err != nil {
		t.Fatalf("failed to read the golden file (-update writes it): %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (if it should, run the test with -update); got:\n%s", path, got)
	}
}

// TestNoAnnotationIsDropped gives an Ingress each of ingress-nginx's annotations (testdata/annotations.txt, from its
// documentation and source) beside those that it is part of: there is an effect on the Gateway, or a note.
func TestNoAnnotationIsDropped(t *testing.T) {
	content, err := os.ReadFile("testdata/annotations.txt")
	if err != nil {
		t.Fatal(err)
	}
	convert := func(annotations map[string]string) (string, []Note) {
		result, err := Convert(Input{Documents: mainAndOther(annotations), Namespace: "default", Name: "ingress"})
		if err != nil {
			t.Fatal(err)
		}
		content, err := written(result.Gateways)
		if err != nil {
			t.Fatal(err)
		}
		return string(content), result.Notes
	}
	values := []string{"true", "false", "7", "https://b.example.com", "/b", "b.example.com", "cookie", "round_robin"}
	for name := range strings.FieldsSeq(string(content)) {
		var without map[string]string
		for beginning, annotations := range wholes {
			if strings.HasPrefix(name, beginning) {
				without = annotations
			}
		}
		outWithout, notesWithout := convert(without)
		if !slices.ContainsFunc(values, func(value string) bool {
			with := map[string]string{name: value}
			for other, value := range without {
				if other != name {
					with[other] = value
				}
			}
			out, notes := convert(with)
			return out != outWithout || slices.ContainsFunc(notes, func(note Note) bool { return !slices.Contains(notesWithout, note) })
		}) {
			t.Errorf("%s beside %v changes nothing, and is not noted", name, without)
		}
	}
}

// TestSessionCookies has an Ingress with certificates: where nginx makes another cookie, it is noted.
func TestSessionCookies(t *testing.T) {
	const secure, ends = "annotation affinity: a cookie that was set over HTTPS is sent over HTTP too", "annotation session-cookie-max-age: the cookie ends with the browser's session"
	for _, test := range []struct {
		annotations map[string]string
		wants       []string
	}{
		{map[string]string{"affinity": "cookie"}, []string{secure}},
		{map[string]string{"affinity": "cookie", "session-cookie-secure": "true"}, []string{"annotation session-cookie-secure: the cookie is sent over HTTP too"}},
		{map[string]string{"affinity": "cookie", "session-cookie-secure": "false"}, nil},
		{map[string]string{"affinity": "cookie", "session-cookie-secure": "false", "session-cookie-max-age": "60"}, []string{ends}},
	} {
		result, err := Convert(Input{Documents: mainAndOther(test.annotations), Namespace: "default", Name: "ingress"})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(result.Notes, test.wants, func(note Note, want string) bool { return strings.HasPrefix(note.Text, want) }) {
			t.Errorf("%v: got %q, want %q", test.annotations, result.Notes, test.wants)
		}
	}
}

// wholes are the annotations that those with a beginning are part of.
var wholes = map[string]map[string]string{
	"cors-":                   {"enable-cors": "true", "cors-allow-origin": "https://a.example.com"},
	"session-cookie-":         {"affinity": "cookie"},
	"canary-":                 {"canary": "true", "canary-by-header": "X-Canary"},
	"permanent-redirect-code": {"permanent-redirect": "https://a.example.com"},
	"temporal-redirect-code":  {"temporal-redirect": "https://a.example.com"},
	"x-forwarded-prefix":      {"rewrite-target": "/$1"},
	"limit-":                  {"limit-rps": "10"},
	"auth-":                   {"auth-url": "http://login.default.svc/check"},
}

// mainAndOther are an Ingress with certificates, and another of the same host that has ingress-nginx's annotations.
func mainAndOther(annotations map[string]string) []cli.Document {
	ingress := func(name, path string, annotations map[string]any) cli.Document {
		return cli.Document{Source: name, Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": map[string]any{"name": name, "annotations": annotations},
			"spec": map[string]any{
				"tls": []any{map[string]any{"hosts": []any{"www.example.com"}, "secretName": "www"}},
				"rules": []any{map[string]any{"host": "www.example.com", "http": map[string]any{"paths": []any{map[string]any{
					"path": path, "pathType": "Prefix",
					"backend": map[string]any{"service": map[string]any{"name": name, "port": map[string]any{"number": int64(80)}}},
				}}}}},
			},
		}}}
	}
	prefixed := map[string]any{}
	path := "/"
	for name, value := range annotations {
		prefixed[prefix+name] = value
		if name == "canary" {
			path = "/main"
		}
	}
	return []cli.Document{ingress("main", "/main", nil), ingress("other", path, prefixed)}
}

// written returns the Gateways as they are printed.
func written(gateways []*appv1.Gateway) ([]byte, error) {
	var out bytes.Buffer
	c := &command{Options: &cli.Options{IOStreams: genericiooptions.IOStreams{Out: &out}}, output: "yaml"}
	err := c.write(gateways)
	return out.Bytes(), err
}
