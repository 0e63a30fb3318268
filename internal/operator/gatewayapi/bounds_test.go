package gatewayapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	source "gateway/internal/source/gatewayapi"
)

// TestMessagesAreCut: ten expressions of 4,000 bytes that are none, each quoted.
func TestMessagesAreCut(t *testing.T) {
	var matches []string
	for i := range 10 {
		matches = append(matches, fmt.Sprintf(`{headers: [{type: RegularExpression, name: a%d, value: "[%s"}]}`, i, strings.Repeat("a", 4000)))
	}
	f := newSettled(t, strings.Replace(shop, "rules: [{", "rules: [{matches: ["+strings.Join(matches, ", ")+"], ", 1))
	for _, object := range f.list(routeKind("HTTPRoute")) {
		parents := object.(*gatewayv1.HTTPRoute).Status.Parents
		if len(parents) != 1 {
			t.Fatalf("the status is %+v", parents)
		}
		for _, c := range parents[0].Conditions {
			if len(c.Message) > model.MaxMessage {
				t.Errorf("%s has a message of %d bytes", c.Type, len(c.Message))
			}
		}
		if c := meta.FindStatusCondition(parents[0].Conditions, "PartiallyInvalid"); c == nil || len(c.Message) < model.MaxMessage-10 {
			t.Errorf("the conditions are %+v", parents[0].Conditions)
		}
	}
}

// TestOnlySoManyAncestors fit into a status: those with something wrong come first. The last one counts the others.
func TestOnlySoManyAncestors(t *testing.T) {
	at := func(name, controller string, status metav1.ConditionStatus) gatewayv1.PolicyAncestorStatus {
		return gatewayv1.PolicyAncestorStatus{
			AncestorRef:    gatewayv1.ParentReference{Name: gatewayv1.ObjectName(name)},
			ControllerName: gatewayv1.GatewayController(controller), Conditions: []metav1.Condition{{Type: "Accepted", Status: status}},
		}
	}
	list := []gatewayv1.PolicyAncestorStatus{at("foreign", "example.com/other", "True")}
	var wanted []gatewayv1.PolicyAncestorStatus
	for i := range 20 {
		wanted = append(wanted, at(fmt.Sprint(i), string(source.ControllerName), "True"))
	}
	wanted[18] = at("bad", string(source.ControllerName), "False")
	for range 2 {
		gatewayAncestors.set(&list, wanted, metav1.Now())
		var names []string
		for _, one := range list {
			names = append(names, string(one.AncestorRef.Name))
		}
		if got := strings.Join(names, " "); got != "foreign bad 0 1 2 3 4 5 6 7 8 9 10 11 12 13" {
			t.Errorf("there are %s", got)
		}
		if got := list[15].Conditions[0].Message; got != "5 more Gateways are not listed" || wanted[13].Conditions[0].Message != "" {
			t.Errorf("the last one says %q", got)
		}
		if again := gatewayAncestors.set(&list, wanted, metav1.Now()); again {
			t.Error("it changes by itself")
		}
	}
}

// TestATenantCannotUseUpAttachments: 33 policies with 8 ConfigMaps each ask for more than a Gateway has. Their statuses
// say so, and what others had stays.
func TestATenantCannotUseUpAttachments(t *testing.T) {
	const first = `
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: web, name: first}
spec: {targetRefs: [{group: "", kind: Service, name: api}], validation: {hostname: a.io, caCertificateRefs: [{group: "", kind: ConfigMap, name: zz}]}}`
	f := newSettled(t, shop+"\n---"+first)
	var refs []string
	for i := range 33 {
		refs = append(refs, fmt.Sprintf("{name: s%d, port: 80}", i))
		var authorities []string
		for j := range 8 {
			authorities = append(authorities, fmt.Sprintf(`{group: "", kind: ConfigMap, name: c%d-%d}`, i, j))
		}
		f.put(fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {namespace: team, name: s%d}\nspec: {ports: [{port: 80}]}", i))
		f.put(fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: team, name: p%d}
spec: {targetRefs: [{group: "", kind: Service, name: s%d}], validation: {hostname: a.io, caCertificateRefs: [%s]}}`, i, i, strings.Join(authorities, ", ")))
	}
	f.put(strings.Replace(other, "{name: api, port: 80}", strings.Join(refs, ", "), 1))
	f.settleAll("a tenant asks for too much")
	f.put(strings.ReplaceAll(strings.Split(other, "\n---")[2], "team", "late"))
	f.settleAll("another one comes")
	f.expectAttached("late team web")
	if told := f.told().ConfigMaps; len(told) != 1 || told[0].Name != "zz" {
		t.Errorf("namespace web has the ConfigMaps %v", told)
	}
	f.expectConditions(ownKind("GatewayAttachment"), "web", "shop.team", "Bound=True Bound",
		"Mounted=False TooMany: the pods mount 256 ConfigMaps for this namespace, and 8 more are left out, such as "+source.LocalName("web", "team", "c9-0"))
	const problem = "the Gateway mounts 256 ConfigMaps for namespace team already: remove some, or use another Gateway"
	tls := routeKind("BackendTLSPolicy")
	f.expectConditions(tls, "team", "p0", "ancestors[0] Accepted=True Accepted", "ancestors[0] ResolvedRefs=True ResolvedRefs")
	f.expectConditions(tls, "team", "p8", "ancestors[0] Accepted=True Accepted", "ancestors[0] ResolvedRefs=True ResolvedRefs")
	if all := strings.Join(f.conditions(tls, "team", "p9"), "\n"); !strings.Contains(all, "Accepted=False NoValidCACertificate: no CA certificate can be used: caCertificateRefs[0]: "+problem) {
		t.Errorf("the last policy has\n%s", all)
	}
	f.expectConditions(routeKind("BackendTLSPolicy"), "web", "first", "ancestors[0] Accepted=True Accepted", "ancestors[0] ResolvedRefs=True ResolvedRefs")
}

// TestWhatIsInvalidIsNotSentAgain until it differs.
func TestWhatIsInvalidIsNotSentAgain(t *testing.T) {
	f := newFixture(t, shop)
	refusing := true
	f.routes.PrependReactor("update", "httproutes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return refusing, nil, apierrors.NewInvalid(routeKind("HTTPRoute").GroupKind(), "api", nil)
	})
	const write = "update httproutes/status web/api"
	if writes := f.mustSync(); !slices.Contains(writes, write) {
		t.Fatalf("there is %q", writes)
	}
	for range 3 {
		f.now = f.now.Add(lastRetry)
		f.later[rebuild] = true
		if writes := f.mustSync(); slices.Contains(writes, write) {
			t.Error("it is sent again")
		}
	}
	refusing = false
	f.program("web", "shop")
	if writes := f.mustSync(); !slices.Contains(writes, write) {
		t.Errorf("what differs is not sent, only %q", writes)
	}
	if len(f.controller.futile) > 0 {
		t.Errorf("remembered is %v", f.controller.futile)
	}
}

// TestCertificatesOfAKeyServer: pods that mount no certificates have any number of them.
func TestCertificatesOfAKeyServer(t *testing.T) {
	var listeners []string
	for i := range 17 {
		var refs []string
		for j := range 16 {
			refs = append(refs, fmt.Sprintf("{name: tls-%d-%d}", i, j))
		}
		listeners = append(listeners, fmt.Sprintf("{name: l%d, port: 443, protocol: HTTPS, hostname: h%d.example.com, tls: {certificateRefs: [%s]}}", i, i, strings.Join(refs, ", ")))
	}
	for _, hasKeyServer := range []bool{false, true} {
		f := newFixture(t, strings.Replace(shop, "[{name: http, port: 80, protocol: HTTP}]", "["+strings.Join(listeners, ", ")+"]", 1))
		f.controller.inputs.KeyServer = hasKeyServer
		f.settle()
		conditions := strings.Join(f.conditions(routeKind("Gateway"), "web", "shop"), "\n")
		if strings.Contains(conditions, "mount at most 256 certificates") == hasKeyServer {
			t.Errorf("with a key server %v, the conditions are\n%s", hasKeyServer, conditions)
		}
		if refs := f.ownGateway("web", "shop").Spec.Listeners[0].TLS.CertificateRefs; len(refs) != 256 {
			t.Errorf("our Gateway names %d certificates", len(refs))
		}
	}
}
