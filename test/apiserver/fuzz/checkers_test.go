package fuzz

import (
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/testtier"
)

// TestCheckers: what the checks of TestAdmittedGateways are there to find, they find.
func TestCheckers(t *testing.T) {
	good := "global\n    log stdout\n\ndefaults common\n    mode http\n\nfrontend metrics from common\n    bind :8404\n"
	if err := checkConfig([]byte(good)); err != nil {
		t.Error(err)
	}
	for why, bad := range map[string]string{
		"a section":                    good + "\nbackend evil\n    mode http\n",
		"a section twice":              good + "\ndefaults common\n    mode http\n",
		"a directive":                  good + "    stick-table type ip size 1\n",
		"a directive elsewhere":        good + "    server a 127.0.0.1:1\n",
		"a rule":                       good + "    http-request lua.evil\n",
		"a line that is not indented":  good + "http-request deny\n",
		"a line that is indented less": good + "   http-request deny\n",
		"a line of white space":        good + " \n",
		"a section missing":            strings.Replace(good, "defaults common\n    mode http\n", "", 1),
	} {
		if checkConfig([]byte(bad)) == nil {
			t.Errorf("%s is not found in\n%s", why, bad)
		}
	}
	for _, bad := range []string{"a\tb\n", "a\r\n", "a\x00b\n", "ä\n", "no end"} {
		if checkText("file", []byte(bad)) == nil {
			t.Errorf("nothing is found in %q", bad)
		}
	}
	for _, bad := range []ir.MapEntry{{Key: "a"}, {Value: "a"}, {Key: "#a", Value: "b"}, {Key: "a b", Value: "c"}, {Key: "a", Value: "b c"},
		{Key: "a", Value: "b\nc d"}, {Key: "a", Value: strings.Repeat("b", maxEntry)}} {
		if checkMap("map", []ir.MapEntry{bad}, []byte(bad.Key+" "+bad.Value+"\n")) == nil {
			t.Errorf("nothing is found in %.50q", bad)
		}
	}
	for _, bad := range []string{"/a/tls.pem\n", "/a/tls.pem [ssl-min-ver TLSv1.0] a\n", "/a/tls.pem [ssl-min-ver TLSv1.2] a [b]\n",
		"/a/tls.pem [ssl-min-ver TLSv1.2 verify none] a\n", "# a b\n", "/etc/passwd a\n", "/a/tls.pem [ssl-min-ver TLSv1.2] #\n"} {
		if checkCertificates("list", []byte(bad)) == nil {
			t.Errorf("nothing is found in %q", bad)
		}
	}
}

// TestText: the strings made for a pattern match it, and some are hostile.
func TestText(t *testing.T) {
	schema := object{"type": "string", "pattern": `^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`, "maxLength": 128.,
		"anyOf": []any{object{"pattern": "^a sentence$"}, object{"not": object{"pattern": "(?i)^[a-z]$"}}}}
	w := wants(schema)
	r := testtier.Rand(t)
	seen, bad := map[string]bool{}, 0
	for range 2000 {
		s := text(r, w)
		if !w.admits(s) {
			t.Fatalf("%q does not fit", s)
		}
		if len(s) == 1 && s > "9" {
			t.Fatalf("%q is one that the schema excepts", s)
		}
		seen[s] = true
		if isHostile(s) {
			bad++
		}
	}
	if len(seen) < 500 || bad < 100 {
		t.Errorf("of 2000 strings, %d are different and %d hostile", len(seen), bad)
	}
}
