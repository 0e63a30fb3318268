package gatewayapi

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// testShadow: filters in shadow refuse nothing. While they are in shadow, the condition Shadow names a GatewayConfig's
// filters at the Gateway, and a RouteFilter's at the route.
func testShadow(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	ctx, app := t.Context(), server.App.AppV1()
	const closed = `{"spec":{"filters":[{"type":"ClientAddress","clientAddress":{"deny":["127.0.0.0/8"]}}],"shadow":%s}}`
	config := func(spec string) {
		t.Helper()
		must.Get(app.GatewayConfigs(infra).Patch(ctx, "small", types.MergePatchType, []byte(spec), metav1.PatchOptions{}))(t)
	}
	ofGateway := func(ctx context.Context) ([]metav1.Condition, error) {
		gateway, err := api.GatewayV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		return gateway.Status.Conditions, err
	}
	config(fmt.Sprintf(closed, `["ClientAddress"]`))
	expectShadow(t, "filters of all listeners: ClientAddress", ofGateway)
	expectAnswer(t, port, "/moved", 200, "team/api")
	config(fmt.Sprintf(closed, "null"))
	expectShadow(t, "", ofGateway)
	expectAnswer(t, port, "/moved", 403, "")
	config(`{"spec":{"filters":null}}`)

	filter := func(spec string) {
		t.Helper()
		must.Get(app.RouteFilters(configTeam).Patch(ctx, "open", types.MergePatchType, []byte(spec), metav1.PatchOptions{}))(t)
	}
	ofRoute := func(ctx context.Context) ([]metav1.Condition, error) {
		route, err := api.GatewayV1().HTTPRoutes(configTeam).Get(ctx, "guarded", metav1.GetOptions{})
		return route.Status.Parents[0].Conditions, err
	}
	filter(fmt.Sprintf(closed, `["ClientAddress"]`))
	expectShadow(t, "rules[0]: ClientAddress", ofRoute)
	expectAnswer(t, port, "/guarded", 200, configTeam+"/api")
	filter(fmt.Sprintf(closed, "null"))
	expectShadow(t, "", ofRoute)
	expectAnswer(t, port, "/guarded", 403, "")
	filter(`{"spec":{"filters":[{"type":"ClientAddress","clientAddress":{"allow":["127.0.0.0/8"]}}]}}`)
	expectAnswer(t, port, "/guarded", 200, configTeam+"/api")
}

// expectShadow waits until the condition Shadow names these filters, or is not there.
func expectShadow(t *testing.T, filters string, read func(ctx context.Context) ([]metav1.Condition, error)) {
	t.Helper()
	testenv.Eventually(t, soon, "Shadow: "+filters, func(ctx context.Context) error {
		conditions, err := read(ctx)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(conditions, appv1.ConditionShadow)
		if filters == "" && c != nil || filters != "" && (c == nil || c.Status != metav1.ConditionTrue || c.Message != "what these would refuse is let through: "+filters) {
			return fmt.Errorf("Shadow is %+v", c)
		}
		return nil
	})
}
