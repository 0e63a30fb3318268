package admission

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
)

// TestAdmit is about what the API server does beside refusing: package clustertest compares what both refuse.
func TestAdmit(t *testing.T) {
	gateway := parse(t, `{apiVersion: app.example.com/v1, kind: Gateway, metadata: {name: a, namespace: b, creationTimestamp: null, uid: c},
		spec: {replicas: null, listeners: [{name: http, port: 80, protocol: HTTP}],
		routes: [{name: r, rules: [{matches: [{}], backendRefs: [{name: s, port: 80}]}]}]}, status: {whatever: 1}}`)
	must.Do(t, Admit(gateway))
	rule, _, _ := unstructured.NestedSlice(gateway.Object, "spec", "routes")
	want := parse(t, `{name: r, rules: [{matches: [{path: {type: PathPrefix, value: /}}], backendRefs: [{name: s, port: 80, weight: 1}]}]}`).Object
	if !reflect.DeepEqual(rule[0], want) {
		t.Errorf("got %v, want %v", rule[0], want)
	}
	if replicas, _, _ := unstructured.NestedInt64(gateway.Object, "spec", "replicas"); replicas != 2 {
		t.Errorf("replicas: %v, want the default", replicas)
	}
	if status, _, _ := unstructured.NestedInt64(gateway.Object, "status", "whatever"); status != 1 {
		t.Errorf("the status is gone: %v", gateway.Object)
	}
	gateway.Object["spec"].(map[string]any)["listeners"] = []any{}
	if err := Admit(gateway); err == nil || !strings.Contains(err.Error(), "spec.listeners") {
		t.Errorf("no listener: %v", err)
	}
}

// TestProxyHeadersNeedTrustedProxies: a GatewayConfig does not close all connections by a field that is forgotten.
func TestProxyHeadersNeedTrustedProxies(t *testing.T) {
	for spec, want := range map[string]string{
		"{proxyProtocol: Any}":                                  "spec.trustedProxies",
		"{proxyProtocol: Any, trustedProxies: []}":              "spec.trustedProxies",
		"{proxyProtocol: Any, trustedProxies: [10.0.0.0/8]}":    "",
		"{proxyProtocol: V2, trustedProxies: [10.0.0.0/8]}":     "spec.proxyProtocol",
		"{tls: {minVersion: TLSv1.3, hsts: {preload: true}}}":   "",
		"{tls: {minVersion: TLSv1.1, cipherProfile: Anything}}": "spec.tls.minVersion",
	} {
		err := Admit(parse(t, "{apiVersion: app.example.com/v1, kind: GatewayConfig, metadata: {name: a, namespace: b}, spec: "+spec+"}"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", spec, err, want)
		}
	}
}

// TestOrder: the problems of an object are named in one order, each time. The API server's code walks maps.
func TestOrder(t *testing.T) {
	const text = `{apiVersion: app.example.com/v1, kind: Gateway, metadata: {name: a, namespace: b}, spec: {replicas: two, drainTimeout: 3, a: 1, b: 1,
		compression: {types: 1}, listeners: [{name: http, port: no, protocol: 1, tls: 4}], routes: [{name: 1, hostnames: 2, rules: 3}]}}`
	want := Admit(parse(t, text)).Error()
	for range 50 {
		if got := Admit(parse(t, text)).Error(); got != want {
			t.Fatalf("got\n%s\nafter\n%s", got, want)
		}
	}
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	content := must.Get(yaml.YAMLToJSON([]byte(text)))(t)
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal(content, &object.Object); err != nil { // which has integers, as files have
		t.Fatal(err)
	}
	return object
}
