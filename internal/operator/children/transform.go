package children

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"

	"gateway/internal/compact"
	"gateway/internal/proxypod"
	"gateway/internal/source/ingress"
)

// digestType is the type of the one entry that a cached child has in managedFields. Its Manager is the digest of the
// fields that the operator owns, with their values. The API server knows no such type, so nobody else can create such
// an entry.
const digestType = "digest"

// Keep strips objects before they are cached. For a child, it keeps the owner, the fields that the status uses, and a
// digest of the fields that the operator owns. For other Services, which routes may name, it keeps the type, the ports,
// the owner, and annotations of controllers of Ingresses. It does nothing to objects that it has returned: client-go
// may call it twice.
func (s *Set) Keep(obj any) (any, error) {
	if service, ok := obj.(*corev1.Service); ok && service.Labels[proxypod.LabelGateway] == "" {
		return stripOther(service), nil
	}
	for _, kind := range s.kinds() {
		if kept, ok := kind.keep(obj); ok {
			return kept, nil
		}
	}
	return obj, nil // a tombstone
}

func (k *kind[T, A]) source() cache.SharedIndexInformer { return k.informer }

// keep returns what is kept of an object, and whether it is of this kind.
func (k *kind[T, A]) keep(obj any) (any, bool) {
	child, ok := obj.(T)
	if !ok {
		return nil, false
	}
	return k.kept(child), true
}

// kept is a child as the cache has it.
func (k *kind[T, A]) kept(child T) T {
	if keptDigest(child) != "" {
		return child
	}
	kept := k.strip(child)
	keepMetadata(kept, child)
	if gateway, ours := child.GetLabels()[proxypod.LabelGateway]; ours {
		kept.SetLabels(map[string]string{proxypod.LabelGateway: gateway})
	}
	owned, err := k.extract(child, proxypod.FieldManager)
	if err != nil { // it is as if the operator owned nothing, and the child is applied
		utilruntime.HandleError(fmt.Errorf("failed to read the managed fields of %s/%s: %w", child.GetNamespace(), child.GetName(), err))
	}
	kept.SetManagedFields([]metav1.ManagedFieldsEntry{{FieldsType: digestType, Manager: digest(owned)}})
	return kept
}

// keepMetadata sets in kept what is kept of the metadata of every object.
func keepMetadata(kept, object metav1.Object) {
	kept.SetNamespace(object.GetNamespace())
	kept.SetName(object.GetName())
	kept.SetUID(object.GetUID())
	kept.SetResourceVersion(object.GetResourceVersion())
	kept.SetDeletionTimestamp(object.GetDeletionTimestamp())
	kept.SetOwnerReferences(object.GetOwnerReferences())
}

func stripAll[O any](*O) *O { return new(O) }

// stripDeployment keeps the conditions that tell why pods cannot be created.
func stripDeployment(deployment *k8sappsv1.Deployment) *k8sappsv1.Deployment {
	kept := &k8sappsv1.Deployment{Status: k8sappsv1.DeploymentStatus{Replicas: deployment.Status.Replicas}}
	for _, c := range deployment.Status.Conditions {
		if c.Type == k8sappsv1.DeploymentReplicaFailure {
			kept.Status.Conditions = append(kept.Status.Conditions, c)
		}
	}
	return kept
}

// stripDaemonSet keeps how many pods there are and should be.
func stripDaemonSet(daemonSet *k8sappsv1.DaemonSet) *k8sappsv1.DaemonSet {
	status := daemonSet.Status
	return &k8sappsv1.DaemonSet{Status: k8sappsv1.DaemonSetStatus{
		ObservedGeneration: status.ObservedGeneration, DesiredNumberScheduled: status.DesiredNumberScheduled,
		CurrentNumberScheduled: status.CurrentNumberScheduled, NumberMisscheduled: status.NumberMisscheduled,
	}}
}

func stripService(service *corev1.Service) *corev1.Service {
	spec := service.Spec
	return &corev1.Service{
		Spec:   corev1.ServiceSpec{Type: spec.Type, Ports: spec.Ports, ClusterIPs: spec.ClusterIPs, Selector: spec.Selector},
		Status: corev1.ServiceStatus{LoadBalancer: service.Status.LoadBalancer},
	}
}

// stripOther strips a Service that is no child.
func stripOther(service *corev1.Service) *corev1.Service {
	kept := &corev1.Service{Spec: corev1.ServiceSpec{Type: service.Spec.Type, Ports: service.Spec.Ports}}
	if proxypod.SelectsProxies(service) {
		kept.Spec.Selector = service.Spec.Selector
	}
	keepMetadata(kept, service)
	for key, value := range service.Annotations {
		if ingress.IsController(key) {
			metav1.SetMetaDataAnnotation(&kept.ObjectMeta, key, value)
		}
	}
	return kept
}

// keptDigest is the digest in a cached child, or "".
func keptDigest(child metav1.Object) string {
	if fields := child.GetManagedFields(); len(fields) == 1 && fields[0].FieldsType == digestType {
		return fields[0].Manager
	}
	return ""
}

// digest returns the same text for equal configurations only.
func digest(configuration any) string {
	text, err := json.Marshal(configuration)
	utilruntime.Must(err) // apply configurations are made to be marshalled
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// Strip is the transform of the caches of Gateways, GatewayProxies and EndpointSlices. It drops managedFields, which
// nobody reads, and kubectl's copy of an object, which is as large as the object. Objects have what is equal together:
// nobody changes them.
func Strip(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // a tombstone
	}
	isNew := accessor.GetManagedFields() != nil // client-go may call this twice
	accessor.SetManagedFields(nil)
	annotations := accessor.GetAnnotations()
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	accessor.SetAnnotations(annotations)
	if isNew {
		compact.Object(obj)
	}
	return obj, nil
}
