package command_test

import (
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// TestCheckRules: render --check names the line of a bad WAF rule before it is applied.
func TestCheckRules(t *testing.T) {
	t.Parallel()
	const gateway = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: shop, namespace: shop}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: shop, rules: [{filters: [{type: WAF, waf: {rulesRef: {name: shop-rules}}}], backendRefs: [{name: web, port: 80}]}]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: shop-rules, namespace: shop}
data:
  rules.conf: |
    # What browsers do not send
    SecRule REQUEST_HEADERS:User-Agent "@streq badbot" "id:1000,phase:1,deny"
`
	check := func(content string) clitest.Result {
		return clitest.Run(t, "", "render", "--check", "-f", clitest.WriteFile(t, "shop.yaml", content))
	}
	check(gateway).Want(t, 0)
	check(gateway+`    SecRule ARGS "a" "id:1001,deny,status:404"`).Want(t, 3,
		"ConfigMap shop/shop-rules: rules.conf: line 3: the action status: requests that are refused get 403")
}
