package haproxytest

import (
	"strings"

	"gateway/internal/haproxy/ir"
)

// ShowMatches adds a rule for tests to a configuration: answers say in the header Matched by which listener, route and
// rule the request was routed.
func ShowMatches(files map[string][]byte) map[string][]byte {
	const section, rule = "\ndefaults routing from common\n", `    http-after-response set-header Matched "%[var(txn.hosts),field(1,|/)] %[var(txn.hit),field(2,|)] %[var(txn.hit),field(3,|)]"` + "\n"
	files[ir.ConfigFile] = []byte(strings.Replace(string(files[ir.ConfigFile]), section, section+rule, 1))
	return files
}
