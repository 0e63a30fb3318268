package ingress

import (
	"slices"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// TestServedFiltersKeepTheirNames: a RouteFilter has the name of its content, so an edit changes no filter that a rule
// refers to.
func TestServedFiltersKeepTheirNames(t *testing.T) {
	names := func(annotations ...string) (all []string) {
		text := ""
		for i, one := range annotations {
			text += pathOf("a", "web", "a.test", "/"+string(rune('a'+i)), one)
		}
		in := parseText(t, text)
		in.Serving = true
		for _, filter := range objects[*appv1.RouteFilter](Translate(in)) {
			all = append(all, filter.Name)
		}
		return all
	}
	const one, two = Prefix + "denylist-source-range: 10.0.0.0/8", Prefix + "denylist-source-range: 10.1.0.0/16"
	before, swapped := names(one, two), names(two, one)
	if len(before) != 2 || before[0] == before[1] || !slices.Equal(swapped, []string{before[1], before[0]}) {
		t.Errorf("got %q, and %q of the same in another order", before, swapped)
	}
}

// TestTakenNames: what is made has no name that is taken, and what refers to it has the other name, too.
func TestTakenNames(t *testing.T) {
	const secure = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: b}
spec:
  tls: [{hosts: [a.test], secretName: a-test}]
  rules: [{host: a.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`
	in := parseText(t, secure)
	in.Taken = []Subject{{"ListenerSet", "b", "ingress"}, {"HTTPRoute", "b", "ingress-a-test"}}
	result := Translate(in)
	var names []string
	for _, object := range result.Objects {
		names = append(names, object.GetObjectKind().GroupVersionKind().Kind+" "+object.GetName())
	}
	want := []string{"GatewayConfig ingress", "Gateway ingress", "ListenerSet ingress-02", "HTTPRoute ingress-a-test-redirect", "HTTPRoute ingress-a-test-02"}
	slices.Sort(want)
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	for _, route := range objects[*gatewayv1.HTTPRoute](result) {
		if parent := route.Spec.ParentRefs[0]; route.Name == "ingress-a-test-02" && parent.Name != "ingress-02" {
			t.Errorf("its parent is %s", parent.Name)
		}
	}
}

// TestOlderRoutesComeFirst: what is tried before a location with guards, and by nginx after it, is closed, whatever the
// order of the namespaces.
func TestOlderRoutesComeFirst(t *testing.T) {
	const ranges = Prefix + "denylist-source-range: 10.0.0.0/8, " + Prefix + "use-regex: \"true\""
	text := pathOf("a", "guarded", "a.test", "/ab", ranges) + pathOf("b", "open", "a.test", "/a", "")
	now := time.Unix(1_000_000, 0)
	older, younger := Period{now, now}, Period{now.Add(time.Second), now.Add(time.Second)}
	a, b := HostRoutes{"a", "a.test"}, HostRoutes{"b", "a.test"}
	for name, test := range map[string]struct {
		routes map[HostRoutes]Period
		closed bool
	}{
		"no routes":                     {nil, false},
		"a route of the guarded one":    {map[HostRoutes]Period{a: older}, false},
		"a route of the other":          {map[HostRoutes]Period{b: older}, true},
		"that of the guarded one older": {map[HostRoutes]Period{a: older, b: younger}, false},
		"that of the other older":       {map[HostRoutes]Period{a: younger, b: older}, true},
		"as old":                        {map[HostRoutes]Period{a: older, b: older}, false},
		"one of the guarded one older":  {map[HostRoutes]Period{a: {now, now.Add(2 * time.Second)}, b: younger}, true},
	} {
		t.Run(name, func(t *testing.T) {
			in := parseText(t, text)
			in.Routes = test.routes
			got, want := answers(Translate(in)), []string{"(?i)/ab.* Service guarded", "(?i)/a.* Service open"}
			if test.closed {
				want[1] = "(?i)/a.* 503"
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestOwners: the Ingresses that a route and its RouteFilters are for are known, also for redirects and canaries.
func TestOwners(t *testing.T) {
	const canary = Prefix + `canary: "true", ` + Prefix + "canary-weight: \"10\""
	text := pathOf("a", "web", "a.test", "/", "") + pathOf("a", "new", "a.test", "/", canary) +
		pathOf("a", "old", "a.test", "/old", Prefix+"permanent-redirect: https://b.test") + pathOf("a", "other", "b.test", "/", "")
	result := convertText(t, text)
	got := map[string][]string{}
	for _, object := range result.Objects {
		for _, owner := range result.Owners(object) {
			name := object.GetObjectKind().GroupVersionKind().Kind + " " + object.GetName()
			got[name] = append(got[name], owner.Name)
		}
	}
	for name, want := range map[string][]string{
		"HTTPRoute ingress-a-test": {"new", "old", "web"}, "HTTPRoute ingress-b-test": {"other"}, "Gateway ingress": nil, "GatewayConfig ingress": nil,
	} {
		if slices.Sort(got[name]); !slices.Equal(got[name], want) {
			t.Errorf("%s is for %q, want %q", name, got[name], want)
		}
	}
}

// TestConsent: while objects are served, an Ingress refers to a Service of another namespace by a ReferenceGrant alone.
func TestConsent(t *testing.T) {
	grant := func(from, kind string, to gatewayv1.ReferenceGrantTo) *gatewayv1.ReferenceGrant {
		one := &gatewayv1.ReferenceGrant{}
		one.Namespace = "b"
		one.Spec.From = []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: gatewayv1.Kind(kind), Namespace: gatewayv1.Namespace(from)}}
		one.Spec.To = []gatewayv1.ReferenceGrantTo{to}
		return one
	}
	service := gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName("asked"))}
	other := gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName("other"))}
	for name, test := range map[string]struct {
		grants []*gatewayv1.ReferenceGrant
		may    bool
	}{
		"no grant":              {nil, false},
		"a grant":               {[]*gatewayv1.ReferenceGrant{grant("a", "HTTPRoute", service)}, true},
		"one to all Services":   {[]*gatewayv1.ReferenceGrant{grant("a", "HTTPRoute", gatewayv1.ReferenceGrantTo{Kind: "Service"})}, true},
		"one from elsewhere":    {[]*gatewayv1.ReferenceGrant{grant("c", "HTTPRoute", service)}, false},
		"one from another kind": {[]*gatewayv1.ReferenceGrant{grant("a", "TCPRoute", service)}, false},
		"one to another":        {[]*gatewayv1.ReferenceGrant{grant("a", "HTTPRoute", other)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := parseText(t, pathOf("a", "web", "a.test", "/", Prefix+"auth-url: http://asked.b.svc/, "+Prefix+"mirror-target: http://asked.b.svc$request_uri"))
			in.Serving, in.Grants = true, test.grants
			result := Translate(in)
			made := slices.ContainsFunc(result.Objects, func(o Object) bool { return o.GetNamespace() == "b" })
			if got := answers(result)[0] == "/ Service web"; got != test.may || made != test.may {
				t.Errorf("it asks: %t, and something is made in the other namespace: %t; the notes are %v", got, made, result.Notes)
			}
		})
	}
}

// TestErrorsOfAnotherNamespace: a RouteFilter in the namespace of the Gateway names no Service there.
func TestErrorsOfAnotherNamespace(t *testing.T) {
	const service = "\n{apiVersion: v1, kind: Service, metadata: {name: errors, namespace: b}, spec: {ports: [{port: 80}]}}\n---"
	result := convertText(t, pathOf("b", "web", "a.test", "/", Prefix+"auth-type: basic, "+Prefix+"auth-secret: users, "+
		Prefix+"custom-http-errors: '404', "+Prefix+"default-backend: errors")+service)
	filters := objects[*appv1.RouteFilter](result)
	if len(filters) != 1 || filters[0].Namespace != home || len(filters[0].Spec.Filters) != 1 || filters[0].Spec.Filters[0].BasicAuth == nil {
		t.Errorf("got the filters %+v", filters)
	}
}
