package children

import (
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/status"
)

func TestPodsOfADeployment(t *testing.T) {
	deployment := func(conditions ...k8sappsv1.DeploymentCondition) *k8sappsv1.Deployment {
		return &k8sappsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "shop-gateway"}, Status: k8sappsv1.DeploymentStatus{Replicas: 2, Conditions: conditions},
		}
	}
	failure := k8sappsv1.DeploymentCondition{Type: k8sappsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}
	progress := k8sappsv1.DeploymentCondition{Type: k8sappsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Message: "it is progressing"}
	for name, test := range map[string]struct {
		replicas   int32
		deployment *k8sappsv1.Deployment
		want       status.Pods
	}{
		"there is none":          {3, nil, status.Pods{Wanted: 3}},
		"pods":                   {3, deployment(progress), status.Pods{Wanted: 3, Existing: 2}},
		"pods cannot be created": {3, deployment(progress, failure), status.Pods{Wanted: 3, Existing: 2, Missing: "Deployment shop-gateway: exceeded quota"}},
		"none is wanted":         {0, deployment(), status.Pods{Existing: 2, Missing: "spec.replicas is 0"}},
	} {
		gateway := &appv1.Gateway{Spec: appv1.GatewaySpec{Replicas: &test.replicas}}
		if got := podsOfDeployment(gateway, test.deployment); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}

func TestPodsOfADaemonSet(t *testing.T) {
	daemonSet := func(generation int64, nodes, served, elsewhere int32) *k8sappsv1.DaemonSet {
		return &k8sappsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "shop-gateway"}, Status: k8sappsv1.DaemonSetStatus{
			ObservedGeneration: generation, DesiredNumberScheduled: nodes, CurrentNumberScheduled: served, NumberMisscheduled: elsewhere,
		}}
	}
	for name, test := range map[string]struct {
		daemonSet *k8sappsv1.DaemonSet
		want      status.Pods
	}{
		"there is none":              {nil, status.Pods{}},
		"nobody has looked at it":    {daemonSet(0, 0, 0, 0), status.Pods{}},
		"a pod on each node":         {daemonSet(1, 3, 3, 0), status.Pods{Wanted: 3, Existing: 3}},
		"a pod that has to go":       {daemonSet(1, 3, 3, 1), status.Pods{Wanted: 3, Existing: 4}},
		"a node without a pod":       {daemonSet(1, 3, 2, 0), status.Pods{Wanted: 3, Existing: 2, Missing: "DaemonSet shop-gateway: 2 of 3 nodes have a pod: its events say why"}},
		"no node is for the proxies": {daemonSet(1, 0, 0, 0), status.Pods{Missing: "DaemonSet shop-gateway: spec.pods allows no node"}},
	} {
		if got := podsOfDaemonSet(test.daemonSet); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
