package children

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/resources"
)

// KeepOwnFields is the transform of the caches of children: of metadata.managedFields it keeps what says which fields the
// operator owns. Without that, every child would look as if it had to be applied.
func KeepOwnFields(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // a tombstone: nothing in it is kept for long
	}
	var own []metav1.ManagedFieldsEntry
	for _, entry := range accessor.GetManagedFields() {
		if entry.Manager == resources.FieldManager && entry.Subresource == "" {
			own = append(own, entry)
		}
	}
	accessor.SetManagedFields(own)
	return obj, nil
}

// KeepServices is the transform of the cache of Services: the Gateways' own are kept as children are, and of all others,
// which routes may name, only what tells whether they can be used, and whose they are.
func KeepServices(obj any) (any, error) {
	service, ok := obj.(*corev1.Service)
	if !ok {
		return obj, nil // a tombstone
	}
	if _, own := service.Labels[resources.LabelGateway]; own {
		return KeepOwnFields(obj)
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         service.Namespace,
			Name:              service.Name,
			UID:               service.UID,
			ResourceVersion:   service.ResourceVersion,
			DeletionTimestamp: service.DeletionTimestamp,
			OwnerReferences:   service.OwnerReferences,
		},
		Spec: corev1.ServiceSpec{Type: service.Spec.Type, Ports: service.Spec.Ports},
	}, nil
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
