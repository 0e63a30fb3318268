package agent

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// decisionsFilters are each of a rule for the path of its number.
const decisionsFilters = `
- {type: ClientAddress, clientAddress: {deny: [127.0.0.0/8]}}
- {type: ClientAddress, clientAddress: {allow: [127.0.0.0/8]}}
- {type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour}]}}
- {type: BasicAuth, basicAuth: {secretRef: {name: users}}}
- {type: BasicAuth, basicAuth: {secretRef: {name: none}}}
- {type: JWT, jwt: {issuers: [{issuer: me, audiences: [shop], keys: {inline: 'KEYS'}}], clockSkew: 30s}}
- {type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [X-Want]}}
- {type: CORS, cors: {allowOrigins: ["*"]}}
`

// issue returns a key set and a token.
func issue(t *testing.T) (keys, token string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	point := must.Get(key.PublicKey.Bytes())(t)
	encode := base64.RawURLEncoding.EncodeToString
	set := must.Get(json.Marshal(map[string]any{"keys": []map[string]string{
		{"kty": "EC", "kid": "a", "alg": "ES256", "crv": "P-256", "x": encode(point[1:33]), "y": encode(point[33:])},
	}}))(t)
	text := encode([]byte(`{"alg":"ES256","kid":"a"}`)) + "." + encode(fmt.Appendf(nil, `{"iss":"me","aud":"shop","exp":%d}`, time.Now().Add(time.Hour).Unix()))
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return string(set), text + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// newDecisionsRig returns a rig with users, a Service that is asked about requests, and the rules of decisionsFilters.
// The next rules are for small bodies, from few clients, from all, and with a redirect. The last ones have a filter in
// shadow.
func newDecisionsRig(t *testing.T, keys string) *tlsRig {
	t.Helper()
	r := newTLSRig(t)
	r.options.Mounts.Users = []string{"users", "none"}
	r.options.Paths.UsersSocket = filepath.Join(r.options.Paths.RunDir, "users.sock")
	r.secrets.Put(map[string][]byte{"users/auth": []byte("alice:" + hashOf(t, "secret"))})
	r.serveUsers()
	r.createService("auth")
	r.createSlice("auth", "one", newEndpointFunc(t, func(w http.ResponseWriter, request *http.Request) {
		switch request.Header.Get("X-Want") {
		case "":
			w.WriteHeader(http.StatusFound)
		case "broken":
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	var filters []appv1.RuleFilter
	r.must(yaml.UnmarshalStrict([]byte(strings.ReplaceAll(decisionsFilters, "KEYS", keys)), &filters))
	spec := r.spec("api")
	add := func(filters ...appv1.RuleFilter) *appv1.RouteRule {
		rule := spec.Routes[0].Rules[0].DeepCopy()
		rule.Matches[0].Path.Value = fmt.Sprint("/", len(spec.Routes[0].Rules))
		rule.Filters = filters
		spec.Routes[0].Rules = append(spec.Routes[0].Rules, *rule)
		return &spec.Routes[0].Rules[len(spec.Routes[0].Rules)-1]
	}
	for _, filter := range filters {
		add(filter)
	}
	add(filters[1], filters[2]).MaxRequestBytes = new(int64(3))
	add(filters[1]).MaxRequestBytes = new(int64(100_000)) // more than HAProxy sees at a time
	moved := add(appv1.RuleFilter{Type: appv1.RuleFilterRequestRedirect, RequestRedirect: &appv1.RequestRedirect{Hostname: "new.example.com", StatusCode: new(int32(301))}})
	moved.MaxRequestBytes, moved.BackendRefs = new(int64(3)), nil
	add(filters[0]).Shadow = []appv1.ShadowFilter{"ClientAddress"}
	add(filters[4]).Shadow = []appv1.ShadowFilter{"BasicAuth"}
	r.start(spec)
	r.expectAs(http.StatusOK, "/4", "alice", "secret")
	return r
}

// decided returns the counters of what filters decided that are not 0.
func decided(t *testing.T) map[string]int {
	t.Helper()
	counters := map[string]int{}
	for line := range strings.Lines(exposed()) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), "} "); ok && strings.HasPrefix(series, "gateway_filter_") {
			count, err := strconv.Atoi(value)
			if err != nil {
				t.Error(err)
			}
			if count > 0 {
				counters[series+"}"] = count
			}
		}
	}
	return counters
}

// TestDecisions: what filters decided is counted by rule, each request once. The access log names the filter that
// stopped a request.
func TestDecisions(t *testing.T) {
	keys, token := issue(t)
	r := newDecisionsRig(t, keys)
	want, logged := decided(t), []string{}
	for _, test := range []struct {
		rule           int
		header, body   string
		status         int
		filter, result string
	}{
		{0, "", "", 200, "", ""},
		{8, "", "", 200, "", ""},
		{1, "", "", 403, "ClientAddress", "denied"},
		{2, "", "", 200, "", "allowed"},
		{3, "", "", 200, "", "allowed"},
		{3, "", "", 200, "", "allowed"},
		{3, "", "", 429, "RateLimit", "denied"},
		{3, "", "", 429, "RateLimit", "denied"},
		{4, "Authorization: Basic YWxpY2U6c2VjcmV0", "", 200, "", "allowed"},
		{4, "", "", 401, "BasicAuth", "denied"},
		{5, "Authorization: Basic YWxpY2U6c2VjcmV0", "", 503, "BasicAuth", "failed"},
		{6, "Authorization: Bearer " + token, "", 200, "", "allowed"},
		{6, "Authorization: Bearer " + token + "A", "", 401, "JWT", "denied"},
		{6, "", "", 401, "JWT", "denied"},
		{7, "X-Want: it", "", 200, "", "allowed"},
		{7, "", "", 302, "ExternalAuth", "denied"},
		{7, "X-Want: broken", "", 503, "ExternalAuth", "failed"},
		{9, "", "four", 413, "maxRequestBytes", "denied"},
		{9, "", "one", 200, "", "allowed"},
		{9, "", "one", 429, "RateLimit", "denied"},
		{10, chunked, strings.Repeat("a", 200_000), 413, "maxRequestBytes", "denied"},
		{10, chunked, "one", 200, "", "allowed"},
		{10, "", "one", 200, "", "allowed"},
		{11, chunked, "one", 301, "", "allowed"},
		{12, "", "", 200, "", "allowed"},
		{12, "", "", 200, "", "allowed"},
		{13, "", "", 200, "", "allowed"},
	} {
		if got := r.send(test.rule, test.header, test.body); got != test.status {
			t.Errorf("%+.50v: got %d", test, got)
		}
		if test.result != "" {
			want[fmt.Sprintf(`gateway_filter_requests_total{filter=%q,result=%q,route="api",route_namespace=%q,rule="%d"}`, test.filter, test.result, namespace, test.rule)]++
		}
		logged = append(logged, fmt.Sprintf(`%d %d %s`, test.status, test.rule, cmp.Or(test.filter, "-")))
		r.expectLogged(logged)
	}
	const at = `route="api",route_namespace="` + namespace + `"`
	want[`gateway_filter_shadow_requests_total{filter="ClientAddress",result="denied",`+at+`,rule="12"}`] = 2
	want[`gateway_filter_shadow_requests_total{filter="BasicAuth",result="failed",`+at+`,rule="13"}`] = 1
	if got := decided(t); !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
	// A reload counts from 0.
	r.edit(r.reloading("api", "auth"))
	r.eventually("nothing is counted", func() error {
		if got := decided(t); len(got) > 0 {
			return fmt.Errorf("counted %v", got)
		}
		return nil
	})
}

// chunked is for a body that does not say how long it is.
const chunked = "Transfer-Encoding: chunked"

// send sends a request for the path of a rule, and returns the status.
func (r *rig) send(rule int, header, body string) int {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/%d", r.port, rule), strings.NewReader(body))
	r.must(err)
	if name, value, ok := strings.Cut(header, ": "); ok {
		request.Header.Set(name, value)
	}
	if header == chunked {
		request.ContentLength = -1
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	r.must(err)
	r.must(response.Body.Close())
	return response.StatusCode
}

// expectLogged waits for the last lines of the access log: the status, rule and filter of each.
func (r *rig) expectLogged(want []string) {
	r.t.Helper()
	r.eventually("the log has the requests", func() error {
		var got []string
		for line := range strings.Lines(r.haproxy.Log()) {
			var l struct {
				Method, Rule, Filter string
				Status               int
			}
			if json.Unmarshal([]byte(line), &l) == nil && l.Method == http.MethodPost {
				got = append(got, fmt.Sprintf("%d %s %s", l.Status, l.Rule, l.Filter))
			}
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("it has %q, want %q", got, want)
		}
		return nil
	})
}
