package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/must"
	"gateway/internal/waf"
)

// send returns what becomes of a request with such types of its body, where all methods and types are allowed.
func send(t *testing.T, e *engine.Engine, uri, body string, types ...string) engine.Verdict {
	t.Helper()
	r := engine.Request{Method: "PUT", URI: uri, Version: "HTTP/1.1", Client: "192.0.2.1", Body: []byte(body), Headers: []engine.Header{
		{Name: "host", Value: "shop.example.com"}, {Name: "user-agent", Value: "Mozilla/5.0"}, {Name: "accept", Value: "*/*"}, {Name: "content-length", Value: fmt.Sprint(len(body))},
	}}
	for _, one := range types {
		r.Headers = append(r.Headers, engine.Header{Name: "content-type", Value: one})
	}
	settings := waf.Settings{Paranoia: 1, Threshold: 5}
	for _, id := range []int32{911100, 920420, 920340, 920640, 920470, 920480} {
		settings.Excluded = append(settings.Excluded, waf.Exclusion{Rule: id})
	}
	got := must.Get(e.Judge(settings, &r))(t)
	return got
}

// everyByte is a file with all bytes and most pairs of them, among them what begins and ends arguments and lines.
var everyByte = func() string {
	var text strings.Builder
	for i := range 3000 {
		text.WriteByte(byte(i * i / 7))
		text.WriteByte(byte(i))
	}
	return text.String()
}()

// TestTypesOfBodies: a body that is no form, JSON or XML is not taken for one, and an attack in the query is found all
// the same. One that is, is read as such, however its type is written, and so is one whose type is not clear.
func TestTypesOfBodies(t *testing.T) {
	e := must.Get(engine.New())(t)
	const attack = "1' UNION SELECT password FROM users--"
	const inQuery = "/x?q=1'%20UNION%20SELECT%20password%20FROM%20users--"
	for _, test := range []struct{ contentType, body string }{
		{"text/csv", "name,age\nAnna,5\n\"Tom; Ann\",7\n"}, {"text/csv; charset=utf-8; header=present", "a;b\r\n1;2\r\n"},
		{"application/x-ndjson", "{\"index\":{\"_index\":\"a\"}}\n{\"f\":1}\n"}, {"application/jsonl", "{\"a\":1}\n{\"a\":2}\n"}, {"application/json-seq", "\x1e{\"a\":1}\n"},
		{"application/apply-patch+yaml", "kind: Deployment\nmetadata: {name: x}\n"}, {"Application/YAML", "a: 1\nb: [x, y]\n"},
		{"text/plain", "milk; eggs & bread\n\"quotes\" (x)\n"}, {"text/markdown;charset=UTF-8", "# Title\n\nSome text & more.\n"}, {"application/graphql", "query {\n  me { id name }\n}\n"},
		{"application/x-protobuf", everyByte}, {"application/octet-stream", everyByte}, {"image/jpeg", everyByte}, {"application/zip", everyByte}, {"application/grpc", everyByte},
		{"application/x-git-upload-pack-request", "0014command=ls-refs\n0000"}, {"application/vnd.oci.image.layer.v1.tar+gzip", everyByte},
	} {
		if got := send(t, e, "/x", test.body, test.contentType); got.Denied || len(got.Rules) > 0 {
			t.Errorf("%s: got %+v", test.contentType, got)
		}
		if got := send(t, e, inQuery, test.body, test.contentType); !got.Denied || !slices.Contains(got.Rules, 942100) {
			t.Errorf("%s, with an attack in the query: got %+v", test.contentType, got)
		}
	}
	for _, types := range [][]string{
		{}, {""}, {"application/x-www-form-urlencoded"}, {"APPLICATION/x-www-form-URLENCODED ; charset=utf-8"}, {"\u00a0application/x-www-form-urlencoded"}, {" text/plain"},
		{"application/x-www-form-urlencoded, text/plain"}, {"text/plain, application/x-www-form-urlencoded"}, {"text/plain; a=b, application/x-www-form-urlencoded"},
		{"text/plain", "application/x-www-form-urlencoded"}, {"application/x-www-form-urlencoded", "text/plain"}, {"multipart/mixed; boundary=x"}, {"text"}, {"text/"}, {"text/plain/x"}, {"text/pl\u00e4in"}, {"*/*"},
	} {
		if got := send(t, e, "/x", "a="+attack, types...); !got.Denied || !slices.Contains(got.Rules, 942100) {
			t.Errorf("a form of %q: got %+v", types, got)
		}
	}
	for _, one := range []string{
		"application/json", "Application/JSON;charset=utf-8", "application/json , a", "text/json", "application/vnd.api+json", "application/merge-patch+json", "model/gltf+json", "application/csp-report", "application/cloudevents+json;a",
	} {
		if got := send(t, e, "/x", `{"a": [{"b": "`+attack+`"}]}`, one); !got.Denied || !slices.Contains(got.Rules, 942100) {
			t.Errorf("JSON of %q: got %+v", one, got)
		}
	}
	for _, one := range []string{"application/xml", "TEXT/xml; charset=utf-8", "application/soap+xml", "image/svg+xml", "application/atom+xml;type=entry"} {
		if got := send(t, e, "/x", "<a><b>"+attack+"</b></a>", one); !got.Denied || !slices.Contains(got.Rules, 942100) {
			t.Errorf("XML of %q: got %+v", one, got)
		}
	}
	// Some rules look at any body.
	if got := send(t, e, "/x", "x java.lang.Runtime.getRuntime().exec(1)", "text/plain"); !got.Denied {
		t.Errorf("a text with code of Java: got %+v", got)
	}
}
