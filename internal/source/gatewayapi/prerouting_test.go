package gatewayapi_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	"gateway/internal/source/gatewayapi"
)

// TestPreRouting: listeners have a question that comes before the choice of a route, or let no request pass.
func TestPreRouting(t *testing.T) {
	objects := read(t, "testdata/prerouting.yaml")
	objects.Policies = append(objects.Policies, parse[gatewayv1.BackendTLSPolicy](t, []byte(`
metadata: {name: login, namespace: team}
spec: {targetRefs: [{group: "", kind: Service, name: login}], validation: {hostname: login.team, wellKnownCACertificates: System}}`)))
	plane := gatewayapi.Translate(objects).Planes[gatewayapi.GatewayParent("infra", "asks")]
	asks := func(of, namespace, path string, more ...string) *model.PreRouting {
		return &model.PreRouting{Namespace: of, ExternalAuth: model.ExternalAuth{
			Backend: model.Backend{Namespace: namespace, Service: "login", Port: 80}, Path: path, Timeout: 5 * time.Second, Repeat: true,
			RequestHeaders: append([]string{"authorization"}, more[:len(more)/2]...), ResponseHeaders: slices.Clone(more[len(more)/2:]),
		}}
	}
	want := map[string]*model.PreRouting{
		"own": asks("infra", "infra", "/check", "cookie", "x-team"), "other-namespace": asks("infra", "identity", ""),
		"set of ListenerSet team/set": asks("team", "team", ""), "granted of ListenerSet team/set": asks("team", "identity", ""),
	}
	for _, l := range plane.Listeners {
		filters := l.Filters
		if filters == nil {
			filters = &model.Action{}
		}
		if got := filters.PreRouting; (got == nil) != (want[l.Title] == nil) || got != nil && !isSameQuestion(got, want[l.Title]) {
			t.Errorf("%s: got %+v, want %+v", l.Title, got, want[l.Title])
		}
		if isClosed := l.Title == "missing" || l.Title == "not-granted"; isClosed != (filters.Refused != "") {
			t.Errorf("%s: it is closed because %q", l.Title, filters.Refused)
		}
	}
	if plane.Policies[model.Backend{Namespace: "team", Service: "login", Port: 80}].TLS == nil {
		t.Errorf("the question is asked without the TLS of its BackendTLSPolicy: %+v", plane.Policies)
	}
}

func isSameQuestion(a, b *model.PreRouting) bool {
	x, y := a.ExternalAuth, b.ExternalAuth
	isSame := slices.Equal(x.RequestHeaders, y.RequestHeaders) && slices.Equal(x.ResponseHeaders, y.ResponseHeaders)
	x.RequestHeaders, x.ResponseHeaders, y.RequestHeaders, y.ResponseHeaders = nil, nil, nil, nil
	return isSame && a.Namespace == b.Namespace && reflect.DeepEqual(x, y)
}
