package resources

import (
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/apply"
	"gateway/internal/proxypod"
)

// place sets where the pods run, and how their images are pulled.
func place(spec *corev1ac.PodSpecApplyConfiguration, gateway *appv1.Gateway) {
	pods := &gateway.Spec.Pods
	spec.WithNodeSelector(pods.NodeSelector)
	for i := range pods.Tolerations {
		spec.WithTolerations(apply.From[corev1ac.TolerationApplyConfiguration](pods.Tolerations[i]))
	}
	if pods.Kind != appv1.PodsKindDaemonSet {
		spec.WithTolerations(leaving(pods.Tolerations)...)
	}
	affinity := corev1ac.Affinity()
	if pods.Affinity != nil {
		affinity = apply.From[corev1ac.AffinityApplyConfiguration](pods.Affinity)
	}
	if affinity.PodAntiAffinity == nil && pods.Kind != appv1.PodsKindDaemonSet {
		affinity.WithPodAntiAffinity(spread(gateway))
	}
	if *affinity != (corev1ac.AffinityApplyConfiguration{}) {
		spec.WithAffinity(affinity)
	}
	for i := range pods.TopologySpreadConstraints {
		spec.WithTopologySpreadConstraints(apply.From[corev1ac.TopologySpreadConstraintApplyConfiguration](pods.TopologySpreadConstraints[i]))
	}
	if pods.PriorityClassName != "" {
		spec.WithPriorityClassName(pods.PriorityClassName)
	}
	for _, secret := range pods.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(secret.Name))
	}
}

// leavesAfter is how many seconds after Kubernetes has noticed that a node is lost its proxies are replaced: its
// default is 300. Until then an edit is not Programmed, because a proxy that comes back may answer by what it knew.
const leavesAfter = 30

// leaving are the tolerations for a node that is lost, each unless the Gateway has one.
func leaving(own []corev1.Toleration) []*corev1ac.TolerationApplyConfiguration {
	var all []*corev1ac.TolerationApplyConfiguration
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(own, func(t corev1.Toleration) bool {
			return (t.Key == taint || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			all = append(all, corev1ac.Toleration().WithKey(taint).WithOperator(corev1.TolerationOpExists).
				WithEffect(corev1.TaintEffectNoExecute).WithTolerationSeconds(leavesAfter))
		}
	}
	return all
}

// spread keeps the pods of one rollout on different nodes where possible. Pods that they replace do not count. It is no
// topology spread constraint: a pod that has one gets none of the scheduler's defaults, which spread over zones.
func spread(gateway *appv1.Gateway) *corev1ac.PodAntiAffinityApplyConfiguration {
	return corev1ac.PodAntiAffinity().
		WithPreferredDuringSchedulingIgnoredDuringExecution(corev1ac.WeightedPodAffinityTerm().
			WithWeight(100).
			WithPodAffinityTerm(corev1ac.PodAffinityTerm().
				WithTopologyKey(corev1.LabelHostname).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(proxypod.SelectorLabels(gateway.Name))).
				WithMatchLabelKeys(k8sappsv1.DefaultDeploymentUniqueLabelKey)))
}
