package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/login"
	"gateway/internal/passwords"
)

// policy is what is done to each request, by a Gateway and by lines of haproxy.cfg and nginx.conf that do the same.
type policy struct {
	name string
	// filter is that of the rules of a Gateway, in YAML, and edit a sed script that goes over what is rendered for it.
	// loadBalancing is that of its Services.
	filter, edit    string
	maxRequestBytes *int64
	loadBalancing   *appv1.LoadBalancing
	compression     *appv1.Compression
	// haproxy are lines of its frontend, nginx those of its http block. Without, it does not do it. sections are those
	// of haproxy.cfg, after its defaults, and balance is a line of its defaults.
	haproxy, nginx, sections, balance string
	// files are those that the lines name.
	files map[string]string
	// path, headers and body are those of requests, in place of the usual path and beside the usual headers.
	path    string
	headers []string
	body    string
}

const (
	usersSecret = "users"
	// passwordHash is one of SHA-512 that takes as little time as may be.
	passwordHash = "$6$rounds=1000$saltsalt$LAV5VE5Y7w1d73x1mFNspYWUpazfmwv2SoepNXNKJ/otop/Zok96Hr8Q13LEv0DRY/x8v0/crpIjl8NJSAqXV/"
	usersFile    = "alice:" + passwordHash + "\n"
	apiKey       = "0b6b3f4c9d0e4f21a7d8c5b2e1f09a36"
)

// policies returns those that are measured.
func policies() []policy { return append(accessPolicies(), trafficPolicies()...) }

// accessPolicies returns those that decide whether a request passes.
func accessPolicies() []policy {
	return []policy{
		{
			name: "a rate limit", filter: `{type: RateLimit, rateLimit: {limits: [{requests: 1000000, unit: Second}]}}`,
			haproxy: `
    stick-table type ip size 200k expire 2s store http_req_rate(1s)
    http-request track-sc0 src
    http-request deny deny_status 429 if { sc_http_req_rate(0) gt 1000000 }`,
			nginx: `
    limit_req_zone $binary_remote_addr zone=clients:10m rate=1000000r/s;
    limit_req zone=clients burst=1000 nodelay;`,
		},
		{
			name: "a rate limit of 2 pods", filter: `{type: RateLimit, rateLimit: {limits: [{requests: 1000000, unit: Second}]}}`,
			edit: fmt.Sprintf(`s/str\(ids\),map_str\([^)]*\)/&,bytes(0,%d)/`, 2*ir.PodIDSize),
		},
		{
			name: "1,000 denied ranges", filter: `{type: ClientAddress, clientAddress: {deny: [` + ranges("%s, ") + `]}}`,
			haproxy: `
    http-request deny deny_status 403 if { src -f {{.Dir}}/ranges }`,
			nginx: ranges("\n    deny %s;"),
			files: map[string]string{"ranges": ranges("%s\n")},
		},
		{
			name: "a question about each request", filter: `{type: ExternalAuth, externalAuth: {backendRef: {name: service-0, port: 80}, path: ` + checkPath + `}}`,
			nginx: `
    auth_request ` + checkPath + `;`,
		},
		keptAnswer(),
		{
			name: "a password", filter: `{type: BasicAuth, basicAuth: {secretRef: {name: ` + usersSecret + `}, realm: Shop}}`,
			haproxy: `
    http-request auth realm Shop unless { http_auth(users) }`,
			nginx: `
    auth_basic Shop;
    auth_basic_user_file {{.Dir}}/users;`,
			files:   map[string]string{"users": usersFile},
			headers: []string{"Authorization: Basic YWxpY2U6c2VjcmV0"}, // alice:secret
		},
		{
			name: "an API key", filter: `{type: APIKey, apiKey: {secretRef: {name: ` + usersSecret + `}, from: [{type: Header, name: X-API-Key}], clientHeader: X-Client}}`,
			haproxy: `
    http-request set-var(txn.client) req.fhdr(x-api-key),sha2(256),hex,map_str({{.Dir}}/api-keys)
    http-request deny deny_status 401 unless { var(txn.client) -m found }
    http-request del-header X-API-Key
    http-request set-header X-Client %[var(txn.client)]`,
			files:   map[string]string{"api-keys": passwords.Hash(apiKey) + " shop\n"},
			headers: []string{"X-API-Key: " + apiKey},
		},
		authorization(), token(jose.RS256), token(jose.ES256), session(),
		{
			name: "concurrent requests", filter: `{type: RateLimit, rateLimit: {concurrent: {requests: 1000}}}`,
			haproxy: `
    stick-table type ip size 200k expire 10s store conn_cur
    http-request track-sc0 src
    http-request deny deny_status 429 if { sc_conn_cur(0) gt 1000 }`,
			nginx: `
    limit_conn_zone $binary_remote_addr zone=connections:10m;
    limit_conn connections 1000;`,
		},
	}
}

// keptAnswer returns the policy of questions that are asked once.
func keptAnswer() policy {
	return policy{
		name: "a kept answer to such a question", filter: `{type: ExternalAuth, externalAuth: {backendRef: {name: service-0, port: 80}, path: ` + checkPath + `, cache: {}}}`,
		nginx: `
    proxy_cache_path {{.Dir}}/cache keys_zone=answers:10m;
    proxy_cache answers;
    proxy_cache_key $uri$http_authorization$http_cookie;
    auth_request ` + checkPath + `;`,
	}
}

// authorization returns the policy of three rules.
func authorization() policy {
	return policy{
		name: "three rules of access", filter: `{type: Authorization, authorization: {rules: [{action: Deny, paths: [/internal, /admin]}, ` +
			`{action: Deny, methods: [PUT, DELETE]}, {action: Allow, addresses: [127.0.0.0/8, 10.0.0.0/8]}]}}`,
		haproxy: `
    http-request deny deny_status 403 if { path_beg /internal /admin } or { method PUT DELETE } or !{ src 127.0.0.0/8 10.0.0.0/8 }`,
	}
}

// trafficPolicies returns those that change what becomes of a request.
func trafficPolicies() []policy {
	return []policy{
		{
			name: "20 KiB compressed", compression: &appv1.Compression{ContentTypes: []appv1.MediaType{"text/plain"}, MinBytes: new(int32)},
			haproxy: `
    compression algo-res gzip
    compression type-res text/plain`,
			nginx: `
    gzip on;
    gzip_types text/plain;`,
			path: textPath,
		},
		{
			name: "an answer from the cache", filter: `{type: Cache, cache: {}}`,
			sections: `
cache answers
    total-max-size 16
    max-age 60
`,
			haproxy: `
    http-request cache-use answers
    http-response cache-store answers`,
			nginx: `
    proxy_cache_path {{.Dir}}/cache keys_zone=answers:10m;
    proxy_cache answers;`,
			path: cachedPath,
		},
		{
			name: "a copy to another Service", filter: `{type: RequestMirror, requestMirror: {backendRefs: [{name: service-1, port: 80}]}}`,
			nginx: `
    mirror ` + checkPath + `;`,
		},
		{
			name:          "an endpoint by the client's address, with bounded load",
			loadBalancing: &appv1.LoadBalancing{Algorithm: appv1.LoadBalancingSourceIP, HashBalanceFactor: new(int32(150))},
			balance:       "balance source\n    hash-type consistent\n    hash-balance-factor 150",
		},
		{
			name: "a limit of 1 MiB, 1 KiB in chunks", maxRequestBytes: new(int64(1 << 20)),
			headers: []string{"Transfer-Encoding: chunked"}, body: "400\r\n" + strings.Repeat("x", 1<<10) + "\r\n0\r\n\r\n",
		},
		{
			name: "no limit, 1 KiB in chunks", haproxy: " ",
			headers: []string{"Transfer-Encoding: chunked"}, body: "400\r\n" + strings.Repeat("x", 1<<10) + "\r\n0\r\n\r\n",
		},
	}
}

// ranges returns ranges that no client is in, each in a format.
func ranges(format string) string {
	var all strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&all, format, fmt.Sprintf("10.%d.%d.0/24", i/250, i%250))
	}
	return all.String()
}

// sessionKey is the key of sessions.
const sessionKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

// session returns the policy of users who have logged in, with a session as a provider with a few claims makes it.
func session() policy {
	const issuer = "https://id.example.com"
	keys, _ := login.ParseKeys([]byte(sessionKey))
	later := time.Now().Add(24 * time.Hour)
	claims, err := login.Claims(map[string]json.RawMessage{
		"sub": json.RawMessage(`"0-385-28089-0"`), "email": json.RawMessage(`"alice@example.com"`), "email_verified": json.RawMessage("true"),
		"groups": json.RawMessage(`["staff", "admins"]`), "name": json.RawMessage(`"Alice"`),
	})
	must(err)
	sealed := keys.Seal(login.ForHAProxy, login.Settings{Issuer: issuer, ClientID: "shop", Secret: usersSecret}.SessionBinding(),
		[]byte(login.Session{End: later, Renew: later, Claims: claims}.Text()))
	return policy{
		name:    "a session",
		filter:  `{type: OIDC, oidc: {issuer: "` + issuer + `", clientID: shop, secretRef: {name: ` + usersSecret + `}, claimsToHeaders: [{claim: email, header: X-Email}]}}`,
		headers: []string{"Cookie: session=0123456789abcdef0123456789abcdef; " + login.SessionCookie + "=" + sealed},
	}
}

// token returns the policy that a request has to have a token that is signed by an algorithm.
func token(algorithm jose.SignatureAlgorithm) policy {
	var private crypto.Signer
	var err error
	if algorithm == jose.RS256 {
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	must(err)
	public := jose.JSONWebKey{Key: private.Public(), KeyID: "key", Algorithm: string(algorithm), Use: "sig"}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	must(err)
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	must(err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: private, KeyID: "key"}}, nil)
	must(err)
	signed, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: "https://id.example.com/", Audience: jwt.Audience{"shop"}, Subject: "alice", Expiry: jwt.NewNumericDate(time.Now().Add(24 * time.Hour)),
	}).Serialize()
	must(err)
	return policy{
		name:   "a token, " + string(algorithm),
		filter: `{type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: '` + string(keys) + `'}}]}}`,
		haproxy: `
    http-request set-var(txn.token) http_auth_bearer
    http-request set-var(txn.alg) var(txn.token),jwt_header_query('$.alg')
    http-request set-var(txn.exp) var(txn.token),jwt_payload_query('$.exp','int')
    http-request set-var(txn.now) date
    http-request deny deny_status 401 unless { var(txn.alg) -m str ` + string(algorithm) + ` } { var(txn.token),jwt_verify(txn.alg,{{.Dir}}/key.pem) -m int 1 }
    http-request deny deny_status 401 unless { var(txn.token),jwt_payload_query('$.iss') -m str https://id.example.com/ }
    http-request deny deny_status 401 unless { var(txn.token),jwt_payload_query('$.aud') -m str shop }
    http-request deny deny_status 401 if { var(txn.exp),sub(txn.now) lt 0 }`,
		files:   map[string]string{"key.pem": string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))},
		headers: []string{"Authorization: Bearer " + signed},
	}
}

// must ends the program where a constant or the source of random bytes is to blame.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// subjects returns who does it.
func (p *policy) subjects() []*subject {
	requests := requestsFor(10, 1)
	for i := range requests {
		requests[i].headers, requests[i].body = p.headers, p.body
		if p.path != "" {
			requests[i].path = p.path
		}
	}
	spec := appv1.GatewaySpec{Routes: plainRoutes(10, 1, services), Compression: p.compression}
	for i := range spec.Routes {
		rule := &spec.Routes[i].Rules[0]
		must(yaml.UnmarshalStrict([]byte("["+p.filter+"]"), &rule.Filters))
		rule.MaxRequestBytes = p.maxRequestBytes
	}
	for i := range services {
		spec.Backends = append(spec.Backends, appv1.Backend{Name: service(i), Port: 80, BackendSettings: appv1.BackendSettings{LoadBalancing: p.loadBalancing}})
	}
	all := []*subject{{name: p.name + ": Gateway", proxy: gateway(p.name, spec, p.edit)}}
	for _, file := range []written{{file: "haproxy.cfg", policy: p.haproxy, sections: p.sections, defaults: p.balance}, {file: "nginx.conf", policy: p.nginx}} {
		if file.policy != "" || file.defaults != "" {
			file.files = p.files
			all = append(all, &subject{name: p.name + ": " + file.file, proxy: file.proxy()})
		}
	}
	for _, s := range all {
		s.baseline, s.protocol, s.requests = static, plain, requests
	}
	return all
}
