package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// The namespaces of routes whose rules have RouteFilters, and of one that has the filters of a GatewayConfig.
const filterTeam, configTeam = "filter-team", "config-team"

// limitOf lets so many requests of the rule through in an hour.
func limitOf(requests int32) appv1.RuleFilter {
	return appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{
		Limits: []appv1.RequestLimit{{Requests: requests, Unit: appv1.RateLimitHour, Key: &appv1.RateLimitKey{Type: appv1.RateLimitRule}}},
	}}
}

func clientsOf(clients appv1.ClientAddress) appv1.RuleFilter {
	return appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: &clients}
}

const loopback appv1.AddressRange = "127.0.0.0/8"

// testFirstRouteFilter: no request fails when a route comes to name a RouteFilter that the agents know, though no route
// of the namespace did before.
func testFirstRouteFilter(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	ctx := t.Context()
	filters, routes := server.App.AppV1().RouteFilters(filterTeam), api.GatewayV1().HTTPRoutes(filterTeam)
	must.Get(routes.Create(ctx, newRoute(filterTeam, "guarded", shop(), "/guarded", service("api")), metav1.CreateOptions{}))(t)
	filter := must.Get(filters.Create(ctx, &appv1.RouteFilter{
		ObjectMeta: metav1.ObjectMeta{Name: "first"}, Spec: appv1.RouteFilterSpec{Filters: []appv1.RuleFilter{clientsOf(appv1.ClientAddress{Allow: []appv1.AddressRange{loopback}})}},
	}, metav1.CreateOptions{}))(t)
	expectRoute(t, api, filterTeam, "guarded", 1, "Programmed=True")
	testenv.Eventually(t, soon, "the agent to know the RouteFilter", func(ctx context.Context) error {
		proxy, err := server.App.AppV1().GatewayProxies(infra).Get(ctx, "shop-pod", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.Contains(proxy.Status.Resources, appv1.ProxiedResource{Resource: "routefilters", Namespace: filterTeam, ResourceVersion: filter.ResourceVersion}) {
			return fmt.Errorf("it reports %+v", proxy.Status.Resources)
		}
		return nil
	})
	asking, stop := context.WithCancel(ctx)
	var asked sync.WaitGroup
	asked.Go(func() {
		for asking.Err() == nil {
			if err := expectStatus(ctx, port, http.StatusOK); err != nil {
				t.Error(err)
			}
		}
	})
	must.Get(routes.Patch(ctx, "guarded", types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/rules/0/filters","value":[
		{"type":"ExtensionRef","extensionRef":{"group":"app.example.com","kind":"RouteFilter","name":"first"}}]}]`), metav1.PatchOptions{}))(t)
	expectRoute(t, api, filterTeam, "guarded", 2, "ResolvedRefs=True", "Programmed=True")
	stop()
	asked.Wait()
	must.Do(t, filters.Delete(ctx, "first", metav1.DeleteOptions{}))
	must.Do(t, routes.Delete(ctx, "guarded", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/guarded", 404, "")
}

// testRouteFilters: a RouteFilter acts on an HTTPRoute's requests, and its edits are live without a reload, but for
// the first ClientAddress. Without it, they are answered with 500.
func testRouteFilters(t *testing.T, api routesclient.Interface, haproxy *haproxytest.Instance, port int32) {
	t.Helper()
	ctx := t.Context()
	route := newRoute(filterTeam, "guarded", shop(), "/guarded", service("api"))
	route.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{
		Type: gatewayv1.HTTPRouteFilterExtensionRef, ExtensionRef: &gatewayv1.LocalObjectReference{Group: appv1.GroupName, Kind: "RouteFilter", Name: "guard"},
	}}
	must.Get(api.GatewayV1().HTTPRoutes(filterTeam).Create(ctx, route, metav1.CreateOptions{}))(t)
	expectRoute(t, api, filterTeam, "guarded", 1, "Accepted=True", "ResolvedRefs=False/BackendNotFound")
	expectAnswer(t, port, "/guarded", 500, "")

	filters := server.App.AppV1().RouteFilters(filterTeam)
	filter := must.Get(filters.Create(ctx, &appv1.RouteFilter{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"}, Spec: appv1.RouteFilterSpec{Filters: []appv1.RuleFilter{limitOf(2)}},
	}, metav1.CreateOptions{}))(t)
	expectRoute(t, api, filterTeam, "guarded", 1, "Accepted=True", "ResolvedRefs=True", "Programmed=True")
	expectLimit(t, port, 2)

	worker := workerOf(haproxy)
	edit := func(all ...appv1.RuleFilter) {
		t.Helper()
		filter.Spec.Filters = all
		filter = must.Get(filters.Update(ctx, filter, metav1.UpdateOptions{}))(t)
		expectRoute(t, api, filterTeam, "guarded", 1, "ResolvedRefs=True", "Programmed=True")
	}
	edit(limitOf(5))
	expectLimit(t, port, 3)
	expectWorker(t, haproxy, worker)
	edit(clientsOf(appv1.ClientAddress{Deny: []appv1.AddressRange{loopback}}))
	expectAnswer(t, port, "/guarded", 403, "")
	worker = workerOf(haproxy)
	edit(clientsOf(appv1.ClientAddress{Allow: []appv1.AddressRange{loopback}}))
	expectAnswer(t, port, "/guarded", 200, filterTeam+"/api")

	must.Do(t, filters.Delete(ctx, "guard", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/guarded", 500, "")
	expectMessage(t, api, "rules[0].filters[0]: there is no RouteFilter "+filterTeam+"/guard: create it or change the reference")
	filter.ResourceVersion = ""
	filter = must.Get(filters.Create(ctx, filter, metav1.CreateOptions{}))(t)
	expectAnswer(t, port, "/guarded", 200, filterTeam+"/api")
	expectRoute(t, api, filterTeam, "guarded", 1, "ResolvedRefs=True", "Programmed=True")
	expectWorker(t, haproxy, worker)

	edit(askedOf("api"))
	expectAnswer(t, port, "/guarded", 200, filterTeam+"/api")
	filter.Spec.Filters = []appv1.RuleFilter{askedOf("gone")}
	must.Get(filters.Update(ctx, filter, metav1.UpdateOptions{}))(t)
	expectRoute(t, api, filterTeam, "guarded", 1, "Accepted=True", "ResolvedRefs=False/BackendNotFound")
	expectAnswer(t, port, "/guarded", 500, "")
	must.Do(t, filters.Delete(ctx, "guard", metav1.DeleteOptions{}))
	must.Do(t, api.GatewayV1().HTTPRoutes(filterTeam).Delete(ctx, "guarded", metav1.DeleteOptions{}))
}

// testListenerFilters: the filters of a GatewayConfig are for the rules of all HTTPRoutes, and edits are live without a
// reload, but for the first of a type that takes one. A rule with a filter of the same type uses its own.
func testListenerFilters(t *testing.T, api routesclient.Interface, haproxy *haproxytest.Instance, port int32) {
	t.Helper()
	ctx := t.Context()
	createTeam(t, configTeam)
	edit := func(filters string) {
		t.Helper()
		must.Get(server.App.AppV1().GatewayConfigs(infra).Patch(ctx, "small", types.MergePatchType, []byte(`{"spec":{"filters":`+filters+`}}`), metav1.PatchOptions{}))(t)
	}
	route := newRoute(configTeam, "guarded", shop(), "/guarded", service("api"))
	must.Get(api.GatewayV1().HTTPRoutes(configTeam).Create(ctx, route, metav1.CreateOptions{}))(t)
	expectAnswer(t, port, "/guarded", 200, configTeam+"/api")
	edit(`[{"type":"ClientAddress","clientAddress":{"deny":["127.0.0.0/8"]}}]`)
	expectAnswer(t, port, "/guarded", 403, "")
	worker := workerOf(haproxy)
	expectAnswer(t, port, "/moved", 403, "")
	filter := &appv1.RouteFilter{
		ObjectMeta: metav1.ObjectMeta{Name: "open"}, Spec: appv1.RouteFilterSpec{Filters: []appv1.RuleFilter{clientsOf(appv1.ClientAddress{Allow: []appv1.AddressRange{loopback}})}},
	}
	must.Get(server.App.AppV1().RouteFilters(configTeam).Create(ctx, filter, metav1.CreateOptions{}))(t)
	must.Get(api.GatewayV1().HTTPRoutes(configTeam).Patch(ctx, "guarded", types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/rules/0/filters","value":[
		{"type":"ExtensionRef","extensionRef":{"group":"app.example.com","kind":"RouteFilter","name":"open"}}]}]`), metav1.PatchOptions{}))(t)
	expectAnswer(t, port, "/guarded", 200, configTeam+"/api")
	expectAnswer(t, port, "/moved", 403, "")
	expectWorker(t, haproxy, worker)

	edit(`[{"type":"ExternalAuth","externalAuth":{"backendRef":{"name":"gone","port":80}}}]`)
	expectResolved(t, api, "GatewayConfig: filters: there is no Service infra/gone: create it or change the reference")
	expectAnswer(t, port, "/guarded", 503, "")
	expectAnswer(t, port, "/moved", 503, "")
	worker = workerOf(haproxy)
	edit(`null`)
	expectGateway(t, api, 1, "Programmed=True")
	expectAnswer(t, port, "/guarded", 200, configTeam+"/api")
	expectAnswer(t, port, "/moved", 200, "team/api")
	expectWorker(t, haproxy, worker)
	testShadow(t, api, port)
	testBodies(t, port)
	must.Do(t, server.App.AppV1().RouteFilters(configTeam).Delete(ctx, "open", metav1.DeleteOptions{}))
	must.Do(t, api.GatewayV1().HTTPRoutes(configTeam).Delete(ctx, "guarded", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/guarded", 404, "")
}

// expectResolved waits until ResolvedRefs of Gateway shop has a message.
func expectResolved(t *testing.T, api routesclient.Interface, want string) {
	t.Helper()
	testenv.Eventually(t, soon, want, func(ctx context.Context) error {
		gateway, err := api.GatewayV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(gateway.Status.Conditions, string(gatewayv1.GatewayConditionResolvedRefs))
		if c == nil || c.Message != want {
			return fmt.Errorf("ResolvedRefs is %+v", c)
		}
		return nil
	})
}

// askedOf has a Service decide about requests.
func askedOf(service string) appv1.RuleFilter {
	return appv1.RuleFilter{
		Type: appv1.RuleFilterExternalAuth, ExternalAuth: &appv1.ExternalAuth{BackendRef: appv1.ExternalAuthBackendRef{Name: service, Port: 80}},
	}
}

// expectWorker fails if HAProxy was reloaded since a worker ran.
func expectWorker(t *testing.T, haproxy *haproxytest.Instance, worker string) {
	t.Helper()
	if now := workerOf(haproxy); now != worker {
		t.Errorf("HAProxy was reloaded: its worker is %s, and was %s", now, worker)
	}
}

// workerOf returns the process of HAProxy's worker.
func workerOf(haproxy *haproxytest.Instance) string {
	for line := range strings.Lines(haproxy.Worker("show info")) {
		if pid, ok := strings.CutPrefix(line, "Pid: "); ok {
			return strings.TrimSpace(pid)
		}
	}
	return ""
}

// expectLimit waits until a request is let through, and sees so many let through in all, and then none.
func expectLimit(t *testing.T, port int32, left int) {
	t.Helper()
	testenv.Eventually(t, soon, "a request to be let through", func(ctx context.Context) error {
		return expectStatus(ctx, port, http.StatusOK)
	})
	for range left - 1 {
		must.Do(t, expectStatus(t.Context(), port, http.StatusOK))
	}
	must.Do(t, expectStatus(t.Context(), port, http.StatusTooManyRequests))
}

func expectStatus(ctx context.Context, port int32, want int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/guarded", port), nil)
	if err != nil {
		return err
	}
	return expectAnswerOf(request, want)
}

// expectAnswerOf sends a request and wants a status.
func expectAnswerOf(request *http.Request, want int) error {
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	if response.StatusCode != want {
		err = errors.Join(err, fmt.Errorf("got %d, want %d", response.StatusCode, want))
	}
	return errors.Join(err, response.Body.Close())
}

// testBodies: the limit of a GatewayConfig is for all rules. One whose RouteFilter has a limit uses that.
func testBodies(t *testing.T, port int32) {
	t.Helper()
	ctx, app := t.Context(), server.App.AppV1()
	limit := func(most string) []byte { return []byte(`{"spec":{"maxRequestBytes":` + most + `}}`) }
	must.Get(app.GatewayConfigs(infra).Patch(ctx, "small", types.MergePatchType, limit("10"), metav1.PatchOptions{}))(t)
	expectBodies(t, port, 10)
	for _, most := range []int{20, 5} {
		must.Get(app.RouteFilters(configTeam).Patch(ctx, "open", types.MergePatchType, fmt.Appendf(nil, `{"spec":{"filters":null,"maxRequestBytes":%d}}`, most), metav1.PatchOptions{}))(t)
		expectBodies(t, port, most)
	}
	must.Get(app.GatewayConfigs(infra).Patch(ctx, "small", types.MergePatchType, limit("null"), metav1.PatchOptions{}))(t)
}

// expectBodies waits until no longer bodies than so are let through, whether they say their length or not.
func expectBodies(t *testing.T, port int32, most int) {
	t.Helper()
	send := func(ctx context.Context, length int, chunked bool, want int) error {
		var body io.Reader = strings.NewReader(strings.Repeat("a", length))
		if chunked {
			body = io.MultiReader(body) // which hides the length
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/guarded", port), body)
		if err != nil {
			return err
		}
		return expectAnswerOf(request, want)
	}
	testenv.Eventually(t, soon, fmt.Sprint("bodies of up to ", most, " bytes"), func(ctx context.Context) error {
		const long = http.StatusRequestEntityTooLarge
		return errors.Join(send(ctx, most, false, 200), send(ctx, most, true, 200), send(ctx, most+1, false, long), send(ctx, most+1, true, long))
	})
}

// expectMessage waits until ResolvedRefs of HTTPRoute guarded has a message.
func expectMessage(t *testing.T, api routesclient.Interface, want string) {
	t.Helper()
	testenv.Eventually(t, soon, want, func(ctx context.Context) error {
		route, err := api.GatewayV1().HTTPRoutes(filterTeam).Get(ctx, "guarded", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range route.Status.Parents[0].Conditions {
			if c.Type == "ResolvedRefs" && c.Status == metav1.ConditionFalse && c.Message == want {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", route.Status.Parents[0].Conditions)
	})
}
