package schema

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
)

// TestRouteFilter: a RouteFilter has the filters that the Gateway API lacks, each once, by the rules of a Gateway's.
func TestRouteFilter(t *testing.T) {
	t.Parallel()
	limit := appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{{Requests: 1, Unit: appv1.RateLimitHour}}}}
	clients := appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: &appv1.ClientAddress{Deny: []appv1.AddressRange{"10.0.0.0/8"}}}
	auth := appv1.RuleFilter{Type: appv1.RuleFilterExternalAuth, ExternalAuth: &appv1.ExternalAuth{BackendRef: appv1.ExternalAuthBackendRef{Name: "a", Port: 80}}}
	basic := func(clientHeader appv1.HeaderName) appv1.RuleFilter {
		return appv1.RuleFilter{Type: appv1.RuleFilterBasicAuth, BasicAuth: &appv1.BasicAuth{SecretRef: appv1.ObjectReference{Name: "a"}, ClientHeader: clientHeader}}
	}
	framing := auth
	framing.ExternalAuth = &appv1.ExternalAuth{BackendRef: auth.ExternalAuth.BackendRef, ResponseHeaders: []appv1.HeaderName{"Content-Length"}}
	jwt := appv1.RuleFilter{Type: appv1.RuleFilterJWT, JWT: &appv1.JWT{Issuers: []appv1.JWTIssuer{{Issuer: "a", Audiences: []appv1.JWTAudience{"a"}, Keys: appv1.JWTKeys{Inline: "a"}}}}}
	stored := appv1.RuleFilter{Type: appv1.RuleFilterCache, Cache: &appv1.Cache{}}
	response := appv1.RuleFilter{Type: appv1.RuleFilterDirectResponse, DirectResponse: &appv1.DirectResponse{Body: "a"}}
	noContent := response
	noContent.DirectResponse = &appv1.DirectResponse{StatusCode: new(int32(204)), Body: "a"}
	tooFew := limit
	tooFew.RateLimit = &appv1.RateLimit{Limits: []appv1.RequestLimit{{Unit: appv1.RateLimitHour}}}
	for name, test := range map[string]struct {
		filters []appv1.RuleFilter
		want    string
	}{
		"all":                        {[]appv1.RuleFilter{limit, clients, jwt, auth}, ""},
		"a direct response":          {[]appv1.RuleFilter{limit, clients, jwt, auth, response}, ""},
		"a response that is stored":  {[]appv1.RuleFilter{response, stored}, "spec.filters: Invalid value: DirectResponse answers the requests, so Cache has no effect"},
		"a body that cannot be":      {[]appv1.RuleFilter{noContent}, "spec.filters[0].directResponse.body: Invalid value: an answer with the status 204 or 304 has no body"},
		"stored answers":             {[]appv1.RuleFilter{limit, clients, stored}, ""},
		"stored answers of users":    {[]appv1.RuleFilter{jwt, stored}, "spec.filters: Invalid value: Cache would answer all users alike: remove it, or BasicAuth, APIKey, JWT and ExternalAuth"},
		"none":                       {nil, "spec: Invalid value: it says nothing: add filters or maxRequestBytes"},
		"twice":                      {[]appv1.RuleFilter{limit, limit}, `spec.filters[1]: Duplicate value: {"type":"RateLimit"}`},
		"too few":                    {[]appv1.RuleFilter{tooFew}, "spec.filters[0].rateLimit.limits[0].requests: Invalid value: 0"},
		"no field":                   {[]appv1.RuleFilter{{Type: appv1.RuleFilterRateLimit}}, "spec.filters[0].rateLimit: Required value"},
		"a user in a framing header": {[]appv1.RuleFilter{basic("Content-Length")}, `spec.filters[0].basicAuth.clientHeader: Invalid value: "Content-Length"`},
		"a framing header":           {[]appv1.RuleFilter{framing}, `spec.filters[0].externalAuth.responseHeaders[0]: Invalid value: "Content-Length"`},
		"both in 1":                  {[]appv1.RuleFilter{{Type: limit.Type, RateLimit: limit.RateLimit, ClientAddress: clients.ClientAddress}}, "spec.filters[0]: Too many: 3: must have at most 2 items"},
		"another type": {
			[]appv1.RuleFilter{{Type: appv1.RuleFilterCORS, CORS: &appv1.CORS{AllowOrigins: []appv1.CORSOrigin{"*"}}}},
			"spec.filters: Invalid value: HTTPRoutes and GRPCRoutes have RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite, CORS and RequestMirror themselves: add them there",
		},
	} {
		expectFilter(t, name, appv1.RouteFilterSpec{Filters: test.filters}, test.want)
	}
	empty := `{"apiVersion":"app.example.com/v1","kind":"RouteFilter","metadata":{"name":"a"},"spec":{"filters":[]}}`
	err := server.App.AppV1().RESTClient().Post().Namespace("default").Resource("routefilters").Body([]byte(empty)).Do(t.Context()).Error()
	if err == nil || !strings.Contains(err.Error(), "spec.filters: Invalid value: 0: spec.filters in body should have at least 1 items") {
		t.Errorf("empty: got the error %v", err)
	}
	for most, want := range map[int64]string{
		0: "", 1 << 40: "", -1: "spec.maxRequestBytes: Invalid value: -1: spec.maxRequestBytes in body should be greater than or equal to 0",
		1<<40 + 1: "spec.maxRequestBytes in body should be less than or equal to 1099511627776",
	} {
		expectFilter(t, fmt.Sprint(most, " bytes"), appv1.RouteFilterSpec{MaxRequestBytes: new(most)}, want)
		expectFilter(t, fmt.Sprint(most, " bytes and a filter"), appv1.RouteFilterSpec{MaxRequestBytes: new(most), Filters: []appv1.RuleFilter{limit}}, want)
	}
}

// TestShadowOfRouteFilters: a RouteFilter can have in shadow only what it has.
func TestShadowOfRouteFilters(t *testing.T) {
	t.Parallel()
	limit := appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{{Requests: 1, Unit: appv1.RateLimitHour}}}}
	const missing = "spec.shadow: Invalid value: it names a filter that is not there: add the filter here, or remove the name"
	for name, want := range map[appv1.ShadowFilter]string{"RateLimit": "", "maxRequestBytes": missing, "JWT": missing} {
		expectFilter(t, string(name), appv1.RouteFilterSpec{Filters: []appv1.RuleFilter{limit}, Shadow: []appv1.ShadowFilter{name}}, want)
	}
	expectFilter(t, "a limit", appv1.RouteFilterSpec{MaxRequestBytes: new(int64(1)), Shadow: []appv1.ShadowFilter{appv1.ShadowMaxRequestBytes}}, "")
}

// expectFilter expects an error that contains a text, or none if that is empty.
func expectFilter(t *testing.T, name string, spec appv1.RouteFilterSpec, want string) {
	t.Helper()
	filter := &appv1.RouteFilter{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: spec}
	_, err := server.App.AppV1().RouteFilters("default").Create(t.Context(), filter, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: got the error %v, want %q", name, err, want)
	}
}
