package schema

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// TestKindOfPods: what creates the pods cannot change, in a Gateway and in a GatewayConfig. What is written out that is
// the default is no change.
func TestKindOfPods(t *testing.T) {
	t.Parallel()
	const daemonSet, deployment, nothing = `{kind: DaemonSet, hostPorts: true}`, `{kind: Deployment}`, `null`
	for name, test := range map[string]struct {
		before, after string
		refused       bool
	}{
		"the default, written out": {nothing, deployment, false},
		"written out no more":      {deployment, nothing, false},
		"another field":            {`{kind: DaemonSet}`, daemonSet, false},
		"a DaemonSet":              {nothing, daemonSet, true},
		"a DaemonSet, from pods":   {`{priorityClassName: edge}`, daemonSet, true},
		"a DaemonSet no more":      {daemonSet, deployment, true},
		"and without a word":       {daemonSet, nothing, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := func(pods string) (spec appv1.GatewaySpec) {
				must.Do(t, yaml.Unmarshal([]byte("{listeners: [{name: http, port: 80, protocol: HTTP}], pods: "+pods+"}"), &spec))
				return spec
			}
			gateways, configs := server.App.AppV1().Gateways("default"), server.App.AppV1().GatewayConfigs("default")
			gateway := must.Get(gateways.Create(t.Context(), &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{GenerateName: "kind-"}, Spec: spec(test.before)}, metav1.CreateOptions{}))(t)
			pods := spec(test.before).Pods
			config := must.Get(configs.Create(t.Context(), &appv1.GatewayConfig{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "kind-"}, Spec: appv1.GatewayConfigSpec{Pods: &pods},
			}, metav1.CreateOptions{}))(t)
			after := must.Get(yaml.YAMLToJSON([]byte("{spec: {pods: " + test.after + "}}")))(t)
			_, ofGateway := gateways.Patch(t.Context(), gateway.Name, types.MergePatchType, after, metav1.PatchOptions{})
			_, ofConfig := configs.Patch(t.Context(), config.Name, types.MergePatchType, after, metav1.PatchOptions{})
			for remedy, err := range map[string]error{"make another Gateway": ofGateway, "make another GatewayConfig, and another Gateway that names it": ofConfig} {
				if got := err != nil && strings.Contains(err.Error(), "spec.pods.kind: Invalid value") && strings.Contains(err.Error(), "cannot change: "+remedy); got != test.refused || err != nil && !got {
					t.Errorf("got the error %v, want that %s: %v", err, remedy, test.refused)
				}
			}
		})
	}
}
