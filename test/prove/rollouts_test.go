package prove

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/test/internal/load"
)

// rollout is a stand-in for the Gateway API plugin of Argo Rollouts, which cannot be had as a module. It writes what
// the plugin is documented to write: a label while a rollout is under way, weights of the canary and the stable
// Service, which add up to 100, and a named rule with headers for the canary alone. All else of the route stays.
type rollout struct {
	*site
	t *testing.T
}

const (
	inProgress = "rollouts.argoproj.io/gatewayapi-canary"
	headerRule = "canary-header"
)

// apiRoute has a Service that is not of the rollout, and a rule that is not.
const apiRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: team-0, name: api, annotations: {example.com/owner: team}}
spec:
  parentRefs: [{name: shop, namespace: infra, sectionName: http}]
  hostnames: [api.example.com]
  rules:
    - matches: [{path: {type: PathPrefix, value: /}}]
      backendRefs: [{name: stable, port: 80, weight: 100}, {name: canary, port: 80, weight: 0}, {name: foreign, port: 80, weight: 25}]
    - matches: [{path: {type: PathPrefix, value: /foreign}}]
      backendRefs: [{name: foreign, port: 80}]`

// change updates the whole route, again if somebody else was faster, and returns once all proxies run it.
func (r rollout) change(edit func(*gatewayv1.HTTPRoute)) time.Duration {
	r.t.Helper()
	begin, routes := time.Now(), r.api.GatewayV1().HTTPRoutes("team-0")
	var generation int64
	must(r.t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		route, err := routes.Get(r.t.Context(), "api", metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(route)
		route, err = routes.Update(r.t.Context(), route, metav1.UpdateOptions{})
		if err == nil {
			generation = route.Generation
		}
		return err
	}))
	must(r.t, poll(r.t.Context(), soon, 5*time.Millisecond, func(ctx context.Context) error {
		route, err := routes.Get(ctx, "api", metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, parent := range route.Status.Parents {
			c := meta.FindStatusCondition(parent.Conditions, "Programmed")
			if c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == generation {
				return nil
			}
		}
		return errors.New("the route is not Programmed")
	}))
	return time.Since(begin)
}

// setWeight is a step of the rollout; 0 is also its end and its abort.
func (r rollout) setWeight(canary int32) time.Duration {
	r.t.Helper()
	return r.change(func(route *gatewayv1.HTTPRoute) {
		if route.Labels == nil {
			route.Labels = map[string]string{}
		}
		route.Labels[inProgress] = "in-progress"
		if canary == 0 {
			delete(route.Labels, inProgress)
		}
		for i := range route.Spec.Rules {
			rule := &route.Spec.Rules[i]
			if rule.Name != nil && *rule.Name == headerRule {
				continue
			}
			for j := range rule.BackendRefs {
				switch rule.BackendRefs[j].Name {
				case "canary":
					rule.BackendRefs[j].Weight = ptr.To(canary)
				case "stable":
					rule.BackendRefs[j].Weight = ptr.To(100 - canary)
				}
			}
		}
	})
}

// setHeaderRoute has requests with a header go to the canary, or not any more.
func (r rollout) setHeaderRoute(is bool) time.Duration {
	r.t.Helper()
	return r.change(func(route *gatewayv1.HTTPRoute) {
		route.Spec.Rules = slices.DeleteFunc(route.Spec.Rules, func(rule gatewayv1.HTTPRouteRule) bool { return rule.Name != nil && *rule.Name == headerRule })
		if !is {
			return
		}
		rule := *route.Spec.Rules[0].DeepCopy()
		rule.Name = ptr.To[gatewayv1.SectionName](headerRule)
		rule.BackendRefs = slices.DeleteFunc(rule.BackendRefs, func(ref gatewayv1.HTTPBackendRef) bool { return ref.Name != "canary" })
		rule.BackendRefs[0].Weight = nil
		for i := range rule.Matches {
			rule.Matches[i].Headers = []gatewayv1.HTTPHeaderMatch{{Type: ptr.To(gatewayv1.HeaderMatchExact), Name: "X-Canary", Value: "yes"}}
		}
		route.Spec.Rules = append(route.Spec.Rules, rule)
	})
}

// TestRollouts: a rollout moves requests in steps, and back at once, and no request is lost or goes elsewhere.
func TestRollouts(t *testing.T) {
	s := startSite(t)
	s.createNamespace("team-0")
	for _, version := range []string{"stable", "canary", "foreign"} {
		s.createNamedService("team-0", version, s.startEcho("-version="+version))
	}
	s.apply(sharedGateway)
	p := s.startProxy(infra, "shop")
	s.apply(apiRoute)
	p.expect("api.example.com", "/", http.StatusOK)
	r := rollout{s, t}
	r.setWeight(0)
	p.reloads()
	requests := load.Start(t.Context(), load.Options{
		Address: net.JoinHostPort(p.address, "80"), Host: "api.example.com", Rate: 200,
		Slow: 5, WebSockets: 10, Delay: 3 * time.Second, Timeout: soon, Interval: time.Second,
		Check: func(answer load.Answer) error {
			if answer.Status != http.StatusOK {
				return fmt.Errorf("status %d", answer.Status)
			}
			return nil
		},
	})
	var took []time.Duration
	for _, weight := range []int32{10, 50, 100, 0, 25} {
		took = append(took, r.setWeight(weight))
		expectShares(t, p, weight)
	}
	expectNoReload(t, p, "weights")
	took = append(took, r.setHeaderRoute(true))
	if reloads := p.reloads(); reloads > 1 {
		t.Errorf("HAProxy has reloaded %v times for a header that no condition named before", reloads)
	}
	expectVersion(t, p, "/", true, "canary")
	expectVersion(t, p, "/foreign", false, "foreign")
	took = append(took, r.setWeight(75), r.setWeight(0)) // the abort
	expectShares(t, p, 0)
	expectVersion(t, p, "/", true, "canary") // the rule is named: no weight counts
	took = append(took, r.setHeaderRoute(false))
	expectShares(t, p, 0)
	result := requests.Stop()
	for _, failure := range result.Failures() {
		t.Error(failure)
	}
	expectNoReload(t, p, "an abort")
	row(t, "steps of a rollout, until Programmed", "%v (median), %v (most)", median(took), most(took))
	row(t, "requests and messages meanwhile", "%d, %d of them lost", result.Requests(), len(result.Failures()))
	route, err := s.api.GatewayV1().HTTPRoutes("team-0").Get(t.Context(), "api", metav1.GetOptions{})
	must(t, err)
	if len(route.Spec.Rules) != 2 || *route.Spec.Rules[0].BackendRefs[2].Weight != 25 || route.Annotations["example.com/owner"] != "team" {
		t.Errorf("the route is %+v", route.Spec.Rules)
	}
}

// expectShares checks where requests go that are sent once all proxies run the weights. The foreign Service has 25
// beside 100.
func expectShares(t *testing.T, p *proxy, canary int32) {
	t.Helper()
	const sent = 1000
	got := map[string]int{}
	for range sent {
		version, err := p.version(t.Context(), "/", false)
		must(t, err)
		got[version]++
	}
	for version, weight := range map[string]int32{"canary": canary, "stable": 100 - canary, "foreign": 25} {
		want := float64(weight) / 125 * sent
		if difference := float64(got[version]) - want; weight == 0 && got[version] > 0 || max(difference, -difference) > 0.05*sent {
			t.Errorf("with %d %% for the canary, %d of %d requests went to %s, want %.0f", canary, got[version], sent, version, want)
		}
	}
	t.Logf("%d %%: %v", canary, got)
}

func expectVersion(t *testing.T, p *proxy, path string, header bool, want string) {
	t.Helper()
	for range 50 {
		got, err := p.version(t.Context(), path, header)
		must(t, err)
		if got != want {
			t.Fatalf("%s with the header %t went to %s, want %s", path, header, got, want)
		}
	}
}
