package keyserver

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
)

// shop is a Gateway of the Gateway API with the one that was made for it. It names a certificate of its namespace, and
// two of namespace certs, of which it may use one.
const shop = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: web, name: shop, uid: uid-of-shop}
spec:
  gatewayClassName: app
  allowedListeners: {namespaces: {from: Selector, selector: {matchLabels: {brings: hosts}}}}
  listeners:
    - {name: own, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: own}]}}
    - {name: others, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{namespace: certs, name: granted}, {namespace: certs, name: other}]}}
    - {name: passes, port: 9443, protocol: TLS, tls: {mode: Passthrough, certificateRefs: [{name: passed}]}}
  tls:
    frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: clients}]}}}
---
apiVersion: app.example.com/v1
kind: Gateway
metadata:
  namespace: web
  name: shop
  uid: uid-of-made
  ownerReferences: [{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, name: shop, uid: uid-of-shop, controller: true}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {namespace: certs, name: web}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: web}]
  to: [{group: "", kind: Secret, name: granted}]`

// set is a ListenerSet of that Gateway.
const set = `
apiVersion: v1
kind: Namespace
metadata: {name: team, labels: {brings: hosts}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: team, name: more}
spec:
  parentRef: {namespace: web, name: shop}
  listeners: [{name: more, port: 443, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: team}]}}]`

// budgeted is the Gateway made for that one, with a budget of two certificates. second is a ListenerSet with three, of
// which two are of one listener.
var (
	budgeted = strings.Split(shop, "\n---\n")[1] + "\nspec: {namespaceBudget: {certificates: 2}}"
	second   = strings.NewReplacer("name: more}\nspec", "name: second}\nspec", "[{name: team}]}}]", "[{name: users}, {name: login}]}},\n"+
		"    {name: last, port: 443, protocol: HTTPS, hostname: b.example.com, tls: {certificateRefs: [{name: last}]}}]").Replace(strings.Split(set, "\n---\n")[1])
)

// secrets are in all namespaces, with all files that anybody uses and one that nobody does.
var secrets = func() string {
	var all []string
	for _, name := range strings.Fields("web/own web/passed web/unnamed web/clients certs/granted certs/other team/team team/users team/login") {
		namespace, name, _ := strings.Cut(name, "/")
		for kind, files := range map[string]string{
			"Secret":    "{tls.crt: c, tls.key: k, auth: a, api-keys: p, session-keys: s, issuer: i, client-secret: e, other: o}",
			"ConfigMap": "{ca.crt: c, ca.crl: l, jwks: j, rules.conf: r, other: o}",
		} {
			field := map[string]string{"Secret": "stringData", "ConfigMap": "data"}[kind]
			all = append(all, fmt.Sprintf("apiVersion: v1\nkind: %s\nmetadata: {namespace: %s, name: %s}\n%s: %s", kind, namespace, name, field, files))
		}
	}
	return strings.Join(all, "\n---\n")
}()

// attachment is one of namespace team for a Gateway.
func attachment(of, bound string) string {
	return fmt.Sprintf(`
apiVersion: app.example.com/v1
kind: GatewayAttachment
metadata:
  namespace: web
  name: shop.team
  ownerReferences: [{apiVersion: app.example.com/v1, kind: Gateway, name: shop, uid: %s, controller: true}]
spec:
  gatewayName: shop
  namespace: team
  users: [{name: %[3]s}, {name: %[4]s}]
  logins: [{name: %[4]s}]
  configMaps: [{name: %[5]s}, {name: own}]
status: {conditions: [{type: Bound, status: "%[2]s", reason: Bound, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`,
		of, bound, local("team/users"), local("team/login"), local("team/team"))
}

// consents is the RoleBinding that the operator makes where there are routes for the Gateway.
const consents = `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: team, name: shop}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: gateway-attached}
subjects: [{kind: ServiceAccount, namespace: web, name: shop-gateway}]`

// own is a Gateway of our own.
const own = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {namespace: web, name: plain, uid: uid-of-plain}
spec:
  listeners:
    - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: own}], clientValidation: {caCertificateRefs: [{name: clients}]}}}`

// local is the name of a Secret of another namespace in the pods of Gateways of web.
func local(name string) string {
	namespace, name, _ := strings.Cut(name, "/")
	return gatewayapi.LocalName("web", namespace, name)
}

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme, gatewayv1.Install, appv1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// read returns the objects of YAML documents.
func read(t testing.TB, documents ...string) []runtime.Object {
	t.Helper()
	var all []runtime.Object
	for document := range strings.SplitSeq(strings.Join(documents, "\n---\n"), "\n---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if secret, ok := object.(*corev1.Secret); ok {
			secret.Data = map[string][]byte{}
			for name, file := range secret.StringData {
				secret.Data[name] = []byte(file)
			}
		}
		all = append(all, object)
	}
	return all
}

// put puts objects into a state, or removes them.
func (s *state) put(t testing.TB, gone bool, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		kept := must.Get(strip(object))(t)
		switch object := kept.(type) {
		case *corev1.Secret:
			s.setObject(newObject(object), gone)
		case *corev1.ConfigMap:
			s.setObject(newObject(object), gone)
		case *rbacv1.RoleBinding:
			s.setBinding(object, object.RoleRef, object.Subjects, gone)
		case *corev1.Namespace:
			s.setNamespace(object.Name, labels.Set(object.Labels), gone)
		case *gatewayv1.Gateway:
			s.setGatewayAPI(object, gone)
		case *gatewayv1.ListenerSet:
			s.setListenerSet(object, gone)
		case *gatewayv1.ReferenceGrant:
			s.setGrant(object, gone)
		case *appv1.Gateway:
			s.setOwn(object, gone)
		case *appv1.GatewayAttachment:
			s.setAttachment(object, gone)
		default:
			t.Fatalf("%T", object)
		}
	}
}

// given returns what the pods of a Gateway of namespace web get, as lines of a key and its files.
func (s *state) given(gateway string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	if p := s.plans[types.NamespacedName{Namespace: "web", Name: gateway}]; p != nil {
		for key := range p.needs {
			lines = append(lines, strings.TrimSpace(key+" "+strings.Join(slices.Sorted(maps.Keys(s.content(p, key).files)), " ")))
		}
	}
	slices.Sort(lines)
	return lines
}

func everywhere(string) bool { return true }

func TestWhatAGatewayMayHave(t *testing.T) {
	const pair, users, login = " tls.crt tls.key", " api-keys auth issuer session-keys", " api-keys auth client-secret issuer session-keys"
	const texts = " ca.crl ca.crt jwks rules.conf"
	shopHas := []string{"ConfigMap/clients" + texts, "Secret/" + local("certs/granted") + pair, "Secret/own" + pair}
	attached := append([]string{
		"ConfigMap/" + local("team/team") + texts, "ConfigMap/own", "Secret/" + local("team/login") + login, "Secret/" + local("team/users") + users,
	}, shopHas...)
	tests := map[string]struct {
		gateway string
		now     []string
		gone    []string
		reads   func(string) bool
		want    []string
	}{
		"a Gateway of our own":         {"plain", []string{own}, nil, nil, []string{"ConfigMap/clients" + texts, "Secret/own" + pair}},
		"another Gateway":              {"plain", []string{shop, set}, nil, nil, nil},
		"of the Gateway API":           {"shop", []string{shop}, nil, nil, shopHas},
		"without the one made for it":  {"shop", []string{shop}, []string{strings.Split(shop, "\n---\n")[1]}, nil, nil},
		"a Gateway without grant":      {"shop", []string{shop}, []string{strings.Split(shop, "\n---\n")[2]}, nil, []string{shopHas[0], shopHas[2]}},
		"no Secret":                    {"shop", []string{shop}, []string{secrets}, nil, []string{"ConfigMap/clients", "Secret/" + local("certs/granted"), "Secret/own"}},
		"a ListenerSet":                {"shop", []string{shop, set}, nil, nil, append([]string{"Secret/" + local("team/team") + pair}, shopHas...)},
		"a ListenerSet gone":           {"shop", []string{shop, set}, []string{strings.Split(set, "\n---\n")[1]}, nil, shopHas},
		"beyond the budget":            {"shop", []string{shop, set, second, budgeted}, nil, nil, append([]string{"Secret/" + local("team/last"), "Secret/" + local("team/team") + pair}, shopHas...)},
		"the oldest is gone":           {"shop", []string{shop, budgeted, set, second}, []string{strings.Split(set, "\n---\n")[1]}, nil, append([]string{"Secret/" + local("team/login") + pair, "Secret/" + local("team/users") + pair}, shopHas...)},
		"within another budget":        {"shop", []string{shop, budgeted, set, second, strings.Replace(budgeted, "2}", "4}", 1)}, nil, nil, append([]string{"Secret/" + local("team/last"), "Secret/" + local("team/login") + pair, "Secret/" + local("team/team") + pair, "Secret/" + local("team/users") + pair}, shopHas...)},
		"one that is not allowed":      {"shop", []string{shop, set, strings.Replace(strings.Split(set, "\n---\n")[0], "hosts", "none", 1)}, nil, nil, shopHas},
		"a GatewayAttachment":          {"shop", []string{shop, attachment("uid-of-made", "True"), consents}, nil, nil, attached},
		"one that nobody consents to":  {"shop", []string{shop, attachment("uid-of-made", "True")}, nil, nil, shopHas},
		"one of somebody else's role":  {"shop", []string{shop, attachment("uid-of-made", "True"), strings.Replace(consents, "gateway-attached", "view", 1)}, nil, nil, shopHas},
		"one for another Gateway":      {"shop", []string{shop, attachment("uid-of-made", "True"), strings.Replace(consents, "shop-gateway", "plain-gateway", 1)}, nil, nil, shopHas},
		"a consent that is taken back": {"shop", []string{shop, attachment("uid-of-made", "True"), consents}, []string{consents}, nil, shopHas},
		"one that is not bound":        {"shop", []string{shop, attachment("uid-of-made", "False"), consents}, nil, nil, shopHas},
		"one of an earlier Gateway":    {"shop", []string{shop, attachment("other", "True"), consents}, nil, nil, shopHas},
		"copies, where it may not read": {"shop", []string{shop, attachment("uid-of-made", "True"), consents}, nil, func(namespace string) bool { return namespace == "web" }, []string{
			"ConfigMap/clients" + texts, "ConfigMap/own" + texts, "ConfigMap/" + local("team/team"), "Secret/" + local("certs/granted"),
			"Secret/" + local("team/login"), "Secret/" + local("team/users"), "Secret/own" + pair,
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.reads == nil {
				test.reads = everywhere
			}
			s := newState(test.reads)
			s.put(t, false, read(t, secrets)...)
			for _, documents := range test.now {
				s.put(t, false, read(t, documents)...)
			}
			for _, documents := range test.gone {
				s.put(t, true, read(t, documents)...)
			}
			slices.Sort(test.want)
			if got := s.given(test.gateway); !slices.Equal(got, test.want) {
				t.Errorf("the pods get\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(test.want, "\n  "))
			}
		})
	}
}

// TestOrder: what a Gateway may have depends on what there is, and not on how it came about.
func TestOrder(t *testing.T) {
	objects := read(t, secrets, strings.Replace(shop, strings.Split(shop, "\n---\n")[1], budgeted, 1), set, second, own, consents, attachment("uid-of-made", "True"))
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		s, there := newState(everywhere), map[int]bool{}
		for range 200 {
			i := random.IntN(len(objects))
			gone := random.IntN(3) == 0
			there[i] = !gone
			s.put(t, gone, objects[i])
		}
		fresh := newState(everywhere)
		for i, object := range objects {
			if there[i] {
				fresh.put(t, false, object)
			}
		}
		for _, gateway := range []string{"shop", "plain"} {
			if got, want := s.given(gateway), fresh.given(gateway); !slices.Equal(got, want) {
				t.Fatalf("seed %d: Gateway %s has\n  %s\nwant\n  %s", seed, gateway, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		}
		for i, object := range objects {
			if there[i] {
				s.put(t, true, object)
			}
		}
		if n := len(s.objects) + len(s.wanters) + len(s.plans) + len(s.claimed) + len(s.dependents) + len(s.grants) + len(s.bindings) + len(s.consents) +
			len(s.teams) + len(s.teamOf) + len(s.unsettled); n > 0 {
			t.Fatalf("seed %d: of no objects, %d things are left: %+v", seed, n, s)
		}
	}
}

// TestWithdrawn: what the server may not read any more is as if it were gone, until it may again.
func TestWithdrawn(t *testing.T) {
	s := newState(everywhere)
	s.put(t, false, read(t, secrets, shop)...)
	before := s.given("shop")
	in := place{"Secret", "certs"}
	if !s.withdraw(in, true) || s.withdraw(in, true) {
		t.Error("only the first call changes anything")
	}
	if got := s.given("shop"); !slices.Contains(got, "Secret/"+local("certs/granted")) || len(got) != len(before) {
		t.Errorf("the pods get %q", got)
	}
	if s.withdraw(in, false); !slices.Equal(s.given("shop"), before) {
		t.Errorf("the pods get %q", s.given("shop"))
	}
}

func TestStrip(t *testing.T) {
	for _, object := range read(t, secrets)[:2] {
		before, _ := object.(metav1.Object)
		before.SetLabels(map[string]string{"a": "b"})
		kept := must.Get(strip(object))(t)
		again, err := strip(kept)
		if err != nil || !isSameFiles(newObject(again.(metav1.Object)).files, newObject(kept.(metav1.Object)).files) {
			t.Errorf("%+v becomes %+v, error %v", kept, again, err)
		}
		if files := newObject(kept.(metav1.Object)).files; files["other"] != nil || len(files) < 4 || len(kept.(metav1.Object).GetLabels()) > 0 {
			t.Errorf("%+v is kept", kept)
		}
	}
}
