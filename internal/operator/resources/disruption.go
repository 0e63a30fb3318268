package resources

import (
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// DesiredPodDisruptionBudget lets node drains evict one proxy at a time. A single proxy may be evicted: a budget that
// protects it would block the drain for ever. So would one that protects proxies that are not ready and get no traffic:
// by default, none may be evicted when too few are ready, and nothing may ever make them ready. A DaemonSet has no
// budget, since drains leave its pods alone.
func DesiredPodDisruptionBudget(gateway *appv1.Gateway) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	return policyv1ac.PodDisruptionBudget(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithSpec(policyv1ac.PodDisruptionBudgetSpec().
			WithMaxUnavailable(intstr.FromInt32(1)).
			WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(proxypod.SelectorLabels(gateway.Name))))
}
