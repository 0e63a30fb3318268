package children

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"gateway/internal/proxypod"
)

// digestType is the type of the one entry that a cached child has in managedFields: its Manager is the digest of the fields that
// the operator owns, with their values. The API server knows no such type, so that nobody else can make such an entry.
const digestType = "digest"

// KeepChildren is the transform of the caches of what carries our label. Of a child it keeps whose it is, what the status is
// computed from, and what tells whether it is as desired. It does nothing to what it has returned: client-go may call it twice.
func KeepChildren(obj any) (any, error) {
	switch child := obj.(type) {
	case *corev1.ServiceAccount:
		return keep(child, &corev1.ServiceAccount{}, corev1ac.ExtractServiceAccount), nil
	case *rbacv1.Role:
		return keep(child, &rbacv1.Role{}, rbacv1ac.ExtractRole), nil
	case *rbacv1.RoleBinding:
		return keep(child, &rbacv1.RoleBinding{}, rbacv1ac.ExtractRoleBinding), nil
	case *policyv1.PodDisruptionBudget:
		return keep(child, &policyv1.PodDisruptionBudget{}, policyv1ac.ExtractPodDisruptionBudget), nil
	case *k8sappsv1.Deployment:
		return keep(child, &k8sappsv1.Deployment{
			Status: k8sappsv1.DeploymentStatus{Replicas: child.Status.Replicas, Conditions: replicaFailures(child.Status.Conditions)},
		}, appsv1ac.ExtractDeployment), nil
	case *corev1.Service:
		return keep(child, &corev1.Service{
			Spec:   corev1.ServiceSpec{Type: child.Spec.Type, Ports: child.Spec.Ports, ClusterIPs: child.Spec.ClusterIPs, Selector: child.Spec.Selector},
			Status: corev1.ServiceStatus{LoadBalancer: child.Status.LoadBalancer},
		}, corev1ac.ExtractService), nil
	case *discoveryv1.EndpointSlice:
		child.ManagedFields = nil
	}
	return obj, nil // anything else is a tombstone
}

// replicaFailures are the conditions that say why pods cannot be made.
func replicaFailures(conditions []k8sappsv1.DeploymentCondition) []k8sappsv1.DeploymentCondition {
	var failures []k8sappsv1.DeploymentCondition
	for _, c := range conditions {
		if c.Type == k8sappsv1.DeploymentReplicaFailure {
			failures = append(failures, c)
		}
	}
	return failures
}

// keep adds to kept what is kept of every child.
func keep[T object, A any](child, kept T, extract func(T, string) (A, error)) T {
	if keptDigest(child) != "" {
		return child
	}
	kept.SetNamespace(child.GetNamespace())
	kept.SetName(child.GetName())
	kept.SetUID(child.GetUID())
	kept.SetResourceVersion(child.GetResourceVersion())
	kept.SetDeletionTimestamp(child.GetDeletionTimestamp())
	kept.SetOwnerReferences(child.GetOwnerReferences())
	if gateway, ours := child.GetLabels()[proxypod.LabelGateway]; ours {
		kept.SetLabels(map[string]string{proxypod.LabelGateway: gateway})
	}
	owned, err := extract(child, proxypod.FieldManager)
	if err != nil { // it is as if the operator owned nothing, and the child is applied
		utilruntime.HandleError(fmt.Errorf("failed to read the managed fields of %s/%s: %w", child.GetNamespace(), child.GetName(), err))
	}
	kept.SetManagedFields([]metav1.ManagedFieldsEntry{{FieldsType: digestType, Manager: digest(owned)}})
	return kept
}

// keptDigest is the digest in a cached child, or "".
func keptDigest(child metav1.Object) string {
	if fields := child.GetManagedFields(); len(fields) == 1 && fields[0].FieldsType == digestType {
		return fields[0].Manager
	}
	return ""
}

// digest is the same for the same configuration, and for no other.
func digest(configuration any) string {
	text, err := json.Marshal(configuration)
	utilruntime.Must(err) // apply configurations are made to be marshalled
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// KeepServices is the transform of the cache of Services: the Gateways' own are kept as children are, and of all others,
// which routes may name, only what tells whether they can be used, and whose they are.
func KeepServices(obj any) (any, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return obj, nil // a tombstone
	}
	if _, own := service.Labels[proxypod.LabelGateway]; own {
		return KeepChildren(obj)
	}
	kept := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         service.Namespace,
			Name:              service.Name,
			UID:               service.UID,
			ResourceVersion:   service.ResourceVersion,
			DeletionTimestamp: service.DeletionTimestamp,
			OwnerReferences:   service.OwnerReferences,
		},
		Spec: corev1.ServiceSpec{Type: service.Spec.Type, Ports: service.Spec.Ports},
	}
	if proxypod.SelectsProxies(service) {
		kept.Spec.Selector = service.Spec.Selector
	}
	return kept, nil
}

// KeepGateways is the transform of the cache of Gateways: who manages which field is not read, and kubectl's copy of the
// object is as big as the object.
func KeepGateways(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // a tombstone
	}
	accessor.SetManagedFields(nil)
	annotations := accessor.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	accessor.SetAnnotations(annotations)
	return obj, nil
}
