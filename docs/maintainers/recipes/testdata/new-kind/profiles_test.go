package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// TestProfile: pods run by the profile of their namespace until it is gone.
func TestProfile(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.settle()
	profiles := f.inputs.Profiles.Informer().GetIndexer()
	profile := &appv1.ProxyProfile{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: appv1.DefaultProfile},
		Spec:       appv1.ProxyProfileSpec{PriorityClassName: "high"},
	}
	for _, step := range []struct {
		change func(any) error
		want   string
	}{{profiles.Add, "high"}, {profiles.Delete, ""}} {
		must.Do(t, step.change(profile))
		f.controller.enqueueNamespace(profile, true)
		if got := f.controller.queue.Len(); got != 1 {
			t.Errorf("%d Gateways are in the queue, want one", got)
		}
		f.expectWrites(f.mustSync(), "patch deployments shop-gateway")
		deployment := must.Get(f.kube.AppsV1().Deployments("web").Get(ctx, "shop-gateway", metav1.GetOptions{}))(t)
		if got := deployment.Spec.Template.Spec.PriorityClassName; got != step.want {
			t.Errorf("the pods' priority is %q, want %q", got, step.want)
		}
	}
}
