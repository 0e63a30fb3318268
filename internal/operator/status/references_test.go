package status

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

const resolved = "ResolvedRefs=True ResolvedRefs: everything that is named exists and can be used"

// withTLSBackend says how to speak TLS to a Service port.
func withTLSBackend(service string, port int32, configMaps ...string) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) {
		gateway.Spec.Backends = append(gateway.Spec.Backends, appv1.Backend{
			Name: service, Port: port, TLS: &appv1.BackendTLS{CACertificateRefs: named(configMaps), Hostname: "api.internal"},
		})
	}
}

func withConnections(protocol appv1.Protocol, service string, port int32) func(*appv1.Gateway) {
	rules := []appv1.ConnectionRule{{BackendRefs: []appv1.ConnectionBackendRef{{Name: service, Port: port}}}}
	return func(gateway *appv1.Gateway) {
		if protocol == appv1.ProtocolTCP {
			gateway.Spec.TCPRoutes = append(gateway.Spec.TCPRoutes, appv1.TCPRoute{Name: "db", Rules: rules})
		} else {
			gateway.Spec.TLSRoutes = append(gateway.Spec.TLSRoutes, appv1.TLSRoute{Name: "db", Rules: rules})
		}
	}
}

func named(names []string) []appv1.ObjectReference {
	var refs []appv1.ObjectReference
	for _, name := range names {
		refs = append(refs, appv1.ObjectReference{Name: name})
	}
	return refs
}

func TestConnectionRoutesAreReferencesToo(t *testing.T) {
	expectCondition(t, map[string]conditionTest{
		"of a TCP route": {
			gateway: newGateway(withConnections(appv1.ProtocolTCP, "db", 5432)),
			want:    `ResolvedRefs=False BackendNotFound: TCP route "db": Service web/db does not exist: create it or change the route`,
		},
		"of a TLS route": {
			gateway: newGateway(withConnections(appv1.ProtocolTLS, "db", 5432)),
			want:    `ResolvedRefs=False BackendNotFound: TLS route "db": Service web/db does not exist: create it or change the route`,
		},
	})
}

func TestBackupsAreReferencesToo(t *testing.T) {
	gateway := newGateway(withRoute("shop", to("api", 443)), withTLSBackend("api", 443, "ca"), func(gateway *appv1.Gateway) {
		gateway.Spec.Backends[0].Backup = &appv1.BackupService{Name: "spare", Port: 443}
	})
	services := func(spare *corev1.Service) Observed {
		return Observed{Backends: map[string]*corev1.Service{"api": newService(corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 443}), "spare": spare}}
	}
	expectCondition(t, map[string]conditionTest{
		"one that does not exist": {
			gateway, services(nil), `ResolvedRefs=False BackendNotFound: route "shop": Service web/spare does not exist: create it or change the backup`,
		},
		"its appProtocol does not matter": {
			gateway, services(newService(corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 443, AppProtocol: new("grpc-web")})), resolved,
		},
	})
}

func TestExclusionsAreReferencesToo(t *testing.T) {
	excluding := func(ids ...int32) []appv1.RuleFilter {
		filter := appv1.RuleFilter{Type: appv1.RuleFilterWAF, WAF: &appv1.WAF{}}
		for _, id := range ids {
			filter.WAF.ExcludedRules = append(filter.WAF.ExcludedRules, appv1.WAFExclusion{ID: id})
		}
		return []appv1.RuleFilter{filter}
	}
	inRoute := func(gateway *appv1.Gateway) {
		gateway.Spec.Routes = []appv1.Route{{Name: "shop", Rules: []appv1.RouteRule{{Filters: excluding(911100, 911101, 911101)}}}}
	}
	inListener := func(gateway *appv1.Gateway) {
		gateway.Spec.Listeners = []appv1.Listener{{Name: "http", Filters: excluding(942999)}}
	}
	const none = ", which the Core Rule Set does not have: correct the ID, or remove it"
	expectCondition(t, map[string]conditionTest{
		"a rule that there is not": {newGateway(inRoute), Observed{}, `ResolvedRefs=False InvalidRulesRef: route "shop": WAF excludes rule 911101` + none},
		"for all rules":            {newGateway(inListener), Observed{}, `ResolvedRefs=False InvalidRulesRef: listener "http": WAF excludes rule 942999` + none},
	})
}

func TestAppProtocol(t *testing.T) {
	speaking := func(protocol string) Observed {
		return Observed{Backends: map[string]*corev1.Service{
			"api": newService(corev1.ServiceTypeClusterIP, corev1.ServicePort{Port: 443, AppProtocol: &protocol}),
		}}
	}
	toAPI := withRoute("shop", to("api", 443))
	const needsTLS = `which is over TLS, and spec.backends does not say how to verify it: add its tls there`
	tests := map[string]conditionTest{
		"TLS is verified where spec.backends says how": {
			newGateway(toAPI, withTLSBackend("api", 443, "ca")), speaking("https"), resolved,
		},
		"TLS in upper case":      {newGateway(toAPI, withTLSBackend("api", 443, "ca")), speaking("HTTPS"), resolved},
		"WebSocket over TLS too": {newGateway(toAPI, withTLSBackend("api", 443, "ca")), speaking("kubernetes.io/wss"), resolved},
		"by its short name":      {newGateway(toAPI, withTLSBackend("api", 443, "ca")), speaking("wss"), resolved},
		"TLS nobody said how to verify": {
			newGateway(toAPI), speaking("https"),
			`ResolvedRefs=False UnsupportedProtocol: route "shop": port 443 of Service web/api has appProtocol "https", ` + needsTLS,
		},
		"TLS for another port does not help": {
			newGateway(toAPI, withTLSBackend("api", 80, "ca")), speaking("kubernetes.io/wss"),
			`ResolvedRefs=False UnsupportedProtocol: route "shop": port 443 of Service web/api has appProtocol "kubernetes.io/wss", ` + needsTLS,
		},
		"nor does what else spec.backends says of the port": {
			newGateway(toAPI, withTLSBackend("api", 443), func(gateway *appv1.Gateway) { gateway.Spec.Backends[0].TLS = nil }), speaking("https"),
			`ResolvedRefs=False UnsupportedProtocol: route "shop": port 443 of Service web/api has appProtocol "https", ` + needsTLS,
		},
		"an unknown protocol": {
			newGateway(toAPI), speaking("grpc-web"),
			`ResolvedRefs=False UnsupportedProtocol: route "shop": port 443 of Service web/api has appProtocol "grpc-web", which the ` +
				`proxies do not speak: use http, https, kubernetes.io/h2c, kubernetes.io/ws or kubernetes.io/wss, or remove it`,
		},
		"connections may speak anything": {newGateway(withConnections(appv1.ProtocolTCP, "api", 443)), speaking("postgresql"), resolved},
	}
	for _, protocol := range []string{"", "http", "HTTP", "tcp", "ws", "grpc", "http2", "h2c", "kubernetes.io/h2c", "kubernetes.io/ws"} {
		tests["without TLS: "+protocol] = conditionTest{newGateway(toAPI), speaking(protocol), resolved}
	}
	expectCondition(t, tests)
}

// An entry of spec.backends may be there before its route is: an event names it, and nothing is wrong.
func TestUnusedBackends(t *testing.T) {
	const served = "Accepted=True Accepted: every route is served"
	const unused = "Accepted=True UnusedBackend: every route is served; "
	toAPI := withRoute("shop", to("api", 8443))
	expectCondition(t, map[string]conditionTest{
		"a route refers to it":             {newGateway(toAPI, withTLSBackend("api", 8443, "ca")), Observed{}, served},
		"a TCP route does":                 {newGateway(withConnections(appv1.ProtocolTCP, "db", 5432), withTLSBackend("db", 5432)), Observed{}, served},
		"a TLS route does":                 {newGateway(withConnections(appv1.ProtocolTLS, "db", 5432), withTLSBackend("db", 5432)), Observed{}, served},
		"a route does with weight zero":    {newGateway(withRoute("shop", appv1.BackendRef{Name: "api", Port: 8443, Weight: new(int32(0))}), withTLSBackend("api", 8443)), Observed{}, served},
		"the route's Service is not there": {newGateway(toAPI, withTLSBackend("api", 8443, "ca")), Observed{}, served},
		"its port is another": {
			newGateway(toAPI, withTLSBackend("api", 8443, "ca"), withTLSBackend("api", 8444, "ca")), Observed{},
			unused + `no route or listener refers to spec.backends[1] "api" port 8444: correct its name or port, or remove it`,
		},
		"its name is another, and there is no route at all": {
			newGateway(withTLSBackend("apy", 8443, "ca")), Observed{},
			unused + `no route or listener refers to spec.backends[0] "apy" port 8443: correct its name or port, or remove it`,
		},
		"a port has no HTTP/3": {
			newGateway(), Observed{WithoutHTTP3: []string{"port 443 has no HTTP/3"}}, "Accepted=True WithoutHTTP3: every route is served; port 443 has no HTTP/3",
		},
		"a port has no HTTP/3, and something is wrong": {
			newGateway(), Observed{WithoutHTTP3: []string{"port 443 has no HTTP/3"}, Problems: []model.Problem{{Reason: model.ReasonNoMatchingListenerHostname, Message: "one"}}},
			"Accepted=False NoMatchingListenerHostname: one; port 443 has no HTTP/3",
		},
		"a route of the Gateway API may refer to it": {
			newGateway(withTLSBackend("apy", 8443, "ca"), func(g *appv1.Gateway) { g.Status.Attachments = &appv1.Attachments{} }), Observed{}, served,
		},
		"it may be meant for what a route refers to": {
			newGateway(toAPI, withTLSBackend("apy", 8443, "ca")), Observed{Problems: []model.Problem{{Reason: model.ReasonUnusedBackend, Message: "nothing is sent there"}}},
			`Accepted=False UnusedBackend: nothing is sent there; ` +
				`no route or listener refers to spec.backends[0] "apy" port 8443: correct its name or port, or remove it`,
		},
		"what is wrong comes first, and gives the reason": {
			newGateway(toAPI, withTLSBackend("api", 80)), Observed{Problems: []model.Problem{{Reason: model.ReasonNoMatchingListenerHostname, Message: "one"}}},
			`Accepted=False NoMatchingListenerHostname: one; ` +
				`no route or listener refers to spec.backends[0] "api" port 80: correct its name or port, or remove it`,
		},
	})
}

// The longest names, as many as the schema allows: the first are listed, to the end.
func TestManyUnusedBackends(t *testing.T) {
	gateway := newGateway()
	for i := range int32(256) {
		withTLSBackend(strings.Repeat("x", 63), 65535-i)(gateway)
	}
	message := meta.FindStatusCondition(Compute(gateway, Observed{}, now).Conditions, appv1.ConditionAccepted).Message
	if !strings.HasSuffix(message, "or remove it; and 251 more") || strings.Count(message, "spec.backends[") != maxListed {
		t.Errorf("got %d bytes: %s", len(message), message)
	}
}

// An unused entry that was reported causes no other status write, and no other event.
func TestAnUnusedBackendIsToldOnce(t *testing.T) {
	gateway, observed := newGateway(withTLSBackend("api", 8443)), reporting(slicesOf(ready("a")), report("a", 7))
	computed := Compute(gateway, observed, before)
	if c := meta.FindStatusCondition(computed.Conditions, appv1.ConditionProgrammed); c.Status != "True" {
		t.Errorf("Programmed is %+v", c)
	}
	warnings := Warnings(gateway, computed)
	if len(warnings) != 1 || warnings[0].Reason != ReasonUnusedBackend {
		t.Fatalf("got warnings %+v", warnings)
	}
	gateway.Status = computed
	again := Compute(gateway, observed, now)
	if warnings := Warnings(gateway, again); len(warnings) > 0 || Changed(gateway, again) {
		t.Errorf("it is told again: %+v, the status is written: %v", warnings, Changed(gateway, again))
	}
}

// withListener adds an HTTPS listener.
func withListener(name string, secrets, clientCAs []string) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) {
		listener := appv1.Listener{Name: appv1.Name(name), TLS: &appv1.ListenerTLS{CertificateRefs: named(secrets)}}
		if len(clientCAs) > 0 {
			listener.TLS.ClientValidation = &appv1.ClientValidation{CACertificateRefs: named(clientCAs)}
		}
		gateway.Spec.Listeners = append(gateway.Spec.Listeners, listener)
	}
}

// withUsers adds a route that asks for a password.
func withUsers(secret string) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) {
		filter := appv1.RuleFilter{Type: appv1.RuleFilterBasicAuth, BasicAuth: &appv1.BasicAuth{SecretRef: appv1.ObjectReference{Name: secret}}}
		gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{Name: "closed", Rules: []appv1.RouteRule{{Filters: []appv1.RuleFilter{filter}}}})
	}
}

// withKeys adds a route that needs tokens of keys in a ConfigMap, withRemoteKeys of keys at a URL.
func withKeys(configMap string) func(*appv1.Gateway) {
	return withTokens(appv1.JWTKeys{ConfigMapRef: &appv1.ObjectReference{Name: configMap}})
}

func withRules(configMap string) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) {
		gateway.Spec.Listeners = append(gateway.Spec.Listeners, appv1.Listener{Name: "guarded", Filters: []appv1.RuleFilter{
			{Type: appv1.RuleFilterWAF, WAF: &appv1.WAF{RulesRef: &appv1.ObjectReference{Name: configMap}}},
		}})
	}
}

func withRemoteKeys(uri string) func(*appv1.Gateway) {
	return withTokens(appv1.JWTKeys{Remote: &appv1.RemoteJWTKeys{URI: uri}})
}

func withTokens(keys appv1.JWTKeys) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) {
		filter := appv1.RuleFilter{Type: appv1.RuleFilterJWT, JWT: &appv1.JWT{Issuers: []appv1.JWTIssuer{{Keys: keys}}}}
		gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{Name: "closed", Rules: []appv1.RouteRule{{Filters: []appv1.RuleFilter{filter}}}})
	}
}

// leavingOut is the report of a pod that runs the generation and leaves something out.
func leavingOut(pod string, problems ...appv1.ProxyProblem) *appv1.GatewayProxy {
	return report(pod, 7, problems...)
}

func problem(listener, kind, name, message string) appv1.ProxyProblem {
	reason := map[string]appv1.ProxyProblemReason{
		"Secret": appv1.ProblemInvalidCertificateRef, "ConfigMap": appv1.ProblemInvalidCACertificateRef,
	}[kind]
	return appv1.ProxyProblem{Origin: appv1.ProblemOrigin{Kind: kind, Name: name}, Listener: listener, Reason: reason, Message: message}
}

func TestReportedProblems(t *testing.T) { //nolint:funlen // a flat table
	https := withListener("https", []string{"good", "bad"}, []string{"staff"})
	missing := problem("https", "Secret", "bad", "Secret web/bad: it does not exist or has no tls.crt")
	authority := problem("https", "ConfigMap", "staff", "ConfigMap web/staff: it does not exist or has no ca.crt")
	users := problem("", "Secret", "users", "Secret web/users: it does not exist or has no auth")
	users.Reason = appv1.ProblemInvalidUsersRef
	keys := problem("", "ConfigMap", "keys", "ConfigMap web/keys: it does not exist or has no jwks")
	keys.Reason = appv1.ProblemInvalidKeysRef
	unfetched := problem("", "URL", "https://id/keys", "no keys come from https://id/keys")
	unfetched.Reason = appv1.ProblemInvalidKeysRef
	rules := problem("", "ConfigMap", "keys", "ConfigMap web/keys: rules.conf: line 3: it is bad")
	rules.Reason = appv1.ProblemInvalidRulesRef
	two := slicesOf(ready("a"), ready("b"))
	const told = `listener "https": Secret web/bad: it does not exist or has no tls.crt`
	expectCondition(t, map[string]conditionTest{
		"a Secret, once though both proxies say so": {
			newGateway(https), reporting(two, leavingOut("b", missing), leavingOut("a", missing)), "ResolvedRefs=False InvalidCertificateRef: " + told,
		},
		"one proxy is enough": {
			newGateway(https), reporting(two, leavingOut("a"), leavingOut("b", missing)), "ResolvedRefs=False InvalidCertificateRef: " + told,
		},
		"a pod that is not ready counts": {
			newGateway(https), reporting(slicesOf(notReady("a")), leavingOut("a", missing)), "ResolvedRefs=False InvalidCertificateRef: " + told,
		},
		"a pod on its way out does not": {newGateway(https), reporting(slicesOf(leaving("a")), leavingOut("a", missing)), resolved},
		"nor one that is gone":          {newGateway(https), reporting(two, leavingOut("c", missing)), resolved},
		"what is not named any more":    {newGateway(withListener("https", []string{"good"}, nil)), reporting(two, leavingOut("a", missing)), resolved},
		"a listener without TLS names nothing": {
			newGateway(func(gateway *appv1.Gateway) { gateway.Spec.Listeners = []appv1.Listener{{Name: "http"}} }, https), reporting(two, leavingOut("a", missing)),
			"ResolvedRefs=False InvalidCertificateRef: " + told,
		},
		"a ConfigMap for clients": {
			newGateway(https), reporting(two, leavingOut("a", authority)),
			`ResolvedRefs=False InvalidCACertificateRef: listener "https": ConfigMap web/staff: it does not exist or has no ca.crt`,
		},
		"a ConfigMap for a backend": {
			newGateway(withTLSBackend("api", 443, "ca")),
			reporting(two, leavingOut("a", problem("", "ConfigMap", "ca", "ConfigMap web/ca has no certificate"))),
			`ResolvedRefs=False InvalidCACertificateRef: backends: ConfigMap web/ca has no certificate`,
		},
		"the Secret that backends are shown": {
			newGateway(func(gateway *appv1.Gateway) {
				gateway.Spec.BackendClientCertificateRef = &appv1.ObjectReference{Name: "proxies"}
			}),
			reporting(two, leavingOut("a", problem("", "Secret", "proxies", "Secret web/proxies: it does not exist or has no tls.crt"))),
			`ResolvedRefs=False InvalidCertificateRef: backends: Secret web/proxies: it does not exist or has no tls.crt`,
		},
		"a Secret of any listener at a port, of a Gateway for one of the Gateway API": {
			newGateway(https, func(gateway *appv1.Gateway) {
				gateway.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: gateway.Name, Controller: new(true),
				}}
			}),
			reporting(two, leavingOut("a", problem("api-0123456789abcdef", "Secret", "bad", "Secret web/bad: it does not exist or has no tls.crt"))),
			"ResolvedRefs=False InvalidCertificateRef: Secret web/bad: it does not exist or has no tls.crt",
		},
		"users": {
			newGateway(withUsers("users")), reporting(two, leavingOut("a", users)),
			"ResolvedRefs=False InvalidUsersRef: filters: Secret web/users: it does not exist or has no auth",
		},
		"users of a Secret that is not named any more": {newGateway(withUsers("others")), reporting(two, leavingOut("a", users)), resolved},
		"keys": {
			newGateway(withKeys("keys")), reporting(two, leavingOut("a", keys)),
			"ResolvedRefs=False InvalidKeysRef: filters: ConfigMap web/keys: it does not exist or has no jwks",
		},
		"keys at a URL": {
			newGateway(withRemoteKeys("https://id/keys")), reporting(two, leavingOut("a", unfetched)),
			"ResolvedRefs=False InvalidKeysRef: filters: no keys come from https://id/keys",
		},
		"keys at a URL that is not named any more":       {newGateway(withRemoteKeys("https://id/other")), reporting(two, leavingOut("a", unfetched)), resolved},
		"keys of a ConfigMap that is not named any more": {newGateway(withKeys("others")), reporting(two, leavingOut("a", keys)), resolved},
		"rules": {
			newGateway(withRules("keys")), reporting(two, leavingOut("a", rules)),
			"ResolvedRefs=False InvalidRulesRef: filters: ConfigMap web/keys: rules.conf: line 3: it is bad",
		},
		"rules of a ConfigMap that is named for keys": {newGateway(withKeys("keys")), reporting(two, leavingOut("a", rules)), resolved},
		"Services come first, then Secrets, then ConfigMaps": {
			newGateway(https, withRoute("shop", to("cart", 80))), reporting(two, leavingOut("a", authority, missing)),
			`ResolvedRefs=False BackendNotFound: route "shop": Service web/cart does not exist: create it or change the route; ` +
				told + `; listener "https": ConfigMap web/staff: it does not exist or has no ca.crt`,
		},
	})
}

// TestMoreProblemsThanAReportLists: what may be among those that are left out is neither right nor wrong.
func TestMoreProblemsThanAReportLists(t *testing.T) {
	https := withListener("https", []string{"good", "bad"}, []string{"staff"})
	missing := problem("https", "Secret", "bad", "Secret web/bad: it does not exist or has no tls.crt")
	old := problem("old", "Secret", "old", "Secret web/old: it does not exist or has no tls.crt")
	two := slicesOf(ready("a"), ready("b"))
	cut := func(pod string, problems ...appv1.ProxyProblem) *appv1.GatewayProxy {
		report := leavingOut(pod, problems...)
		report.Status.OmittedProblems = 4
		return report
	}
	const unknown = "ResolvedRefs=Unknown TooManyProblems: pod b has 4 more problems than its report lists: solve those that it lists"
	expectCondition(t, map[string]conditionTest{
		"what the spec names is not listed": {newGateway(https), reporting(two, leavingOut("a"), cut("b", old)), unknown},
		"a Secret with users is not listed": {newGateway(withUsers("users")), reporting(two, leavingOut("a"), cut("b", old)), unknown},
		"one is listed": {
			newGateway(https), reporting(two, leavingOut("a"), cut("b", missing)),
			`ResolvedRefs=False InvalidCertificateRef: listener "https": Secret web/bad: it does not exist or has no tls.crt`,
		},
		"the spec names nothing that proxies look at": {newGateway(), reporting(two, leavingOut("a"), cut("b", old)), resolved},
		"the pod is on its way out": {
			newGateway(https), reporting(slicesOf(ready("a"), leaving("b")), leavingOut("a"), cut("b", old)), resolved,
		},
	})
	other := withListener("other", []string{"others"}, nil)
	plain := func(gateway *appv1.Gateway) {
		gateway.Spec.Listeners = append(gateway.Spec.Listeners, appv1.Listener{Name: "http"})
	}
	statuses := Compute(newGateway(https, other, plain), reporting(two, leavingOut("a"), cut("b", missing)), now).Listeners
	want := map[appv1.Name]metav1.ConditionStatus{"https": "False", "other": "Unknown", "http": ""}
	for _, listener := range statuses {
		var got metav1.ConditionStatus
		if c := meta.FindStatusCondition(listener.Conditions, appv1.ConditionResolvedRefs); c != nil {
			got = c.Status
		}
		if got != want[listener.Name] {
			t.Errorf("listener %s: ResolvedRefs is %q, want %q", listener.Name, got, want[listener.Name])
		}
	}
}

// A certificate that is left out keeps nothing else from being live, and an event names it.
func TestAReportedProblemIsAWarningBesideProgrammed(t *testing.T) {
	gateway := newGateway(withListener("https", []string{"bad"}, nil))
	observed := reporting(slicesOf(ready("a")),
		leavingOut("a", problem("https", "Secret", "bad", "Secret web/bad: the certificate expired on 2026-01-02")))
	computed := Compute(gateway, observed, now)
	if c := meta.FindStatusCondition(computed.Conditions, appv1.ConditionProgrammed); c.Status != "True" {
		t.Errorf("Programmed is %+v", c)
	}
	warnings := Warnings(gateway, computed)
	if len(warnings) != 1 || warnings[0].Reason != ReasonInvalidCertificateRef {
		t.Fatalf("got warnings %+v", warnings)
	}
	gateway.Status.Conditions = computed.Conditions
	if again := Warnings(gateway, Compute(gateway, observed, now)); len(again) > 0 {
		t.Errorf("it is told again: %+v", again)
	}
}
