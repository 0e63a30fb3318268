package dataplanetest_test

import (
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

const longPathsWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - matches: [{path: {value: /plain}}]
          backendRefs: [{name: plain, port: 80}]
        - matches: [{path: {value: /header}, headers: [{name: X-A, value: "1"}]}]
          backendRefs: [{name: header, port: 80}]
        - matches: [{path: {type: Exact, value: /}}]
          backendRefs: [{name: exact, port: 80}]
backends:
  - {service: plain, port: 80, servers: ["127.0.0.1:1"]}
  - {service: header, port: 80, servers: ["127.0.0.1:1"]}
  - {service: exact, port: 80, servers: ["127.0.0.1:1"]}
`

// TestLongPaths: a path is as long as maxHeaderBytes lets it be, where no condition needs it. One that has to be
// decoded is shorter, and is checked to its end all the same.
func TestLongPaths(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, longPathsWorld))
	c := newClient(t, g.ports[80])
	many := func(piece string, size int) string { return strings.Repeat(piece, size/len(piece)) }
	for name, test := range map[string]struct {
		path   string
		status int
	}{
		"plain":                             {"/plain/" + many("a", 16000), 200},
		"plain, in segments":                {"/plain" + many("/0123456789", 16000), 200},
		"beyond maxHeaderBytes":             {"/plain/" + many("a", 16400), 431},
		"encoded":                           {"/plain/" + many("%C3%A4", 10800), 200},
		"encoded, characters of paths":      {"/plain/" + many("%2F%3B", 10800), 200},
		"slashes in a row":                  {"/plain/" + many("//;", 10800), 200},
		"longer":                            {"/plain/" + many("%C3%A4", 11000), 400},
		"not encoded":                       {"/plain/" + many("|", 3100), 200},
		"not encoded, longer":               {"/plain/" + many("a", 3300) + "|", 400},
		"two dots at the end":               {"/plain/" + many("a", 16000) + "/..", 400},
		"two encoded dots at the end":       {"/plain/" + many("%C3%A4", 10800) + "/%2e%2E", 400},
		"two dots after what grows most":    {"/plain/" + many(";", 10800) + "%C3/..;a", 400},
		"a backslash at the end":            {"/plain/" + many("%C3%A4", 10800) + "%5c", 400},
		"NUL at the end":                    {"/plain/" + many("%C3%A4", 10800) + "%00", 400},
		"where a header matters":            {"/header/" + many("a", 14000), 404},
		"where a header matters, longer":    {"/header/" + many("a", 15500), 400},
		"where a header matters, encoded":   {"/header/" + many("%41", 10800), 404},
		"of no route":                       {"/other/" + many("a", 16000), 404},
		"of an exact path but for its end":  {many("/", 10800) + "a", 404},
		"of an exact path, slashes in rows": {many("/", 10800), 200},
	} {
		if got := c.send(get("shop.example.com", test.path)); got.Status != test.status {
			t.Errorf("%s: got %d, want %d", name, got.Status, test.status)
		}
	}
	if got := c.send("GET /header/" + many("a", 14000) + " HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n\r\n"); got.Header.Get("Backend") != "header" {
		t.Errorf("with the header: got %d from %q", got.Status, got.Header.Get("Backend"))
	}
}
