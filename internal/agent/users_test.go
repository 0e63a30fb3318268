package agent

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/passwords"
	"gateway/internal/routing"
	"gateway/internal/tree"
	"gateway/internal/unixsocket"
)

// hashOf returns what htpasswd -B writes.
func hashOf(t *testing.T, password string) string {
	t.Helper()
	h := must.Get(bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost))(t)
	return string(h)
}

// getAs returns the status for a user.
func (r *tlsRig) getAs(path, user, password string) (int, error) {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", r.port, path), http.NoBody)
	if err != nil {
		return 0, err
	}
	request.SetBasicAuth(user, password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

func (r *tlsRig) expectAs(status int, path, user, password string) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("%s gets %d for %s", user, status, path), func() error {
		got, err := r.getAs(path, user, password)
		if err == nil && got != status {
			err = fmt.Errorf("got %d", got)
		}
		return err
	})
}

// serveUsers answers questions about users, as gateway-keys does.
func (r *tlsRig) serveUsers() {
	r.t.Helper()
	listener, err := unixsocket.Listen(r.options.Paths.UsersSocket)
	r.must(err)
	ended := make(chan error, 1)
	go func() { ended <- r.users.Serve(r.t.Context(), listener) }()
	r.t.Cleanup(func() { r.must(<-ended) })
}

// TestAPIKeys: an edit of a Secret is live without a reload, and a reload changes no keys. What is wrong is reported.
func TestAPIKeys(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	r.options.Mounts.Users = []string{"partners"}
	put := func(lines ...string) {
		r.secrets.Put(map[string][]byte{"partners/api-keys": []byte(strings.Join(lines, "\n"))})
	}
	put("shop:"+passwords.Hash("one"), "shop:two")
	spec := r.spec("api")
	spec.Routes[0].Rules[0].Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterAPIKey, APIKey: &appv1.APIKey{
		SecretRef: appv1.ObjectReference{Name: "partners"}, From: []appv1.CredentialSource{{Type: appv1.CredentialQueryParam, Name: "key"}},
	}}}
	r.start(spec)
	r.expectStatus("/api?key=one", 200)
	r.expectStatus("/api?key=two", 401)
	r.expectProblems(" Secret/partners Secret " + namespace + "/partners: some keys in api-keys cannot be used: line 2 has no SHA-256")
	running := r.process()
	put("shop:" + passwords.Hash("two"))
	r.expectStatus("/api?key=two", 200)
	r.expectStatus("/api?key=one", 401)
	r.expectProblems()
	r.expectNoReload(running)
	spec.TrustedProxies = []appv1.CIDR{"10.0.0.0/8"}
	r.expectReport(r.edit(spec), "")
	r.expectStatus("/api?key=two", 200)
	put("# nobody")
	r.expectStatus("/api?key=two", 503)
	r.expectProblems(" Secret/partners Secret " + namespace + "/partners: api-keys holds no key")
	put("shop:" + passwords.Hash("two"))
	r.expectStatus("/api?key=two", 200)
}

// TestUsers: an edit of a Secret is live without a reload. What is wrong with it is reported, and lets nobody in.
func TestUsers(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	r.options.Mounts.Users = []string{"users", "none"}
	r.options.Paths.UsersSocket = filepath.Join(r.options.Paths.RunDir, "users.sock")
	r.serveUsers()
	put := func(content []byte) { r.secrets.Put(map[string][]byte{"users/auth": content}) }
	put([]byte("alice:" + hashOf(t, "secret")))
	spec := r.spec("api")
	closed := func(secret string) []appv1.RuleFilter {
		return []appv1.RuleFilter{{Type: appv1.RuleFilterBasicAuth, BasicAuth: &appv1.BasicAuth{SecretRef: appv1.ObjectReference{Name: secret}}}}
	}
	spec.Routes[0].Rules[0].Filters = closed("users")
	r.start(spec)
	r.expectProblems()
	r.expectStatus("/api", 401)
	r.expectAs(200, "/api", "alice", "secret")
	running := r.process()

	put([]byte("alice:" + hashOf(t, "other") + "\nbob:unreadable"))
	r.expectAs(200, "/api", "alice", "other")
	r.expectAs(401, "/api", "alice", "secret")
	r.expectAs(401, "/api", "bob", "unreadable")
	r.expectProblems(" Secret/users Secret " + namespace + "/users: some users in auth cannot log in: line 2 has a hash")
	put(nil)
	r.expectAs(503, "/api", "alice", "other")
	r.expectProblems(" Secret/users Secret " + namespace + "/users: it does not exist or has no auth")
	put([]byte("alice:" + hashOf(t, "secret")))
	r.expectAs(200, "/api", "alice", "secret")
	r.expectProblems()

	spec.Routes[0].Rules[0].Filters = closed("none")
	generation := r.edit(spec)
	r.expectAs(503, "/api", "alice", "secret")
	r.expectProblems(" Secret/none Secret " + namespace + "/none: it does not exist or has no auth")
	r.expectReport(generation, "")
	// A Secret that this pod does not mount is for another pod.
	spec.Routes[0].Rules[0].Filters = closed("new")
	r.edit(spec)
	r.expectAs(503, "/api", "alice", "secret")
	r.expectReport(generation, "Secret "+namespace+"/new is not mounted")
	r.expectNoReload(running)
}

// TestIssuers: a Secret for logins has to name the provider that it is for.
func TestIssuers(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	r.options.Mounts.Users = []string{"login"}
	r.options.Paths.LoginSocket = filepath.Join(r.options.Paths.RunDir, "login.sock")
	put := func(file, content string) { r.secrets.Put(map[string][]byte{"login/" + file: []byte(content)}) }
	spec := r.spec("api")
	login := func(issuer string) []appv1.RuleFilter {
		return []appv1.RuleFilter{{Type: appv1.RuleFilterOIDC, OIDC: &appv1.OIDC{Issuer: issuer, ClientID: "shop", SecretRef: appv1.ObjectReference{Name: "login"}, Path: "/oauth2"}}}
	}
	spec.Routes[0].Rules[0].Filters = login("https://id.example.com")
	const secret = " Secret/login Secret " + namespace + "/login: "
	r.start(spec)
	r.expectProblems(secret + "it does not exist or has no session-keys")
	put("session-keys", strings.Repeat("ab", 32))
	r.expectProblems(secret + "it has no issuer: add this key with https://id.example.com, if client-secret is for that provider")
	put("issuer", "https://other.example.com")
	r.expectProblems(secret + "its issuer names another provider than https://id.example.com: client-secret is not sent there")
	put("issuer", "https://id.example.com\n")
	r.expectProblems()
	spec.Routes[0].Rules[0].Filters = login("https://evil.example.com")
	r.edit(spec)
	r.expectProblems(secret + "its issuer names another provider than https://evil.example.com: client-secret is not sent there")
	put("session-keys", strings.Repeat("ab", 32)+"\nx")
	r.expectProblems(secret+"its issuer names another provider", secret+"some keys in session-keys cannot be used: line 2 has not")
}

// TestIssuersOfFiles: files are judged as a pod judges a Secret.
func TestIssuersOfFiles(t *testing.T) {
	var files tree.Editor[model.SecretFile]
	files.Set("login", model.SecretFile{Secret: "login", File: certificates.SessionKeysFile, Issuer: "https://id.example.com"})
	table := routing.Table{Uses: routing.Uses{SecretFiles: files.Map()}}
	for issuer, want := range map[string]string{"": "has no issuer", "https://other.example.com": "names another provider", "https://id.example.com\n": ""} {
		secret := map[string][]byte{certificates.SessionKeysFile: []byte(strings.Repeat("ab", 32)), certificates.IssuerFile: []byte(issuer)}
		got := CheckFiles(&table, "shop", Files{"login": secret}, nil, time.Now()).Problems
		if (len(got) == 0) != (want == "") || want != "" && !strings.Contains(got[0].Message, want) {
			t.Errorf("%q: got %+v", issuer, got)
		}
	}
}
