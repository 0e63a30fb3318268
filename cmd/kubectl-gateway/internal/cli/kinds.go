package cli

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/internal/multicluster"
)

// kinds are those that are read of files. Of the groups app.example.com and gateway.networking.k8s.io, there are no
// others.
var kinds = newKinds()

func newKinds() *runtime.Scheme {
	all := runtime.NewScheme()
	all.AddKnownTypes(appv1.SchemeGroupVersion, &appv1.Gateway{}, &appv1.GatewayConfig{}, &appv1.RouteFilter{}, &appv1.BackendPolicy{}, &appv1.GatewayProxy{})
	all.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Namespace{})
	all.AddKnownTypes(discoveryv1.SchemeGroupVersion, &discoveryv1.EndpointSlice{})
	all.AddKnownTypes(certificatesv1.SchemeGroupVersion, &certificatesv1.ClusterTrustBundle{})
	multicluster.Register(all)
	for kind := range scheme.Scheme.AllKnownTypes() {
		if object, err := scheme.Scheme.New(kind); err == nil && kind.Group != appv1.GroupName && admission.Knows(kind.GroupKind()) {
			all.AddKnownTypeWithName(kind, object)
		}
	}
	_ = all.SetVersionPriority(schema.GroupVersion(gatewayv1.GroupVersion)) // which is known
	return all
}

// unknownKind returns why an object of a group that is read has no effect anywhere, "" if it may have one: kubectl
// apply refuses it too.
func unknownKind(kind schema.GroupVersionKind) string {
	if kinds.Recognizes(kind) {
		return ""
	}
	if versions := kinds.VersionsForGroupKind(kind.GroupKind()); len(versions) > 0 {
		return fmt.Sprintf("there is no version %s of the kind: use apiVersion %s", kind.Version, versions[0])
	}
	var others []string
	for other := range kinds.AllKnownTypes() {
		if other.Kind == kind.Kind && isOurs(other.Group) && (isOurs(kind.Group) || isLike(kind.Group, other.Group)) {
			return fmt.Sprintf("there is no kind %s of %s: use apiVersion %s", kind.Kind, kind.GroupVersion(), kinds.VersionsForGroupKind(other.GroupKind())[0])
		}
		if other.Group != kind.Group {
			continue
		}
		plural, singular := meta.UnsafeGuessKindToResource(other)
		if name := strings.ToLower(kind.Kind); name == plural.Resource || name == singular.Resource {
			return fmt.Sprintf("there is no kind %s of %s: use %s", kind.Kind, kind.GroupVersion(), other.Kind)
		}
		others = append(others, other.Kind)
	}
	if !isOurs(kind.Group) {
		return ""
	}
	slices.Sort(others)
	return fmt.Sprintf("there is no kind %s of %s: there are %s", kind.Kind, kind.Group, strings.Join(slices.Compact(others), ", "))
}

// isLike reports whether a group may be meant for another one: it differs by few letters, or lacks the first words.
func isLike(group, other string) bool {
	return distance(strings.ToLower(group), other) <= len(other)/4 || strings.HasSuffix(other, "."+group)
}

// isOurs reports whether all kinds of a group are known.
func isOurs(group string) bool { return group == appv1.GroupName || group == gatewayv1.GroupName }
