package children

import (
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/status"
)

// podsOfDeployment returns the known state of the proxy pods of a Gateway. Its Deployment is nil if there is none.
func podsOfDeployment(gateway *appv1.Gateway, deployment *k8sappsv1.Deployment) status.Pods {
	pods := status.Pods{Wanted: ptr.Deref(gateway.Spec.Replicas, 0)}
	if pods.Wanted == 0 {
		pods.Missing = "spec.replicas is 0"
	}
	if deployment == nil {
		return pods
	}
	pods.Existing = deployment.Status.Replicas
	for _, c := range deployment.Status.Conditions {
		if c.Type == k8sappsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue { // such as an exhausted quota
			pods.Missing = fmt.Sprintf("Deployment %s: %s", deployment.Name, c.Message)
		}
	}
	return pods
}

// podsOfDaemonSet returns the known state of the proxy pods of a Gateway. Its DaemonSet is nil if there is none. A
// DaemonSet has no condition that says why pods cannot be created: that is in events.
func podsOfDaemonSet(daemonSet *k8sappsv1.DaemonSet) status.Pods {
	if daemonSet == nil || daemonSet.Status.ObservedGeneration == 0 {
		return status.Pods{}
	}
	nodes, served := daemonSet.Status.DesiredNumberScheduled, daemonSet.Status.CurrentNumberScheduled
	pods := status.Pods{Wanted: nodes, Existing: served + daemonSet.Status.NumberMisscheduled}
	switch {
	case nodes == 0:
		pods.Missing = fmt.Sprintf("DaemonSet %s: spec.pods allows no node", daemonSet.Name)
	case served < nodes:
		pods.Missing = fmt.Sprintf("DaemonSet %s: %d of %d nodes have a pod: its events say why", daemonSet.Name, served, nodes)
	}
	return pods
}
