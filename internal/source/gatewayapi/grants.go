package gatewayapi

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/proxypod"
)

// reference is the origin of a reference.
type reference struct{ group, kind, namespace string }

// isGranted reports whether an object may refer to one of Kubernetes itself, or to a ServiceImport, with a kind,
// namespace and name: both are in one namespace, or a ReferenceGrant allows it. The route that is translated uses the
// oldest that does.
func (t *translator) isGranted(from reference, kind, namespace, name string) bool {
	if from.namespace == namespace {
		return true
	}
	switch object := (Object{kindGrant, namespace, ""}); {
	case t.translating != nil:
		t.dependOn(kindGrant, namespace, "")
	case t.making != nil:
		t.making.reports = append(t.making.reports, object)
	case t.isMakingPlanes:
		t.grants[object] = true
	}
	group := corev1.GroupName
	if kind == kindImport {
		group = proxypod.GroupMultiCluster
	}
	isFrom := func(f gatewayv1.ReferenceGrantFrom) bool {
		return reference{string(f.Group), string(f.Kind), string(f.Namespace)} == from
	}
	isTo := func(to gatewayv1.ReferenceGrantTo) bool {
		return string(to.Group) == group && string(to.Kind) == kind && string(ptr.Deref(to.Name, gatewayv1.ObjectName(name))) == name
	}
	i := slices.IndexFunc(t.Grants, func(grant *gatewayv1.ReferenceGrant) bool {
		return grant.Namespace == namespace && slices.ContainsFunc(grant.Spec.From, isFrom) && slices.ContainsFunc(grant.Spec.To, isTo)
	})
	if i >= 0 && t.translating != nil {
		t.translating.use(idOf(kindGrant, t.Grants[i]))
	}
	return i >= 0
}
