package ingress

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
)

// suiteInput is what a case of ingress-nginx's own suite is about: a path of a host, which an Ingress of class nginx
// has.
type suiteInput struct {
	// A are annotations of the Ingress, without the prefix, and C is the data of the controller's ConfigMap.
	A, C map[string]string
	// Host, Path and Type are the rule's; TLS reports whether the host has a certificate.
	Host, Path, Type string
	TLS              bool
	// Other is another Ingress, of the same host unless it has one.
	Other *suiteInput
	// Service is the spec of the Service, and Headers is the data of ConfigMap headers.
	Service string
	Headers map[string]string
	// Ingress is a whole spec in place of the rule.
	Ingress string
}

// objects returns the Ingresses, with the name of their Service.
func (in *suiteInput) objects(t *testing.T, name, host string) string {
	t.Helper()
	annotations := map[string]string{}
	for key, value := range in.A {
		annotations[Prefix+key] = value
	}
	in.Host = cmp.Or(in.Host, host)
	spec := fmt.Sprintf("{ingressClassName: nginx, rules: [{host: %q, http: {paths: [{path: %q, pathType: %s, backend: {service: {name: %s, port: {number: 80}}}}]}}]}",
		in.Host, cmp.Or(in.Path, "/"), cmp.Or(in.Type, "Prefix"), name)
	if in.TLS {
		spec = strings.Replace(spec, "{", fmt.Sprintf("{tls: [{hosts: [%q], secretName: tls}], ", in.Host), 1)
	}
	ingress := &networkingv1.Ingress{}
	ingress.APIVersion, ingress.Kind, ingress.Name, ingress.Annotations = "networking.k8s.io/v1", "Ingress", name, annotations
	must.Do(t, yaml.UnmarshalStrict([]byte(cmp.Or(in.Ingress, spec)), &ingress.Spec))
	text := "\n---\n" + asYAML(t, ingress) + fmt.Sprintf("\n---\n{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {%s}}", name, cmp.Or(in.Service, "ports: [{port: 80}]"))
	if in.Other != nil {
		text += in.Other.objects(t, "other", in.Host)
	}
	return text
}

func asYAML(t *testing.T, object any) string {
	t.Helper()
	content := must.Get(yaml.Marshal(object))(t)
	return string(content)
}

// TestSuite translates the cases of ingress-nginx's own end-to-end suite that are about answers (testdata/suite.tsv).
// The outcome is the same as with nginx, or a difference that a note or a page names, or a refusal that a note names.
func TestSuite(t *testing.T) {
	content := must.Get(os.ReadFile("testdata/suite.tsv"))(t)
	page := must.Get(os.ReadFile(page))(t)
	flags := must.Get(os.ReadFile("../../../docs/reference/ingress-nginx-flags.md"))(t)
	counts := map[string]int{}
	for line := range strings.Lines(string(content)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 5 {
			t.Fatalf("a line has %d fields: %s", len(fields), line)
		}
		name, verdict, wants := fields[0], fields[2], strings.Split(fields[4], " & ")
		counts[verdict]++
		t.Run(name, func(t *testing.T) {
			var in suiteInput
			must.Do(t, yaml.UnmarshalStrict([]byte(fields[3]), &in))
			text := in.objects(t, "web", "a.test")
			for name, data := range map[string]map[string]string{"controller": in.C, "headers": in.Headers} {
				text += fmt.Sprintf("\n---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: %s}", name, asJSON(t, data))
			}
			result := convertText(t, strings.TrimPrefix(text, "\n---"))
			made, notes, closed := madeOf(t, result), "", false
			for _, note := range result.Notes {
				notes, closed = notes+note.String()+"\n", closed || note.Closes() || strings.Contains(strings.ToLower(note.Text), "requests get 500")
			}
			if isRefused := verdict == "refused"; closed != isRefused && verdict != "page" {
				t.Errorf("paths are refused: %v, want %v; notes:\n%s\nmade:\n%s", closed, isRefused, notes, made)
			}
			where := map[string]string{"same": made, "named": notes, "refused": notes, "page": string(page), "flag": string(flags)}[verdict]
			for i, want := range wants {
				if i > 0 {
					where = made
				}
				want, isAbsent := strings.CutPrefix(want, "!")
				if strings.Contains(where, want) == isAbsent {
					t.Errorf("%q is there: %v; notes:\n%s\nmade:\n%s", want, isAbsent, notes, made)
				}
			}
		})
	}
	t.Log("cases: ", counts)
}

func asJSON(t *testing.T, content any) string {
	t.Helper()
	text := must.Get(json.Marshal(content))(t)
	return string(text)
}

// madeOf has a line for each rule, with its listeners, filters and answer, and one for each other object.
func madeOf(t *testing.T, result *Result) string {
	t.Helper()
	var text strings.Builder
	for _, rule := range flatten(result) {
		fmt.Fprintf(&text, "%v %s -> %s %s %s\n", rule.parents, rule.path(), rule.answer(), asJSON(t, rule.HTTPRouteRule), asJSON(t, rule.extension))
	}
	for i, object := range result.Objects {
		fmt.Fprintf(&text, "%d: %s\n", i, asJSON(t, object))
	}
	return text.String()
}
