package examples

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testbuild"

	"sigs.k8s.io/yaml"
)

// noExample are the fields without an example, by the beginning of their path, with the reason.
var noExample = map[string]string{
	"watch":                                                                  "it is for Gateways with routes of many namespaces",
	"namespaceBudget.routes":                                                 "no route attaches yet",
	"namespaceBudget.rules":                                                  "no route attaches yet",
	"namespaceBudget.expressions":                                            "no route attaches yet",
	"namespaceBudget.headerNames":                                            "no route attaches yet",
	"namespaceBudget.rateLimits":                                             "no route attaches yet",
	"namespaceBudget.listeners":                                              "no route attaches yet",
	"namespaceBudget.certificates":                                           "no route attaches yet",
	"namespaceBudget.concurrentQuestions":                                    "no route attaches yet",
	"namespaceBudget.concurrentWAFBodies":                                    "no route attaches yet",
	"namespaceBudget.concurrentBodies":                                       "no route attaches yet",
	"namespaceBudget.concurrentCopies":                                       "no route attaches yet",
	"allowedHostnames.ownership":                                             "no route attaches yet",
	"allowedHostnames.rules[].hostnames":                                     "no route attaches yet",
	"allowedHostnames.rules[].namespaces.names":                              "no route attaches yet",
	"listeners[].mandatory[].type":                                           "it is for Gateways of several teams",
	"listeners[].mandatory[].exceptions[].namespaces":                        "it is for Gateways of several teams",
	"listeners[].mandatory[].exceptions[].hostnames":                         "it is for Gateways of several teams",
	"listeners[].mandatory[].exceptions[].paths":                             "it is for Gateways of several teams",
	"listeners[].allowedRoutes.namespaces.from":                              "no route attaches yet",
	"listeners[].allowedRoutes.kinds[].group":                                "no route attaches yet",
	"listeners[].allowedRoutes.kinds[].kind":                                 "no route attaches yet",
	"routes[].rules[].backendRefs[].filters[].requestHeaderModifier.add":     "as in filters of a rule: request-headers.yaml",
	"routes[].rules[].backendRefs[].filters[].requestHeaderModifier.remove":  "as in filters of a rule: request-headers.yaml",
	"routes[].rules[].backendRefs[].filters[].responseHeaderModifier.add":    "as in filters of a rule: response-headers.yaml",
	"routes[].rules[].backendRefs[].filters[].responseHeaderModifier.remove": "as in filters of a rule: response-headers.yaml",
	"backends[].backup.kind":                                                 "it is for BackendPolicies: here, all are Services",
	"tlsRoutes[].rules[].backendRefs[].weight":                               "as in tcpRoutes: tcp.yaml",
}

// kubernetes are the fields whose types are from core/v1.
var kubernetes = map[string]bool{"allowedHostnames.rules[].namespaces.selector": true, "listeners[].allowedRoutes.namespaces.selector": true, "pods.affinity": true, "pods.tolerations[]": true, "pods.topologySpreadConstraints[]": true}

// listenerFilter are filters of listeners, which equal filters of rules.
const listenerFilter = "listeners[].filters[]"

// TestEveryField: there is an example for every field of the spec.
func TestEveryField(t *testing.T) {
	t.Parallel()
	used, excused := usedByExamples(t), map[string]bool{}
	leaves := schemaLeaves("", specSchema(t))
	if len(leaves) < 100 {
		t.Fatalf("the schema has %d fields, so it was not read right", len(leaves))
	}
	for _, leaf := range leaves {
		if strings.HasPrefix(leaf, listenerFilter) {
			continue
		}
		excuse := ""
		for prefix := range noExample {
			if leaf == prefix || strings.HasPrefix(leaf, prefix+"[]") {
				excuse, excused[prefix] = prefix, true
			}
		}
		switch {
		case excuse == "" && !used[leaf]:
			t.Errorf("no example has spec.%s", leaf)
		case excuse != "" && used[leaf]:
			t.Errorf("an example has spec.%s: take it out of the list of fields without", leaf)
		}
	}
	if !used[listenerFilter+".type"] {
		t.Errorf("no example has filters of a listener")
	}
	for prefix := range noExample {
		if !excused[prefix] {
			t.Errorf("the schema has no field spec.%s: take it out of the list", prefix)
		}
	}
}

// TestEveryValue: there is an example for every value of a field that has a few, such as a kind of filter.
func TestEveryValue(t *testing.T) {
	t.Parallel()
	used, excused := usedByExamples(t), map[string]bool{}
	for _, value := range schemaValues("", specSchema(t)) {
		if strings.HasPrefix(value, listenerFilter) {
			continue
		}
		field, _, _ := strings.Cut(value, "=")
		excused[field], excused[value] = true, true
		if noValue[field] == "" && noValue[value] == "" && !used[value] {
			t.Errorf("no example has spec.%s", value)
		}
	}
	for value := range noValue {
		if !excused[value] {
			t.Errorf("the schema has no spec.%s: take it out of the list", value)
		}
	}
}

// noValue are fields, or fields with a value, of which not every value needs an example, with the reason.
var noValue = map[string]string{
	"watch":                             "no example has it",
	"allowedHostnames.ownership":        "no route attaches yet",
	"routes[].rules[].matches[].method": "one is like another",
	"routes[].rules[].filters[].cors.allowMethods[]":         "one is like another",
	"routes[].rules[].filters[].requestRedirect.statusCode":  "one is like another",
	"routes[].rules[].retry.codes[]":                         "one is like another",
	"routes[].rules[].backendRefs[].filters[].type":          "backend-headers.yaml has the two that are admitted",
	"errorPages[].statuses[]":                                "one is like another",
	"service.type":                                           "Kubernetes documents them",
	"service.externalTrafficPolicy":                          "Kubernetes documents them",
	"service.ipFamilyPolicy":                                 "Kubernetes documents them",
	"backends[].backup.kind":                                 "it is for BackendPolicies: here, all are Services",
	"backends[].proxyProtocol=V1":                            "like V2, to the user",
	"backends[].loadBalancing.algorithm":                     "kubectl explain has them",
	"listeners[].httpsRedirect.statusCode":                   "one is like another",
	"listeners[].mandatory[].type":                           "it is for Gateways of several teams",
	"listeners[].shadow[]":                                   "as in rules: shadow.yaml",
	"listeners[].allowedRoutes.namespaces.from":              "no route attaches yet",
	"listeners[].allowedRoutes.kinds[].group":                "no route attaches yet",
	"listeners[].allowedRoutes.kinds[].kind":                 "no route attaches yet",
	"listeners[].tls.minVersion=TLSv1.2":                     "the default",
	"listeners[].tls.cipherProfile=Intermediate":             "the default",
	"listeners[].tls.clientValidation.mode=Optional":         "kubectl explain says it",
	"routes[].rules[].filters[].requestRedirect.scheme=http": "nobody should",
	"routes[].rules[].matches[].headers[].type=Exact":        "the default",
	"routes[].rules[].matches[].queryParams[].type=Exact":    "the default",
}

// usedByExamples are the fields that the examples have, and the fields with values.
func usedByExamples(t *testing.T) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	for _, example := range all(t) {
		for _, gateway := range example.Gateways() {
			addUsed(used, "", gateway.Object["spec"])
		}
	}
	return used
}

// specSchema is the schema of a Gateway's spec.
func specSchema(t *testing.T) map[string]any {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(testbuild.MustRoot(t), "artifacts", "crd", "app.example.com_gateways.yaml")))(t)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct{ Properties map[string]map[string]any }
				}
			}
		}
	}
	must.Do(t, yaml.Unmarshal(content, &crd))
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
}

// schemaLeaves returns the paths of the fields that have none below them, like routes[].name.
func schemaLeaves(path string, schema map[string]any) []string {
	return walk(path, schema, func(path string, _ map[string]any) []string { return []string{path} })
}

// schemaValues returns the fields with a list of values, each with each value, like listeners[].protocol=HTTP.
func schemaValues(path string, schema map[string]any) []string {
	return walk(path, schema, func(path string, schema map[string]any) []string {
		values, _ := schema["enum"].([]any)
		var all []string
		for _, value := range values {
			all = append(all, withValue(path, value))
		}
		return all
	})
}

func walk(path string, schema map[string]any, leaf func(path string, schema map[string]any) []string) []string {
	if kubernetes[path] {
		return nil
	}
	if items, ok := schema["items"].(map[string]any); ok {
		return walk(path+"[]", items, leaf)
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return leaf(path, schema)
	}
	var all []string
	for name, property := range properties {
		all = append(all, walk(join(path, name), property.(map[string]any), leaf)...)
	}
	slices.Sort(all)
	return all
}

// addUsed adds the paths of a value and of everything in it. Paths of texts and numbers are added with their value,
// too.
func addUsed(used map[string]bool, path string, value any) {
	used[path] = true
	switch value := value.(type) {
	case map[string]any:
		for name, field := range value {
			addUsed(used, join(path, name), field)
		}
	case []any:
		for _, item := range value {
			addUsed(used, path+"[]", item)
		}
	default:
		used[withValue(path, value)] = true
	}
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func withValue(path string, value any) string { return fmt.Sprint(path, "=", value) }
