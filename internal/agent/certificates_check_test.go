package agent

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/filters"
	"gateway/internal/inventory"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/waf"
)

func TestParseAuthority(t *testing.T) {
	one, two := certtest.NewAuthority(t), certtest.NewAuthority(t)
	both := slices.Concat([]byte("remark\n"), one.PEM, []byte("another\n"), two.PEM)
	if got := parseAuthority(both, nil); got.problem != "" || !bytes.Equal(got.pem, slices.Concat(one.PEM, two.PEM)) {
		t.Errorf("got %s, problem %q", got.pem, got.problem)
	}
	if got := parseAuthority([]byte("x"), nil); got.problem != "ca.crt holds no certificate" || got.pem != nil {
		t.Errorf("got %+v", got)
	}
}

func TestNamesWithin(t *testing.T) {
	tests := map[string]struct {
		hostname string
		names    []string
		want     []string
		ok       bool
	}{
		"any listener takes all":           {"", []string{"a.org", "*.b.org"}, []string{"a.org", "*.b.org"}, true},
		"also a certificate without names": {"", nil, nil, true},
		"a wildcard takes what is below, at any depth": {
			"*.example.com", []string{"*.example.com", "a.example.com", "a.b.example.com", "*.b.example.com", "example.com", "a.org", "xexample.com"},
			[]string{"*.example.com", "a.example.com", "a.b.example.com", "*.b.example.com"}, true,
		},
		"not its own parent":                   {"*.example.com", []string{"example.com", "*.com"}, nil, false},
		"an exact name":                        {"shop.example.com", []string{"a.org", "shop.example.com"}, []string{"shop.example.com"}, true},
		"an exact name that a wildcard covers": {"shop.example.com", []string{"*.example.com"}, []string{"shop.example.com"}, true},
		"a wildcard covers one label":          {"a.shop.example.com", []string{"*.example.com"}, nil, false},
		"a wildcard does not cover its parent": {"example.com", []string{"*.example.com"}, nil, false},
		"another name":                         {"shop.example.com", []string{"a.example.com"}, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, ok := namesWithin(test.hostname, test.names); ok != test.ok || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %t, want %q, %t", got, ok, test.want, test.ok)
			}
		})
	}
}

func tlsListener(name, hostname string, secrets ...string) routing.Listener {
	return routing.Listener{Name: name, Hostname: hostname, Protocol: "HTTPS", TLS: &routing.TLS{Secrets: secrets}}
}

func TestCollect(t *testing.T) { //nolint:funlen // what goes in, and all that comes out
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	file := func(from, until time.Time, names ...string) certificateFile {
		return certificateFile{Certificate: inventory.Certificate{Names: names, KeyType: x509.ECDSA, NotBefore: from, NotAfter: until}}
	}
	files := mounted{
		certificates: map[string]certificateFile{
			"good":     file(hour(-1), hour(5), "a.example.com"),
			"sooner":   file(hour(-1), hour(3), "b.example.com"),
			"early":    file(hour(2), hour(9), "a.example.com"),
			"expired":  file(hour(-9), hour(-1), "a.example.com"),
			"other":    file(hour(-1), hour(5), "a.org", "b.org", "c.org", "d.org", "e.org", "f.org", "g.org"),
			"five":     file(hour(-1), hour(5), "a.org", "b.org", "c.org", "d.org", "e.org"),
			"nameless": file(hour(-1), hour(5)),
			"again":    file(hour(-1), hour(5), "a.example.com", "c.example.com"),
			"missing":  {problem: "it does not exist or has no tls.crt"},
			"older":    {Certificate: inventory.Certificate{Names: []string{"a.example.com"}, KeyType: x509.RSA, NotBefore: hour(-9), NotAfter: hour(5)}, outdated: "it has no tls.key"},
			"oldest":   {Certificate: inventory.Certificate{Names: []string{"a.example.com"}, NotBefore: hour(-9), NotAfter: hour(-1)}, outdated: "it has no tls.key"},
		},
		authorities: map[string]authorityFile{"staff": {pem: []byte("PEM")}, "broken": {problem: "it is broken"}},
	}
	policies := map[model.Backend]model.BackendPolicy{
		{Service: "api", Port: 443}: {TLS: &model.BackendTLS{CAs: []string{"staff", "broken"}}},
		{Service: "api", Port: 444}: {TLS: &model.BackendTLS{CAs: []string{"broken"}}},
		{Service: "api", Port: 445}: {TLS: &model.BackendTLS{CAs: []string{model.SystemCAs}}},
		{Service: "api", Port: 80}:  {},
	}
	table := routing.Table{
		Settings: model.Settings{Policies: policies},
		Listeners: []routing.Listener{
			tlsListener("all", "", "good", "nameless", "missing"),
			tlsListener("staff", "a.example.com", "good"),
			tlsListener("nobody", "a.example.com", "good"),
			tlsListener("wild", "*.example.com", "expired", "sooner", "early", "other", "five", "nameless", "good", "again", "older", "oldest"),
			{Name: "plain", Protocol: "HTTP"},
		},
	}
	table.Listeners[1].TLS.ClientCAs = []string{"staff"}
	table.Listeners[2].TLS.ClientCAs = []string{"broken", "staff"}

	got := collect(&table, files, "shop", now, &material{})
	if s := fmt.Sprint(got.certificates); s != "map[all:[{good [a.example.com] ECDSA} {nameless [] ECDSA}] staff:[{good [a.example.com] ECDSA}] wild:[{sooner [b.example.com] ECDSA} {good [a.example.com] ECDSA} {again [c.example.com] ECDSA} {older [a.example.com] RSA}]]" {
		t.Errorf("certificates are %s", s)
	}
	if public := got.authorities[model.SystemCAs]; parseAuthority(public, nil).problem != "" || bytes.Count(public, []byte("BEGIN")) < 100 {
		t.Errorf("public authorities are %s", public)
	}
	delete(got.authorities, model.SystemCAs)
	if s := fmt.Sprintf("%s", got.authorities); s != "map[staff:PEM]" {
		t.Errorf("authorities are %s", s)
	}
	problem := func(listener, kind, name, message string) appv1.ProxyProblem {
		return newProblem(listener, kind, "shop", name, strings.TrimPrefix(message, kind+" shop/"+name+": "))
	}
	want := []appv1.ProxyProblem{
		problem("all", "Secret", "missing", "Secret shop/missing: it does not exist or has no tls.crt"),
		problem("wild", "Secret", "early", "Secret shop/early: the certificate is not valid before 2026-06-01 14:00:00 UTC"),
		problem("wild", "Secret", "expired", "Secret shop/expired: the certificate expired on 2026-06-01 11:00:00 UTC"),
		problem("wild", "Secret", "five", "Secret shop/five: the certificate is not for *.example.com: it is for a.org, b.org, c.org, d.org, e.org"),
		problem("wild", "Secret", "nameless", "Secret shop/nameless: the certificate is not for *.example.com: it is for no DNS name"),
		problem("wild", "Secret", "older", "Secret shop/older: it has no tls.key; what it held before goes on"),
		problem("wild", "Secret", "oldest", "Secret shop/oldest: it has no tls.key"),
		problem("wild", "Secret", "other", "Secret shop/other: the certificate is not for *.example.com: it is for a.org, b.org, c.org, d.org, e.org and 2 more"),
		problem("", "ConfigMap", "broken", "ConfigMap shop/broken: it is broken"),
		problem("nobody", "ConfigMap", "broken", "ConfigMap shop/broken: it is broken"),
	}
	if !slices.Equal(got.problems, want) {
		t.Errorf("problems are\n%+v\nwant\n%+v", got.problems, want)
	}
	// The next thing to happen is that "early" becomes valid; "sooner" expires an hour later.
	if !got.until.Equal(hour(2)) || got.unmounted != "" {
		t.Errorf("it holds until %s, unmounted %q", got.until, got.unmounted)
	}
	later := collect(&table, files, "shop", got.until, &material{})
	if n := len(later.certificates["wild"]); n != 5 || !later.until.After(hour(3)) || later.until.After(hour(3).Add(time.Second)) {
		t.Errorf("then there are %d certificates, until %s", n, later.until)
	}
	if n := len(collect(&table, files, "shop", later.until, &material{}).certificates["wild"]); n != 4 {
		t.Errorf("after that there are %d", n)
	}
}

// TestCollectAgain: what was found before is found again by all that changes: Secrets, listeners and time.
func TestCollectAgain(t *testing.T) {
	shown, authority, now := newShown(t), certtest.NewAuthority(t), time.Now()
	issue := func(from, to time.Duration, names ...string) certtest.Pair {
		return authority.Issue(t, names, certtest.Valid(now.Add(from), now.Add(to)))
	}
	shown.putPair("a", issue(-time.Hour, time.Hour, "a.example.com"))
	shown.putPair("b", issue(-time.Hour, 9*time.Hour, "b.example.com"))
	r := newMountReader(Mounts{CertificatesDir: shown.dir, KeyServer: true})
	table := routing.Table{Listeners: []routing.Listener{tlsListener("a", "a.example.com", "a"), tlsListener("b", "b.example.com", "b")}}
	var last material
	for i, step := range []struct {
		change       func()
		at           time.Duration
		certificates string
		problems     int
	}{
		{func() {}, 0, "map[a:[{a [a.example.com] ECDSA}] b:[{b [b.example.com] ECDSA}]]", 0},
		{func() {}, time.Minute, "map[a:[{a [a.example.com] ECDSA}] b:[{b [b.example.com] ECDSA}]]", 0},
		{func() {}, 2 * time.Hour, "map[b:[{b [b.example.com] ECDSA}]]", 1},
		{func() { shown.putPair("a", issue(-time.Hour, 3*time.Hour, "a.example.com")) }, 2 * time.Hour, "map[a:[{a [a.example.com] ECDSA}] b:[{b [b.example.com] ECDSA}]]", 0},
		{func() { table.Listeners[0].Hostname = "other.example.com" }, 2 * time.Hour, "map[b:[{b [b.example.com] ECDSA}]]", 1},
		{func() { table.Listeners[0] = tlsListener("a", "a.example.com", "a", "b") }, 2 * time.Hour, "map[a:[{a [a.example.com] ECDSA}] b:[{b [b.example.com] ECDSA}]]", 1},
		{func() { table.Listeners[0] = tlsListener("a", "a.example.com", "a") }, 2 * time.Hour, "map[a:[{a [a.example.com] ECDSA}] b:[{b [b.example.com] ECDSA}]]", 0},
		{func() { table.Listeners[0].TLS = &routing.TLS{Secrets: []string{"a"}, ClientCAs: []string{"staff"}} }, 2 * time.Hour, "map[b:[{b [b.example.com] ECDSA}]]", 0},
		{func() { table.Listeners[0].TLS = &routing.TLS{Secrets: []string{"a"}} }, 2 * time.Hour, "map[a:[{a [a.example.com] ECDSA}] b:[{b [b.example.com] ECDSA}]]", 0},
		{func() { shown.put(map[string]*inventory.Entry{inventory.SecretKey("a"): {}}) }, 2 * time.Hour, "map[b:[{b [b.example.com] ECDSA}]]", 1},
		{func() {}, -2 * time.Hour, "map[]", 2},
	} {
		table.Listeners = slices.Clone(table.Listeners)
		if step.change(); r.look() {
			last.listeners = nil
		}
		got := collect(&table, r.files, "shop", now.Add(step.at), &last)
		last = got
		if s := fmt.Sprint(got.certificates); s != step.certificates || len(got.problems) != step.problems {
			t.Errorf("step %d: certificates are %s, problems %v", i, s, got.problems)
		}
		plain := r.files
		plain.plain = nil
		if anew := collect(&table, plain, "shop", now.Add(step.at), &material{}); fmt.Sprint(anew.certificates, anew.problems, anew.unmounted) != fmt.Sprint(got.certificates, got.problems, got.unmounted) || isLater(got.until, anew.until) {
			t.Errorf("step %d: got %+v, and anew %+v", i, got, anew)
		}
	}
}

// TestTheCertificateForBackendsIsChecked: it is for no name, and need not have one.
func TestTheCertificateForBackendsIsChecked(t *testing.T) {
	now := time.Now()
	files := mounted{certificates: map[string]certificateFile{
		"good":    {Certificate: inventory.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}},
		"older":   {Certificate: inventory.Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}, outdated: "it has no tls.key"},
		"early":   {Certificate: inventory.Certificate{NotBefore: now.Add(time.Hour), NotAfter: now.Add(2 * time.Hour)}},
		"missing": {problem: "it does not exist or has no tls.crt"},
	}}
	for name, test := range map[string]struct {
		usable              bool
		problems, unmounted string
	}{
		"":        {},
		"good":    {usable: true},
		"older":   {usable: true, problems: "Secret shop/older: it has no tls.key; what it held before goes on"},
		"early":   {problems: "Secret shop/early: the certificate is not valid before"},
		"missing": {problems: "Secret shop/missing: it does not exist or has no tls.crt"},
		"new":     {unmounted: "Secret shop/new"},
	} {
		got := collect(&routing.Table{Settings: model.Settings{BackendCertificate: name}}, files, "shop", now, &material{})
		problems := ""
		for _, problem := range got.problems {
			problems += problem.Listener + problem.Message
		}
		if got.backendCertificate != test.usable || got.unmounted != test.unmounted || !strings.HasPrefix(problems, test.problems) || (problems == "") != (test.problems == "") {
			t.Errorf("%q: usable %t, unmounted %q, problems %q", name, got.backendCertificate, got.unmounted, problems)
		}
		if name == "early" && !got.until.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: it holds until %s", name, got.until)
		}
	}
}

// TestRevocationsExpire: a listener is not served once nobody knows which certificates of clients are revoked.
func TestRevocationsExpire(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	ca := certtest.NewAuthority(t)
	authority := parseAuthority(ca.PEM, ca.Revoke(t, now.Add(time.Hour)))
	if authority.problem != "" || !authority.until.Equal(now.Add(time.Hour)) || !certificates.HasRevocations(authority.pem) {
		t.Fatalf("got %+v", authority)
	}
	if wrong := parseAuthority(ca.PEM, []byte{}); !strings.HasPrefix(wrong.problem, "ca.crl has no list of ") || wrong.pem != nil {
		t.Errorf("an empty file: got %+v", wrong)
	}
	files := mounted{
		certificates: map[string]certificateFile{"a": {Certificate: inventory.Certificate{Names: []string{"a.example.com"}, NotAfter: now.Add(24 * time.Hour)}}},
		authorities:  map[string]authorityFile{"staff": authority},
	}
	table := routing.Table{Listeners: []routing.Listener{tlsListener("https", "a.example.com", "a")}}
	table.Listeners[0].TLS.ClientCAs = []string{"staff"}
	if got := collect(&table, files, "shop", now, &material{}); len(got.certificates) != 1 || len(got.problems) > 0 || !got.until.Equal(now.Add(time.Hour)) {
		t.Errorf("got %+v", got)
	}
	got := collect(&table, files, "shop", now.Add(time.Hour), &material{})
	const want = "ConfigMap shop/staff: a list in ca.crl expired on 2026-06-01 13:00:00 UTC"
	if len(got.certificates) > 0 || len(got.problems) != 1 || got.problems[0].Message != want {
		t.Errorf("then, got %+v", got)
	}
}

func TestWhatIsNotMountedIsNoProblem(t *testing.T) {
	table := routing.Table{Listeners: []routing.Listener{tlsListener("all", "", "new")}}
	got := collect(&table, mounted{}, "shop", time.Now(), &material{})
	if got.unmounted != "Secret shop/new" || len(got.problems) > 0 || len(got.certificates) > 0 {
		t.Errorf("got %+v", got)
	}
	// Until it is known whom to let in, nobody is.
	table.Listeners[0].TLS.ClientCAs = []string{"staff"}
	files := mounted{certificates: map[string]certificateFile{"new": {Certificate: inventory.Certificate{NotAfter: time.Now().Add(time.Hour)}}}}
	if got = collect(&table, files, "shop", time.Now(), &material{}); got.unmounted != "ConfigMap shop/staff" || len(got.problems) > 0 || len(got.certificates) > 0 {
		t.Errorf("got %+v", got)
	}
	names := model.BackendPolicy{TLS: &model.BackendTLS{CAs: []string{"staff"}, URIs: []string{"spiffe://a"}}}
	table = routing.Table{Settings: model.Settings{Policies: map[model.Backend]model.BackendPolicy{{Service: "api", Port: 443}: names}}}
	files.authorities = map[string]authorityFile{"staff": {}}
	if got = collect(&table, files, "shop", time.Now(), &material{}); got.unmounted != "what the container keys shares with HAProxy" {
		t.Errorf("got %+v", got)
	}
	if files.hasKeys = true; collect(&table, files, "shop", time.Now(), &material{}).unmounted != "" {
		t.Error("names cannot be verified beside gateway-keys")
	}
}

// TestACertificateForOtherNames: a listener of the Gateway API shows it for its hostname, if there is no better one.
func TestACertificateForOtherNames(t *testing.T) {
	files := mounted{certificates: map[string]certificateFile{
		"other": {Certificate: inventory.Certificate{Names: []string{"a.org"}, KeyType: x509.ECDSA, NotAfter: time.Now().Add(time.Hour)}},
		"fits":  {Certificate: inventory.Certificate{Names: []string{"shop.example.com"}, NotAfter: time.Now().Add(time.Hour), KeyType: x509.RSA}},
	}}
	table := routing.Table{Listeners: []routing.Listener{tlsListener("shop", "shop.example.com", "fits", "other")}}
	table.Listeners[0].TLS.AnyNames = true
	got := collect(&table, files, "shop", time.Now(), &material{})
	if s := fmt.Sprint(got.certificates); s != "map[shop:[{fits [shop.example.com] RSA} {other [shop.example.com] ECDSA}]]" || len(got.problems) > 0 {
		t.Errorf("certificates are %s, problems %+v", s, got.problems)
	}
}

// TestRuleSets: what gateway-waf cannot use of a ConfigMap is a problem, as long as a rule needs it.
func TestRuleSets(t *testing.T) {
	t.Parallel()
	gateway := &model.Gateway{Listeners: []model.Listener{{Name: "http", Port: 80, Protocol: model.ProtocolHTTP}}}
	var routes []model.Route
	for _, name := range []string{"bad", "good", "missing", "bad"} {
		routes = append(routes, model.Route{
			Kind: "HTTPRoute", Name: fmt.Sprint(name, len(routes)), Listeners: []string{"http"}, Hostnames: []string{""},
			Rules: []model.Rule{{Matches: []model.Match{{Path: "/" + name, PathType: model.Prefix}}, Action: &model.Action{WAF: &model.WAF{Settings: waf.Settings{Rules: name}}}}},
		})
	}
	gateway.Routes = model.Ordered(routes...)
	table, _ := routing.Compile(gateway, filters.Problem)
	volume := certtest.NewVolume(t)
	volume.Put(map[string][]byte{
		"bad/rules.conf": []byte("# Rules\nSecRuleEngine Off"), "good/rules.conf": []byte(`SecRule ARGS "a" "id:1,deny"`), "unused/rules.conf": []byte("bad"), "missing/ca.crt": []byte("a"),
	})
	mounts := Mounts{AuthoritiesDir: volume.Dir, ConfigMaps: []string{"bad", "good", "missing", "unused"}}
	got := collect(&table, newMountReader(mounts).files, "shop", time.Now(), &material{})
	const consequence = ": the rules that were there before go on; without any, requests get 503"
	var told []string
	for _, problem := range got.problems {
		told = append(told, fmt.Sprint(problem.Reason, " ", problem.Message))
	}
	want := []string{
		"InvalidRulesRef ConfigMap shop/bad: rules.conf: line 2: SecRuleEngine is not allowed: use shadow to let requests through" + consequence,
		"InvalidRulesRef ConfigMap shop/missing: it does not exist or has no rules.conf" + consequence,
	}
	if !slices.Equal(told, want) || got.unmounted != "" {
		t.Errorf("got %q, unmounted %q, want\n%q", told, got.unmounted, want)
	}
	mounts.ConfigMaps = mounts.ConfigMaps[1:]
	if got := collect(&table, newMountReader(mounts).files, "shop", time.Now(), &material{}); got.unmounted != "ConfigMap shop/bad" {
		t.Errorf("unmounted is %q, want that which the pod does not mount", got.unmounted)
	}
}

// TestKeysOfManyRules: keys that many rules need are one problem.
func TestKeysOfManyRules(t *testing.T) {
	t.Parallel()
	from := routing.KeySource{ConfigMap: "staff"}
	gateway := &model.Gateway{Listeners: []model.Listener{{Name: "http", Port: 80, Protocol: model.ProtocolHTTP, Filters: &model.Action{JWT: &model.JWT{Issuers: []model.Issuer{{KeysFrom: from}}}}}}}
	var routes []model.Route
	for _, path := range []string{"/a", "/b", "/c"} {
		routes = append(routes, model.Route{
			Kind: "HTTPRoute", Name: path, Listeners: []string{"http"}, Hostnames: []string{""},
			Rules: []model.Rule{{Action: &model.Action{}, Matches: []model.Match{{Path: path, PathType: model.Prefix}}}},
		})
	}
	gateway.Routes = model.Ordered(routes...)
	table, _ := routing.Compile(gateway, filters.Problem)
	got := collect(&table, mounted{keySets: map[string]keySetFile{"staff": {problem: "it is bad"}}}, "shop", time.Now(), &material{})
	const want = `requests for rules[0] of route "/a" and 2 more are answered with 503: ConfigMap shop/staff: it is bad`
	if len(got.problems) != 1 || got.problems[0].Message != want {
		t.Errorf("got %+v, want one problem: %s", got.problems, want)
	}
}
