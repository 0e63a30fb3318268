package resources

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

const (
	labelName     = "app.kubernetes.io/name"
	labelInstance = "app.kubernetes.io/instance"

	agentContainer = "agent"

	configVolume = "config"
	runVolume    = "run"
	tokenVolume  = "token"

	// metricsPort is where HAProxy answers /healthz and /metrics.
	metricsPort = 8404
)

// gatewayKind is the kind in the children's owner references.
var gatewayKind = appv1.SchemeGroupVersion.WithKind("Gateway")

func childLabels(gateway string) map[string]string {
	return map[string]string{
		proxypod.LabelGateway:   gateway,
		labelName:               "gateway",
		labelInstance:           gateway,
		proxypod.LabelManagedBy: proxypod.FieldManager,
	}
}

// inheritedLabels are the labels that a Gateway of the Gateway API asks for, on the Gateway that was made for it.
func inheritedLabels(gateway *appv1.Gateway) map[string]string {
	if proxypod.Parent(gateway) == "" {
		return nil
	}
	return gateway.Labels
}

// ownerReference makes the Gateway the controller of a child, so that the child is deleted with the Gateway. It does
// not set blockOwnerDeletion: on clusters that enforce permissions for it, the operator would need permission to set
// finalizers.
func ownerReference(gateway *appv1.Gateway) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(gatewayKind.GroupVersion().String()).
		WithKind(gatewayKind.Kind).
		WithName(gateway.Name).
		WithUID(gateway.UID).
		WithController(true)
}
