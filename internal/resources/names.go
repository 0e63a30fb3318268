package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appv1 "gateway/api/app/v1"
)

const (
	// FieldManager is the name under which the operator owns fields of the children and of the Gateway's status.
	FieldManager = "gateway-operator"

	// LabelGateway is on every child and proxy pod, and by mirroring on the EndpointSlices of the Service; its value is the
	// Gateway's name. The Deployment and the Service select pods by it, so it must never change.
	LabelGateway = "app.example.com/gateway"

	labelName      = "app.kubernetes.io/name"
	labelInstance  = "app.kubernetes.io/instance"
	labelManagedBy = "app.kubernetes.io/managed-by"

	// childSuffix ends the name of every child. The CRD bounds a Gateway's name so that the two together fit the 63
	// characters of a Service's name.
	childSuffix = "-gateway"

	agentContainer = "agent"
	// KeysContainer is the container that passes certificates on.
	KeysContainer = "keys"
	// HAProxyContainer is the container of a proxy pod that logs requests.
	HAProxyContainer = "haproxy"

	configVolume = "config"
	runVolume    = "run"
	tokenVolume  = "token"

	// HealthPort is where the agent answers /startupz, /readyz, /healthz, /metrics and, within the pod, /proxy-config.
	HealthPort = 8405
	// metricsPort is where HAProxy answers /healthz and /metrics.
	metricsPort = 8404
)

// gatewayKind is the kind in the children's owner references.
var gatewayKind = appv1.SchemeGroupVersion.WithKind("Gateway")

// ChildName is the name of every child of the Gateway with the given name; kinds tell them apart.
func ChildName(gateway string) string {
	return gateway + childSuffix
}

// PodSelector selects the proxy pods of the Gateway with the given name, within its namespace.
func PodSelector(gateway string) labels.Selector {
	return labels.SelectorFromSet(selectorLabels(gateway))
}

// SelectsProxies says whether a Service selects proxy pods, of whatever Gateway. A route to it would send requests in a loop.
func SelectsProxies(service *corev1.Service) bool {
	_, gateway := service.Spec.Selector[LabelGateway]
	return gateway || service.Spec.Selector[labelManagedBy] == FieldManager
}

func selectorLabels(gateway string) map[string]string {
	return map[string]string{LabelGateway: gateway}
}

func childLabels(gateway string) map[string]string {
	return map[string]string{
		LabelGateway:   gateway,
		labelName:      "gateway",
		labelInstance:  gateway,
		labelManagedBy: FieldManager,
	}
}

// ownerReference makes the Gateway the controller of a child, so that it goes when the Gateway goes. It does not set
// blockOwnerDeletion: on clusters that enforce permissions for it, the operator would have to be able to set finalizers.
func ownerReference(gateway *appv1.Gateway) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(gatewayKind.GroupVersion().String()).
		WithKind(gatewayKind.Kind).
		WithName(gateway.Name).
		WithUID(gateway.UID).
		WithController(true)
}
