package gatewayapi

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

const policyTeam = "policy-team"

// testBackendPolicies: a BackendPolicy changes how the endpoints of a Service of an HTTPRoute get their requests, and
// its status says when. The endpoint knows no PROXY protocol, so that it answers 400 to one.
func testBackendPolicies(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	ctx, policies := t.Context(), server.App.AppV1().BackendPolicies(policyTeam)
	createTeam(t, policyTeam)
	must.Get(api.GatewayV1().HTTPRoutes(policyTeam).Create(ctx, newRoute(policyTeam, "policed", shop(), "/policed", service("api")), metav1.CreateOptions{}))(t)
	expectAnswer(t, port, "/policed", 200, policyTeam+"/api")
	policy := must.Get(policies.Create(ctx, &appv1.BackendPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "api"}, Spec: appv1.BackendPolicySpec{
			TargetRefs:      []appv1.BackendPolicyTarget{{Name: "api"}},
			BackendSettings: appv1.BackendSettings{ProxyProtocol: appv1.ProxyProtocolV1},
		},
	}, metav1.CreateOptions{}))(t)
	expectPolicy(t, policyTeam, "api", 1, "Accepted=True", "Programmed=True")
	expectAnswer(t, port, "/policed", 400, "")

	policy = must.Get(policies.Get(ctx, policy.Name, metav1.GetOptions{}))(t)
	policy.Spec.BackendSettings = appv1.BackendSettings{LoadBalancing: &appv1.LoadBalancing{Algorithm: appv1.LoadBalancingRoundRobin}}
	must.Get(policies.Update(ctx, policy, metav1.UpdateOptions{}))(t)
	expectPolicy(t, policyTeam, "api", 2, "Accepted=True", "Programmed=True")
	expectAnswer(t, port, "/policed", 200, policyTeam+"/api")
	must.Do(t, policies.Delete(ctx, "api", metav1.DeleteOptions{}))
	must.Do(t, api.GatewayV1().HTTPRoutes(policyTeam).Delete(ctx, "policed", metav1.DeleteOptions{}))
}

// expectPolicy waits for conditions of a BackendPolicy at its only Gateway.
func expectPolicy(t *testing.T, namespace, name string, generation int64, conditions ...string) {
	t.Helper()
	testenv.Eventually(t, soon, "the conditions of BackendPolicy "+name, func(ctx context.Context) error {
		policy, err := server.App.AppV1().BackendPolicies(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var all []metav1.Condition
		for _, ancestor := range policy.Status.Ancestors {
			all = append(all, ancestor.Conditions...)
		}
		return expect(all, generation, conditions...)
	})
}
