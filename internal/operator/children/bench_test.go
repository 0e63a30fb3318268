package children

import (
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/kubernetes/fake"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/proxypod"
)

// desired makes the Deployment of a Gateway.
func desired() *appsv1ac.DeploymentApplyConfiguration {
	return resources.DesiredDeployment(&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid"}},
		resources.Options{AgentImage: "gateway:test", HAProxyImage: "haproxy:test"})
}

// BenchmarkCompare is what looking at a Deployment costs that is as it should be.
func BenchmarkCompare(b *testing.B) {
	deployment := newSet().deployments.kept(applied(b))
	b.ReportAllocs()
	for b.Loop() {
		if keptDigest(deployment) != digest(desired()) {
			b.Fatal("the Deployment is not as desired")
		}
	}
}

// BenchmarkKeep is what the arrival of a Deployment costs.
func BenchmarkKeep(b *testing.B) {
	deployment, kind := applied(b), newSet().deployments
	b.ReportAllocs()
	for b.Loop() {
		kind.kept(deployment)
	}
}

// applied returns the Deployment as an API server has it.
func applied(b *testing.B) *k8sappsv1.Deployment {
	b.Helper()
	deployment := must.Get(fake.NewClientset().AppsV1().Deployments("web").Apply(b.Context(), desired(),
		metav1.ApplyOptions{FieldManager: proxypod.FieldManager}))(b)
	return deployment
}
