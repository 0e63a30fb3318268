package appv1_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gateway/internal/model"
)

// TestRefusedBackends: where an entry with tls may have a typo, nothing is sent in plain text to what it may be meant
// for.
func TestRefusedBackends(t *testing.T) {
	const tls = "tls: {caCertificateRefs: [{name: ca}], hostname: a.internal}"
	for name, test := range map[string]struct {
		backends string
		// want are the Service ports that are refused.
		want string
	}{
		"the entry fits":                      {"{name: shop, port: 8443, " + tls + "}", ""},
		"its name is wrong":                   {"{name: shpo, port: 8443, " + tls + "}", "shop:8443"},
		"its port is wrong":                   {"{name: shop, port: 443, " + tls + "}", "shop:80 shop:8443"},
		"another Service has the same port":   {"{name: cart, port: 8443, " + tls + "}", ""},
		"another version of a Service has it": {"{name: shop2, port: 8443, " + tls + "}", ""},
		"a sign is missing in its name":       {"{name: shp, port: 8443, " + tls + "}", "shop:8443"},
		"a sign of its name is another":       {"{name: shup, port: 8443, " + tls + "}", "shop:8443"},
		"its name goes on":                    {"{name: shops, port: 8443, " + tls + "}", "shop:8443"},
		"it has nothing that is referred to":  {"{name: cart, port: 443, " + tls + "}", ""},
		"a TCP route may be meant":            {"{name: bd, port: 5432, " + tls + "}", "db:5432"},
		"one fits, twice, and one not":        {"{name: shop, port: 8443, " + tls + "}, {name: bd, port: 5432, " + tls + "}", "db:5432"},
		"who decides may be meant":            {"{name: lgin, port: 4180, " + tls + "}", "login:4180"},
		"TLS is passed through":               {"{name: vualt, port: 8200, " + tls + "}", ""},
		"it has no tls":                       {"{name: shpo, port: 8443, proxyProtocol: V2}", ""},
		"what has an entry is not meant":      {"{name: shpo, port: 8443, " + tls + "}, {name: shop, port: 8443, proxyProtocol: V2}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := translate(t, `
listeners: [{name: http, port: 80, protocol: HTTP}, {name: tcp, port: 81, protocol: TCP}, {name: tls, port: 82, protocol: TLS, tls: {mode: Passthrough}}]
routes: [{name: r, rules: [{backendRefs: [{name: shop, port: 80, weight: 0}, {name: shop, port: 8443}, {name: shop, port: 8443}],
  filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: login, port: 4180}}}]}]}]
tcpRoutes: [{name: t, listeners: [tcp], rules: [{backendRefs: [{name: db, port: 5432}]}]}]
tlsRoutes: [{name: s, listeners: [tls], rules: [{backendRefs: [{name: vault, port: 8200}]}]}]
backends: [`+test.backends+`]
`)
			var refused []string
			for _, backend := range slices.SortedFunc(maps.Keys(got.Policies), model.CompareBackends) {
				if got.Policies[backend].Refused != "" {
					refused = append(refused, fmt.Sprintf("%s:%d", backend.Service, backend.Port))
				}
			}
			if refused := strings.Join(refused, " "); refused != test.want {
				t.Errorf("%q is refused, want %q", refused, test.want)
			}
			if told := len(got.Problems) == 1 && got.Problems[0].Reason == model.ReasonUnusedBackend; told != (test.want != "") {
				t.Errorf("got the problems %+v", got.Problems)
			}
		})
	}
}
