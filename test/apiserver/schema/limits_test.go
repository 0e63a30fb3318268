package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// repeat formats the numbers from first on and joins the results as a YAML flow list does.
func repeat(n int, format string, first int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = format
		if strings.Contains(format, "%") {
			items[i] = fmt.Sprintf(format, first+i)
		}
	}
	return strings.Join(items, ", ")
}

// Listener names of 63 characters.
var longest = strings.Repeat("l", 60)

// valid are Gateways at the limits, which the API server must admit and etcd store: nothing the schema allows may fail
// for what its rules cost, and the largest useful objects fit.
var valid = []struct{ why, name, spec string }{
	{"the least there can be", "a", http + "}"},
	{"a name of 55 characters", strings.Repeat("a", 55), http + "}"},
	{"no replicas", "", http + ", replicas: 0}"},
	{"100 replicas", "", http + ", replicas: 100}"},
	{"64 listeners on different ports", "", "spec: {listeners: [" + repeat(64, "{name: l%d, port: %[1]d, protocol: HTTP}", 1) + "]}"},
	{"64 listeners on one port with long hostnames", "",
		"spec: {listeners: [" + repeat(64, "{name: "+longest+"%03d, port: 80, protocol: HTTP, hostname: l%[1]d"+
			strings.Repeat(".label-of-a-hostname", 12)+"}", 1) + "]}"},
	{"the same hostname on two ports, and a port with and without", "",
		"spec: {listeners: [{name: a, port: 80, protocol: HTTP, hostname: a.b}, {name: b, port: 81, protocol: HTTP, hostname: a.b}," +
			"{name: c, port: 80, protocol: HTTP}]}"},
	{"4096 routes with a hostname, two paths and two backends", "",
		http + ", routes: [" + repeat(4096, "{name: route-%d, hostnames: [shop-%[1]d.example.com], rules: ["+
			"{matches: [{path: {value: /api}}], backendRefs: [{name: api, port: 80}]}, {backendRefs: [{name: shop, port: 80}]}]}", 1) + "]}"},
	{"4096 routes that name two of 64 listeners each", "",
		"spec: {listeners: [" + repeat(64, "{name: "+longest+"%03d, port: %[1]d, protocol: HTTP}", 1) + "], routes: [" +
			repeat(4096, "{name: r%d, listeners: ["+longest+"063, "+longest+"064], rules: [{backendRefs: [{name: a, port: 80}]}]}", 1) + "]}"},
	{"512 routes that name 16 of 64 listeners each", "",
		"spec: {listeners: [" + repeat(64, "{name: l%d, port: %[1]d, protocol: HTTP}", 1) + "], routes: [" +
			repeat(512, "{name: r%d, listeners: ["+repeat(16, "l%d", 49)+"], rules: [{}]}", 1) + "]}"},
	{"64 hostnames, 64 rules, 64 matches, 16 backends", "",
		route + ", hostnames: [" + repeat(64, "'*.h%d.example.com'", 1) + "], rules: [" +
			repeat(64, "{matches: ["+repeat(64, "{path: {type: Exact, value: /%d}}", 1)+"], backendRefs: ["+
				repeat(16, "{name: b%d, port: 80}", 1)+"]}", 1) + "]}]}"},
	{"a path of 1024 characters", "", match + "{value: /" + strings.Repeat("a", 1023) + "}}]}]}]}"},
	{"weights at their limits", "", ref + "{name: a, port: 65535, weight: 0}, {name: b, port: 1, weight: 1000000}]}]}]}"},
	{"names of 63 characters", "", "spec: {listeners: [{name: " + longest + "lll, port: 65535, protocol: HTTP}], routes: [{name: " +
		longest + "rrr, listeners: [" + longest + "lll], rules: [{backendRefs: [{name: " + longest + "bbb, port: 80}]}]}]}"},
	{"resources", "", deploy + "{limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 100m, memory: 1Gi}}}}"},
	{"every kind of path character", "", match + "{value: \"/a-._~!$&'()*+,;=:@%20%C3%A4/...\"}}]}]}]}"},
	{"a prefix with a slash at the end", "", match + "{value: /a/}}]}]}]}"},
}

func TestValid(t *testing.T) {
	for i, c := range valid {
		t.Run(c.why, func(t *testing.T) {
			t.Parallel()
			if c.name == "" {
				c.name = fmt.Sprintf("valid-%d", i)
			}
			o := object(t, c.name, c.spec)
			for _, labels := range []map[string]string{nil, {"applied": "again"}} {
				o.SetLabels(labels)
				// As kubectl apply --server-side does; the owner of every field is stored, too.
				options := metav1.ApplyOptions{FieldManager: "kubectl", Force: true}
				applied, err := server.Dynamic.Resource(gateways).Namespace("default").Apply(t.Context(), c.name, o, options)
				if err != nil {
					t.Fatalf("the API server refuses it: %s", abridged(err.Error()))
				}
				t.Logf("%d bytes", size(t, applied))
			}
		})
	}
}

// TestTooLarge shows what a user meets whose object is within every limit but too large for etcd, which stores 1.5 MiB.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	spec := http + ", routes: [" + repeat(2048, "{name: r%d, rules: [{matches: [{path: {value: /"+strings.Repeat("a", 1000)+"}}]}]}", 1) + "]}"
	_, err := create(t.Context(), object(t, "too-large", spec), false)
	if err == nil || !strings.Contains(err.Error(), "larg") {
		t.Errorf("a Gateway of 2 MB: got error %v, want one that says it is too large", err)
	}
}

func size(t *testing.T, object *unstructured.Unstructured) int {
	t.Helper()
	b, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}
