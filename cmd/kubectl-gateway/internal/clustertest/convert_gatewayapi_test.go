package clustertest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// TestGatewayAPIExamplesAreAdmitted converts the examples that come with the Gateway API: the API server admits what becomes of them.
func TestGatewayAPIExamplesAreAdmitted(t *testing.T) {
	module, err := gatewayAPI()
	if err != nil {
		t.Fatal(err)
	}
	gateways := 0
	err = filepath.WalkDir(filepath.Join(module, "examples"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yaml" {
			return err
		}
		converted := clitest.Run(t, "", "convert", "-f", path)
		if converted.Out == "" {
			return nil
		}
		gateways++
		t.Run(filepath.Base(path), func(t *testing.T) { admit(t, converted.Out) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if gateways < 20 {
		t.Errorf("Gateways were made of %d examples only", gateways)
	}
}

// TestAnyHTTPRouteIsAdmitted converts HTTPRoutes that have odd values wherever the Gateway API allows any.
func TestAnyHTTPRouteIsAdmitted(t *testing.T) {
	type object = map[string]any
	for _, value := range []string{
		"", "*", "A_b", "-1", " a", "a b", "a\nb", "äöü", "%", "%zz", "(", "[a-z]{1,99}", `"`, "Host", "te", "/", "/ok", "/a//b", "/../x", "/%2F", "/%00", "/ä",
		"/a?b#c", strings.Repeat("/long", 300), strings.Repeat("x", 200),
	} {
		t.Run(fmt.Sprintf("%.20q", value), func(t *testing.T) {
			filter := func(kind, field string, content object) object {
				return object{"filters": []object{{"type": kind, field: content}}, "sessionPersistence": object{"sessionName": value}}
			}
			headers := object{"set": []object{{"name": "x", "value": value}}, "add": []object{{"name": value, "value": "x"}}, "remove": []string{value}}
			full, prefix := object{"type": "ReplaceFullPath", "replaceFullPath": value}, object{"type": "ReplacePrefixMatch", "replacePrefixMatch": value}
			rules := []object{
				filter("RequestHeaderModifier", "requestHeaderModifier", headers), filter("ResponseHeaderModifier", "responseHeaderModifier", headers),
				filter("RequestRedirect", "requestRedirect", object{"path": full}), filter("URLRewrite", "urlRewrite", object{"path": prefix}),
				filter("CORS", "cors", object{"allowOrigins": []string{"http://" + value, "https://A-b.example"}, "allowHeaders": []string{value}, "exposeHeaders": []string{value}}),
			}
			for _, kind := range []string{"Exact", "PathPrefix", "RegularExpression"} {
				rules = append(rules, object{"matches": []object{{"path": object{"type": kind, "value": value}}}})
			}
			for _, kind := range []string{"Exact", "RegularExpression"} {
				match := []object{{"type": kind, "name": "x", "value": value}, {"type": kind, "name": value, "value": "x"}}
				rules = append(rules, object{"matches": []object{{"headers": match[:1]}, {"headers": match[1:]}, {"queryParams": match[:1]}, {"queryParams": match[1:]}}})
			}
			listener := object{"name": "http", "port": 80, "protocol": "HTTP"}
			content, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": []object{
				{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": object{"name": "any"}, "spec": object{"listeners": []object{listener}}},
				{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": object{"name": "any"}, "spec": object{"parentRefs": []object{{"name": "any"}}, "rules": rules}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			converted := clitest.Run(t, string(content), "convert", "-f", "-")
			if converted.Out == "" {
				t.Fatal(converted.Err)
			}
			admit(t, converted.Out)
		})
	}
}
