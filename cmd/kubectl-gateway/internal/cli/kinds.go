package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
)

// versions has the apiVersions of each kind that is read, the newest first. Of the groups app.example.com and
// gateway.networking.k8s.io, no other kinds are known.
var versions = knownVersions()

func knownVersions() map[schema.GroupKind][]string {
	all := map[schema.GroupKind][]string{}
	for _, kind := range []string{"Gateway", "GatewayConfig", "RouteFilter", "BackendPolicy", "GatewayProxy"} {
		all[schema.GroupKind{Group: appv1.GroupName, Kind: kind}] = []string{appv1.SchemeGroupVersion.Version}
	}
	for _, kind := range []string{"Service", "ConfigMap", "Secret", "Namespace"} {
		all[schema.GroupKind{Group: corev1.GroupName, Kind: kind}] = []string{corev1.SchemeGroupVersion.Version}
	}
	all[schema.GroupKind{Group: discoveryv1.GroupName, Kind: "EndpointSlice"}] = []string{discoveryv1.SchemeGroupVersion.Version}
	for _, kind := range []string{"Ingress", "IngressClass"} {
		// Convert passes over Ingresses of old versions, and says so.
		all[schema.GroupKind{Group: networkingv1.GroupName, Kind: kind}] = []string{networkingv1.SchemeGroupVersion.Version, "v1beta1"}
	}
	for version := range scheme.Scheme.AllKnownTypes() {
		if kind := version.GroupKind(); kind.Group == gatewayv1.GroupName && admission.Knows(kind) {
			all[kind] = append(all[kind], version.Version)
			slices.Sort(all[kind])
		}
	}
	return all
}

// unknownKind returns why an object of a group that is read has no effect anywhere, "" if it may have one: kubectl
// apply refuses it too.
func unknownKind(kind schema.GroupVersionKind) string {
	known, isKnown := versions[kind.GroupKind()]
	if slices.Contains(known, kind.Version) {
		return ""
	}
	if isKnown {
		return fmt.Sprintf("there is no version %s of the kind: use apiVersion %s", kind.Version, schema.GroupVersion{Group: kind.Group, Version: known[0]})
	}
	var others []string
	for other := range maps.Keys(versions) {
		if other.Group != kind.Group {
			continue
		}
		plural, singular := meta.UnsafeGuessKindToResource(other.WithVersion(kind.Version))
		if name := strings.ToLower(kind.Kind); name == plural.Resource || name == singular.Resource {
			return fmt.Sprintf("there is no kind %s of %s: use %s", kind.Kind, kind.GroupVersion(), other.Kind)
		}
		others = append(others, other.Kind)
	}
	if kind.Group != appv1.GroupName && kind.Group != gatewayv1.GroupName {
		return ""
	}
	slices.Sort(others)
	return fmt.Sprintf("there is no kind %s of %s: there are %s", kind.Kind, kind.Group, strings.Join(others, ", "))
}
