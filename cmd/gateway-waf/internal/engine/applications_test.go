package engine_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/must"
	"gateway/internal/waf"
)

// application is a harmless request of one. Each line of headers is one.
type application struct{ method, uri, headers, body string }

// request returns it with usual headers.
func (a application) request() *engine.Request {
	r := &engine.Request{Method: a.method, URI: a.uri, Version: "HTTP/1.1", Client: "192.0.2.1", Body: []byte(a.body), Headers: []engine.Header{
		{Name: "host", Value: "shop.example.com"}, {Name: "user-agent", Value: "Mozilla/5.0"}, {Name: "accept", Value: "*/*"},
	}}
	if a.body != "" || a.method != "GET" {
		r.Headers = append(r.Headers, engine.Header{Name: "content-length", Value: fmt.Sprint(len(a.body))})
	}
	for line := range strings.Lines(a.headers) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		r.Headers = append(r.Headers, engine.Header{Name: strings.ToLower(name), Value: value})
	}
	return r
}

const (
	ofJSON = "Content-Type: application/json"
	ofFile = "Content-Type: application/octet-stream"
	upload = "Content-Type: multipart/form-data; boundary=X"
)

func uploaded(name string) string {
	return "--X\r\nContent-Disposition: form-data; name=\"f\"; filename=\"" + name + "\"\r\nContent-Type: text/plain\r\n\r\nabc\r\n--X--\r\n"
}

// applications are requests for the rows of the page.
var applications = map[string][]application{
	"PUT, PATCH, DELETE: REST APIs, WebDAV": {
		{"PATCH", "/users/5", ofJSON, `{"name":"Anna"}`}, {"DELETE", "/users/5", "", ""}, {"PROPFIND", "/dav/", "Content-Type: application/xml\nDepth: 1", `<?xml version="1.0"?><propfind xmlns="DAV:"><allprop/></propfind>`},
	},
	"bodies that are no forms, JSON or XML: files, CSV, NDJSON, YAML, OTLP, gRPC": {
		{"POST", "/up", ofFile, everyByte}, {"POST", "/up", "Content-Type: text/csv", "name,age\nAnna,5\n"}, {"POST", "/_bulk", "Content-Type: application/x-ndjson", "{\"index\":{}}\n{\"f\":1}\n"},
		{"POST", "/up", "Content-Type: application/yaml", "a: 1\nb: 2\n"}, {"POST", "/v1/traces", "Content-Type: application/x-protobuf", everyByte[:500]}, {"POST", "/a.B/C", "Content-Type: application/grpc\nTE: trailers", everyByte[:500]},
	},
	"JSON of other types, such as `application/vnd.api+json`": {{"POST", "/articles", "Content-Type: application/vnd.api+json", `{"data":{"type":"articles"}}`}},
	"S3, container registries, the Kubernetes API": {
		{"PUT", "/bucket/key", ofFile + "\nX-Amz-Content-Sha256: UNSIGNED-PAYLOAD", everyByte[:500]}, {"PATCH", "/v2/app/blobs/uploads/x", ofFile, everyByte[:500]},
		{"PUT", "/v2/app/manifests/latest", "Content-Type: application/vnd.oci.image.manifest.v1+json", `{"schemaVersion":2}`},
		{"PATCH", "/apis/apps/v1/namespaces/d/deployments/x", "Content-Type: application/apply-patch+yaml", "kind: Deployment\nmetadata: {name: x}\n"},
	},
	"bodies without `Content-Type`":  {{"POST", "/up", "", "abc"}},
	"GET with a body: Elasticsearch": {{"GET", "/_search", ofJSON, `{"query":{"match_all":{}}}`}},
	"git": {
		{"GET", "/group/app.git/info/refs?service=git-upload-pack", "Git-Protocol: version=2", ""},
		{"POST", "/group/app.git/git-upload-pack", "Content-Type: application/x-git-upload-pack-request\nContent-Encoding: gzip", everyByte[:500]},
	},
	"Prometheus remote write":                      {{"POST", "/api/v1/write", "Content-Type: application/x-protobuf\nContent-Encoding: snappy", everyByte[:500]}},
	"`/package.json`, `/.git/`, `/.env`":           {{"GET", "/react/package.json", "", ""}, {"GET", "/a/.git/config", "", ""}, {"GET", "/.env", "", ""}},
	"downloads of `.sql`, `.config`, `.bak`":       {{"GET", "/dump.sql", "", ""}, {"GET", "/app.config", "", ""}, {"GET", "/a.bak", "", ""}},
	"`X-HTTP-Method-Override`, `Content-Encoding`": {{"POST", "/a", ofJSON + "\nX-HTTP-Method-Override: PUT", `{"a":1}`}, {"POST", "/a", ofFile + "\nContent-Encoding: gzip", everyByte[:500]}},
	"other charsets":                               {{"POST", "/a", ofJSON + ";charset=iso-8859-7", `{"a":1}`}, {"POST", "/a", "Content-Type: text/xml;charset=us-ascii", `<a>b</a>`}},
	"the way back from a login at Google":          {{"GET", "/callback?state=abc&code=4%2F0AbCdEf&scope=email+https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fuserinfo.profile+openid", "", ""}},
	"an OAuth client at `localhost`":               {{"GET", "/authorize?redirect_uri=http%3A%2F%2Flocalhost%3A8080%2Fcb", "", ""}},
	"GraphQL with variables":                       {{"POST", "/graphql", ofJSON, `{"query":"query($first: Int!) { users(first: $first) { id } }","variables":{"first":5}}`}},
	"OData":                                        {{"GET", "/odata/Users?$top=5&$filter=Age%20gt%205", "", ""}},
	"webhooks to IP addresses":                     {{"POST", "/hooks", ofJSON, `{"url":"http://10.0.0.5/hook"}`}},
	"uploads such as `Tom's.jpg`":                  {{"POST", "/up", upload, uploaded("Tom's.jpg")}},
	"uploads of PHP":                               {{"POST", "/up", upload, uploaded("a.php")}},
	"WordPress: the block editor": {
		{"POST", "/wp-json/wp/v2/posts/67", ofJSON + "\nX-HTTP-Method-Override: PUT", `{"id":67,"content":"<!-- wp:paragraph -->\n<p>Text</p>\n<!-- /wp:paragraph -->"}`},
		{"POST", "/wp-json/wp/v2/global-styles/9", ofJSON + "\nX-HTTP-Method-Override: PUT", `{"styles":{"blocks":{"core/post-date":{"typography":{"fontFamily":"var(--wp--preset--font-family--serif)"}}}}}`},
	},
	"HTML":                                  {{"POST", "/a", ofJSON, `{"html":"<h1 style=\"color: red\">Title</h1><p>Text</p>"}`}},
	"Markdown with commands":                {{"POST", "/a", ofJSON, `{"text":"Run this:\n\n    cat /etc/hosts\n"}`}, {"POST", "/a", ofJSON, `{"text":"` + "```sh\\ncat /etc/hosts\\n```" + `\n"}`}, {"POST", "/a", ofJSON, `{"text":"Log in; cat /etc/hosts"}`}},
	"templates such as `Dear ${name}`":      {{"POST", "/a", ofJSON, `{"text":"Dear ${name}, hello"}`}},
	"texts such as `; select by id`":        {{"POST", "/a", ofJSON, `{"text":"Fix the list; select by id"}`}},
	"patterns such as `[a-z]{2,}`":          {{"POST", "/a", ofJSON, `{"text":"^[a-z]{2,}$"}`}},
	"paths such as `C:\\Windows\\System32`": {{"POST", "/a", ofJSON, `{"text":"C:\\Windows\\System32"}`}},
}

var (
	rowPattern      = regexp.MustCompile(`(?m)^\| (.+) \| ((?:[0-9]{6}|of ` + "`[^`]+`" + `|[, ])+) \|$`)
	excludedPattern = regexp.MustCompile(`([0-9]{6})(?: of ` + "`([^`]+)`" + `)?`)
)

// TestApplications: each request of the page is refused, and passes with what its row excludes. No row excludes more.
func TestApplications(t *testing.T) {
	e := must.Get(engine.New())(t)
	page := must.Get(os.ReadFile("../../../../docs/features/waf.md"))(t)
	left := maps.Clone(applications)
	for _, row := range rowPattern.FindAllStringSubmatch(string(page), -1) {
		settings, wanted := waf.Settings{Paranoia: 1, Threshold: 5}, map[int]bool{}
		for _, found := range excludedPattern.FindAllStringSubmatch(row[2], -1) {
			id, _ := strconv.Atoi(found[1])
			one := waf.Exclusion{Rule: int32(id), Name: found[2]}
			if one.Name != "" {
				one.Target = waf.Argument
			}
			settings.Excluded, wanted[id] = append(settings.Excluded, one), true
		}
		if len(applications[row[1]]) == 0 {
			t.Errorf("no request tries %q", row[1])
		}
		delete(left, row[1])
		found := map[int]bool{}
		for _, one := range applications[row[1]] {
			before, err := e.Judge(waf.Settings{Paranoia: 1, Threshold: 5}, one.request())
			if err != nil || !before.Denied {
				t.Errorf("%s: %s %s passes as it is: %+v, %v", row[1], one.method, one.uri, before, err)
			}
			for _, id := range before.Rules {
				found[id] = true
			}
			if after, err := e.Judge(settings, one.request()); err != nil || after.Denied || len(after.Rules) > 0 {
				t.Errorf("%s: %s %s is refused: %+v, %v", row[1], one.method, one.uri, after, err)
			}
		}
		if !maps.Equal(found, wanted) {
			t.Errorf("%s: rules %v find something, and the page excludes %v", row[1], slices.Sorted(maps.Keys(found)), slices.Sorted(maps.Keys(wanted)))
		}
	}
	for name := range left {
		t.Errorf("the page has no row %q", name)
	}
}
