package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// testTelemetry: the first XTelemetryPolicy says how the proxies of a Gateway take part in traces, and the status of
// both says so. When it goes, they do no more.
func testTelemetry(t *testing.T, api routesclient.Interface) {
	t.Helper()
	ctx, policies := t.Context(), api.ExperimentalV1alpha1().XTelemetryPolicies(infra)
	policy := &v1alpha1.XTelemetryPolicy{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: v1alpha1.TelemetryPolicySpec{
		TargetRefs: []gatewayv1.LocalObjectReference{{Group: gatewayv1.GroupName, Kind: "Gateway", Name: "shop"}},
		Tracing: v1alpha1.TracingConfig{
			Mode: v1alpha1.TracingModeEnabled, Provider: v1alpha1.TracingProvider{BackendRef: service("web")},
			SamplingRate: &gatewayv1.Fraction{Numerator: 5},
		},
	}}
	must.Get(policies.Create(ctx, policy, metav1.CreateOptions{}))(t)
	second := policy.DeepCopy()
	second.Name = "b"
	must.Get(policies.Create(ctx, second, metav1.CreateOptions{}))(t)
	expectTelemetry(t, api, "a", "Accepted=True", "ResolvedRefs=True")
	expectTelemetry(t, api, "b", "Accepted=False/Conflicted", "ResolvedRefs=True")
	expectTraces(t, "web."+infra+".svc:80 50000")
	expectGateway(t, api, 1, "Accepted=True", "Programmed=True")
	for _, name := range []string{"b", "a"} {
		must.Do(t, policies.Delete(ctx, name, metav1.DeleteOptions{}))
	}
	expectTraces(t, "")
	expectGateway(t, api, 1, "Accepted=True", "Programmed=True")
}

// expectTelemetry waits for conditions of an XTelemetryPolicy at its only Gateway.
func expectTelemetry(t *testing.T, api routesclient.Interface, name string, conditions ...string) {
	t.Helper()
	testenv.Eventually(t, soon, "the conditions of XTelemetryPolicy "+name, func(ctx context.Context) error {
		policy, err := api.ExperimentalV1alpha1().XTelemetryPolicies(infra).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var all []metav1.Condition
		for _, ancestor := range policy.Status.Ancestors {
			all = append(all, ancestor.Conditions...)
		}
		return expect(all, 1, conditions...)
	})
}

// expectTraces waits until the proxies of the shop are to send traces to a collector, at a rate, and run that.
func expectTraces(t *testing.T, want string) {
	t.Helper()
	testenv.Eventually(t, soon, "traces to go to "+want, func(ctx context.Context) error {
		own, err := server.App.AppV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got := ""
		if tracing := own.Spec.Tracing; tracing != nil {
			got = fmt.Sprintf("%s %d", tracing.Endpoint, *tracing.SamplingRatePerMillion)
		}
		if got != want {
			err = fmt.Errorf("they go to %q", got)
		}
		return errors.Join(err, expect(own.Status.Conditions, own.Generation, "Programmed=True"))
	})
}
