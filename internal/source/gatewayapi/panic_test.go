package gatewayapi_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"gateway/internal/model"
	"gateway/internal/source/gatewayapi"
)

const panicking = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: web, namespace: web}
spec: {listeners: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: both, namespace: web, generation: 1}
spec:
  parentRefs: [{group: app.example.com, name: web}]
  rules:
  - {matches: [{path: {value: /good}}], backendRefs: [{name: good, port: 80}]}
  - {matches: [{path: {value: /bad}}], backendRefs: [{name: good, port: 80}, {name: bad, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other, namespace: web}
spec:
  parentRefs: [{group: app.example.com, name: web}]
  rules: [{backendRefs: [{name: good, port: 80}]}]
`

// TestAPanicStaysWithItsRule: the rule is refused, at its own matches, and its status says so. All others go on. When
// what it refers to changes, it is translated anew.
func TestAPanicStaysWithItsRule(t *testing.T) {
	objects := parseAll(t, []byte(strings.TrimPrefix(panicking, "\n")))
	objects.Namespaces = map[string]labels.Set{}
	faulty := true
	objects.Service = func(_, name string) (*corev1.Service, bool) {
		if faulty && name == "bad" {
			panic("a bug")
		}
		return &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}, true
	}
	rulesOf := func(result *gatewayapi.Result) (all []model.Rule) {
		t.Helper()
		for route := range result.Planes[gatewayapi.OwnParent("web", "web")].Routes.Values() {
			all = append(all, route.Rules...)
		}
		if len(all) != 3 {
			t.Fatalf("got the rules %+v", all)
		}
		return all
	}
	index := gatewayapi.NewIndex(objects)
	all := rulesOf(index.Result())
	const message = "this is a bug, please report it: panic: a bug, at source/gatewayapi_test.TestAPanicStaysWithItsRule.func"
	for i, rule := range all {
		if isBad := i == 1; isBad != strings.HasPrefix(rule.Refused, message) || isBad != (len(rule.Backends) == 0) || len(rule.Matches) != 1 {
			t.Errorf("rule %d is %+v", i, rule)
		}
	}
	if path := all[1].Matches[0].Path; path != "/bad" {
		t.Errorf("the refused rule is for %s", path)
	}
	status := index.Result().Status(nil, allLive{}).Routes[gatewayapi.Object{Kind: "HTTPRoute", Namespace: "web", Name: "both"}]
	if last := status[0].Conditions[len(status[0].Conditions)-2]; last.Type != "PartiallyInvalid" || !strings.Contains(last.Message, "rules[1]: "+message) {
		t.Errorf("the status is %+v", status)
	}

	faulty = false
	index.ChangeService("web", "bad")
	if all = rulesOf(index.Result()); all[1].Refused != "" || len(all[1].Backends) != 2 {
		t.Errorf("rule 1 is %+v", all[1])
	}
}
