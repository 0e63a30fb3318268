package agent

import (
	"fmt"
	"strings"
	"testing"

	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// TestNamesBelowAWildcardOfAnotherType: an ECDSA wildcard has 2,000 RSA certificates for names below it. As many are
// served as HAProxy can read exceptions in the wildcard's line. The others are reported, and the wildcard goes on.
// Names that have an ECDSA certificate too, and names of other ports, do not count. The oldest is served, whatever its
// name.
func TestNamesBelowAWildcardOfAnotherType(t *testing.T) {
	c := collector{material: material{certificates: map[string][]render.Certificate{}}}
	table := routing.Table{}
	add := func(name string, port int32, hostname string, keyTypes ...string) {
		table.Listeners = append(table.Listeners, routing.Listener{Name: name, Port: port, Hostname: hostname, TLS: &model.ListenerTLS{}})
		for _, keyType := range keyTypes {
			c.certificates[name] = append(c.certificates[name], render.Certificate{Secret: name + keyType, Names: []string{hostname}, KeyType: keyType})
		}
	}
	add("wild", 443, "*.apps.example.com", "ECDSA")
	for i := range 2000 {
		add(fmt.Sprint("rsa-", i), 443, fmt.Sprintf("n%d.apps.example.com", i), "RSA")
	}
	add("old", 443, "zz-old.apps.example.com", "RSA")
	for i := range table.Listeners {
		if one := &table.Listeners[i]; one.Name != "old" {
			one.Since = 7
		}
	}
	add("both", 443, "zz.apps.example.com", "RSA", "ECDSA")
	add("elsewhere", 8443, "zz.apps.example.com", "RSA")
	c.limitExceptions(&table)
	bytes, served := 0, 0
	for i := range 2000 {
		if c.certificates[fmt.Sprint("rsa-", i)] != nil {
			served++
			bytes += len(fmt.Sprintf(" !n%d.apps.example.com", i))
		}
	}
	if served < 400 || bytes > mostExceptionBytes {
		t.Errorf("%d names are served, with exceptions of %d bytes, want at most %d bytes", served, bytes, mostExceptionBytes)
	}
	if len(c.problems) != 2000-served || !strings.Contains(c.problems[0].Message, "*.apps.example.com") {
		t.Errorf("%d names are not served, and there are %d problems, such as %+v", 2000-served, len(c.problems), c.problems[0])
	}
	for _, name := range []string{"wild", "old", "both", "elsewhere"} {
		if c.certificates[name] == nil {
			t.Errorf("listener %s has no certificate", name)
		}
	}
}
