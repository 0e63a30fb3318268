package cli

import (
	"testing"

	appv1 "gateway/api/app/v1"
)

func TestWantedReplicas(t *testing.T) {
	t.Parallel()
	three := int32(3)
	nodes := &appv1.Gateway{Spec: appv1.GatewaySpec{Replicas: &three, Pods: appv1.PodsSpec{Kind: appv1.PodsKindDaemonSet}}}
	nodes.Status.Replicas = 5
	for name, test := range map[string]struct {
		gateway *appv1.Gateway
		want    int32
	}{
		"by default":  {&appv1.Gateway{}, 2},
		"replicas":    {&appv1.Gateway{Spec: appv1.GatewaySpec{Replicas: &three}}, 3},
		"a DaemonSet": {nodes, 5},
	} {
		if got := WantedReplicas(test.gateway); got != test.want {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
