package status

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
)

// TestClusterWatch: who asks for it learns whether it is so.
func TestClusterWatch(t *testing.T) {
	gateway := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", UID: "uid"}, Spec: appv1.GatewaySpec{Watch: appv1.WatchCluster},
		Status: appv1.GatewayStatus{Attachments: &appv1.Attachments{}},
	}
	by := func(modes ...appv1.WatchMode) (all []*appv1.GatewayProxy) {
		for _, mode := range modes {
			all = append(all, &appv1.GatewayProxy{Status: appv1.GatewayProxyStatus{Gateway: appv1.ProxiedGateway{UID: "uid"}, Watch: mode}})
		}
		return all
	}
	for _, test := range []struct {
		may     bool
		reports []*appv1.GatewayProxy
		want    string
	}{
		{false, by(appv1.WatchCluster), "False NotAllowed the proxies watch namespaces, because -cluster-watch-namespaces of the operator does not have web: ask"},
		{true, by(appv1.WatchCluster, appv1.WatchNamespaces, ""), "False Pending 2 proxies watch namespaces by now"},
		{true, by(appv1.WatchCluster), "True ClusterWatch the proxies watch all namespaces"},
	} {
		c := checkClusterWatch(gateway, test.may, test.reports)
		if got := string(c.status) + " " + c.reason + " " + c.message; !strings.HasPrefix(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	gateway.Status.Attachments = nil
	if c := checkClusterWatch(gateway, true, by(appv1.WatchNamespaces)); c.status != metav1.ConditionTrue {
		t.Errorf("without objects of the Gateway API, got %+v", c)
	}
}
