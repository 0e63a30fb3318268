package admission

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
)

var update = flag.Bool("update", false, "write gatewayapi.json instead of comparing with it")

// TestGatewayAPISchemas: the schemas come from the experimental channel of the Gateway API that go.mod names. That
// channel has all fields.
func TestGatewayAPISchemas(t *testing.T) {
	schemas := channel(t, "experimental")
	for _, kind := range slices.Concat(gatewayAPIKinds[gatewayv1.GroupName], gatewayAPIKinds[v1alpha1.GroupName]) {
		if schemas[kind] == nil {
			t.Errorf("there is no CRD of %s", kind)
		}
	}
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	must.Do(t, encoder.Encode(schemas))
	if *update {
		if err := os.WriteFile("gatewayapi.json", want.Bytes(), 0o644); err != nil { //nolint:gosec // as the others
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(gatewayAPI, want.Bytes()) {
		t.Error("gatewayapi.json is of another version: run the test with -update")
	}
}

// channel returns the schemas of a channel of the Gateway API that go.mod names, by kind.
func channel(t *testing.T, name string) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	module := must.Get(exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api").Output())(t)
	files := must.Get(filepath.Glob(filepath.Join(strings.TrimSpace(string(module)), "config", "crd", name, "gateway.networking.*.yaml")))(t)
	schemas := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // of the module
		if err != nil {
			t.Fatal(err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		must.Do(t, yaml.Unmarshal(content, definition))
		kind, version := definition.Spec.Names.Kind, "v1"
		if definition.Spec.Group == v1alpha1.GroupName {
			version = v1alpha1.GroupVersion.Version
		}
		if schema := schemaOf(definition, version); schema.Properties != nil && slices.Contains(gatewayAPIKinds[definition.Spec.Group], kind) {
			delete(schema.Properties, "status")
			withoutDescriptions(reflect.ValueOf(schema))
			schemas[kind] = schema
		}
	}
	return schemas
}

// TestExperimentalFields: the fields are those that the experimental channel has and the standard one lacks.
func TestExperimentalFields(t *testing.T) {
	standard, found := channel(t, "standard"), map[string][]string{}
	for kind, schema := range channel(t, "experimental") {
		if slices.Contains(gatewayAPIKinds[gatewayv1.GroupName], kind) {
			if fields := lacking(schema, standard[kind], ""); len(fields) > 0 {
				found[kind] = fields
			}
		}
	}
	if !reflect.DeepEqual(found, experimental) {
		t.Errorf("the channels differ in %v, and not in %v", found, experimental)
	}
}

// lacking returns the fields, sorted, that one schema has and the other lacks.
func lacking(has, lacks *apiextensionsv1.JSONSchemaProps, at string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(has.Properties)) {
		field, of := strings.TrimPrefix(at+"."+name, "."), has.Properties[name]
		if other, ok := lacks.Properties[name]; ok {
			all = append(all, lacking(&of, &other, field)...)
		} else {
			all = append(all, field)
		}
	}
	if has.Items != nil && lacks.Items != nil {
		all = append(all, lacking(has.Items.Schema, lacks.Items.Schema, at+"[]")...)
	}
	return all
}

// TestExperimental: fields of the experimental channel are found where an object has them.
func TestExperimental(t *testing.T) {
	object := parse(t, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: r}, spec: {rules: [
  {backendRefs: [{name: s, port: 80}]}, {sessionPersistence: {}, filters: [{type: CORS}, {type: ExternalAuth, externalAuth: {}}]}]}}`)
	want := []string{"spec.rules[1].filters[1].externalAuth", "spec.rules[1].sessionPersistence"}
	if found := Experimental(object); !slices.Equal(found, want) {
		t.Errorf("%q, want %q", found, want)
	}
}

// withoutDescriptions removes the descriptions of a schema and of all schemas in it.
func withoutDescriptions(value reflect.Value) {
	switch value.Kind() { //nolint:exhaustive // nothing else has schemas in it
	case reflect.Pointer:
		if !value.IsNil() {
			withoutDescriptions(value.Elem())
		}
	case reflect.Slice:
		for i := range value.Len() {
			withoutDescriptions(value.Index(i))
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			if schema, ok := value.MapIndex(key).Interface().(apiextensionsv1.JSONSchemaProps); ok {
				withoutDescriptions(reflect.ValueOf(&schema))
				value.SetMapIndex(key, reflect.ValueOf(schema))
			}
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if value.Type() == reflect.TypeFor[apiextensionsv1.JSONSchemaProps]() && value.Type().Field(i).Name == "Description" {
				value.Field(i).SetString("")
				continue
			}
			withoutDescriptions(value.Field(i))
		}
	}
}

// TestGatewayAPI is about what the CRDs of the Gateway API refuse, and set.
func TestGatewayAPI(t *testing.T) {
	const route = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: r, namespace: demo}, spec: {rules: [RULE]}}`
	for rule, want := range map[string]string{
		`{backendRefs: [{name: s, port: 80}]}`:                                                                                "",
		`{retry: {attempts: 2}, backendRefs: [{name: s, port: 80}]}`:                                                          "",
		`{backendRefs: [{name: s, port: 80, weight: -5}]}`:                                                                    "spec.rules[0].backendRefs[0].weight",
		`{filters: [{type: URLRewrite, urlRewrite: {hostname: a.test}}, {type: URLRewrite, urlRewrite: {hostname: b.test}}]}`: "URLRewrite filter cannot be repeated",
		`{filters: [{type: URLRewrite, urlRewrite: {hostname: "http://a.test"}}]}`:                                            "urlRewrite.hostname",
		`{filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}], backendRefs: [{name: s, port: 80}]}`:          "RequestRedirect filter must not be used together with backendRefs",
		`{backendRef: [{name: s, port: 80}]}`:                                                                                 "unknown field",
	} {
		err := Admit(parse(t, strings.Replace(route, "RULE", rule, 1)))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", rule, err, want)
		}
	}
	object := parse(t, strings.Replace(route, "RULE", "{backendRefs: [{name: s, port: 80}]}", 1))
	if err := Admit(object); err != nil || !strings.Contains(mustJSON(t, object.Object), `"weight":1`) {
		t.Errorf("the defaults are missing: %v, %v", object.Object, err)
	}
	class := parse(t, `{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: c}, spec: {controllerName: example.net/c}}`)
	if err := Admit(class); err != nil {
		t.Error(err)
	}
}

func mustJSON(t *testing.T, object any) string {
	t.Helper()
	content := must.Get(json.Marshal(object))(t)
	return string(content)
}
