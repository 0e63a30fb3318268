package gatewayapi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/logging"
	"gateway/internal/operator/apply"
	"gateway/internal/operator/children"
	"gateway/internal/operator/safely"
	source "gateway/internal/source/gatewayapi"
)

// fieldManager owns the fields of our Gateways that are for Gateways of the Gateway API. The operator owns the status
// by another name.
const fieldManager = "gateway-operator-gatewayapi"

// force takes over fields that we want, whoever set them last.
var force = metav1.ApplyOptions{FieldManager: fieldManager, Force: true}

// applied is the digest of what was applied of one of our Gateways, and the generation that it had then.
type applied struct {
	uid        types.UID
	generation int64
	digest     [sha256.Size]byte
}

// refusal is the API server's error for one of our Gateways. It is not sent again.
type refusal struct {
	applied
	message string
}

// applyDataPlanes makes our Gateways as they should be, and deletes those whose Gateway of the Gateway API has another
// class by now. The garbage collector deletes the others.
func (c *Controller) applyDataPlanes(ctx context.Context, seen *observed, evaluated *evaluation) error {
	var errs []error
	wanted := map[types.NamespacedName]bool{}
	for _, plane := range evaluated.planes {
		name := types.NamespacedName{Namespace: plane.Gateway.Namespace, Name: plane.Name}
		wanted[name] = true
		unknown := seen.unknown[source.GatewayParent(plane.Gateway.Namespace, plane.Gateway.Name)]
		if plane.Spec != nil && plane.Gateway.DeletionTimestamp == nil && !unknown {
			errs = append(errs, safely.Do(func() error { return c.applyDataPlane(ctx, name, &plane) }))
		}
	}
	for _, gateway := range seen.Gateways {
		name := types.NamespacedName{Namespace: gateway.Namespace, Name: source.DataPlaneName(gateway.Name)}
		own := c.ownGateway(name.Namespace, name.Name)
		wanted[name] = wanted[name] || seen.unknown[source.GatewayParent(gateway.Namespace, gateway.Name)]
		if wanted[name] || own == nil || own.DeletionTimestamp != nil || !metav1.IsControlledBy(own, gateway) {
			continue
		}
		err := c.Gateways.AppV1().Gateways(own.Namespace).Delete(ctx, own.Name, children.Unchanged(own))
		errs = append(errs, children.Failed(err, "delete Gateway", name))
	}
	maps.DeleteFunc(c.applied, func(name types.NamespacedName, _ applied) bool { return !wanted[name] })
	maps.DeleteFunc(c.refused, func(name types.NamespacedName, _ refusal) bool { return !wanted[name] })
	return errors.Join(errs...)
}

// applyDataPlane makes one of our Gateways as it should be. A Gateway of somebody else with that name is left alone.
func (c *Controller) applyDataPlane(ctx context.Context, name types.NamespacedName, plane *source.DataPlane) error {
	desired, digest := configuration(name, plane)
	seen := applied{digest: digest}
	known := c.refused[name]
	delete(c.refused, name)
	desired.WithResourceVersion(children.Unwritten)
	if own := c.ownGateway(name.Namespace, name.Name); own != nil {
		if !metav1.IsControlledBy(own, plane.Gateway) {
			return nil // the status says that the data plane is missing
		}
		seen.uid, seen.generation = own.UID, own.Generation
		if c.applied[name] == seen {
			return nil
		}
		desired.WithResourceVersion(own.ResourceVersion).WithUID(own.UID)
	}
	if known.applied == seen {
		c.refused[name] = known
		return nil
	}
	made, err := c.Gateways.AppV1().Gateways(name.Namespace).Apply(ctx, desired, force)
	switch {
	case err == nil:
		c.applied[name] = applied{made.UID, made.Generation, digest}
	case apierrors.IsInvalid(err):
		logging.Errorf("Gateway %s stays as it is: %v", name, err)
		c.refused[name] = refusal{seen, err.Error()}
		return nil
	}
	return children.Failed(err, "apply Gateway", name) // it is not found if its namespace is gone
}

// noteRefused puts the API server's error for our Gateways into the statuses of Gateways: their proxies stay as they
// are.
func (c *Controller) noteRefused(evaluated *evaluation) {
	for gateway, status := range evaluated.status.Gateways {
		message := c.refused[types.NamespacedName{Namespace: gateway.Namespace, Name: source.DataPlaneName(gateway.Name)}].message
		programmed := meta.FindStatusCondition(status.Conditions, string(gatewayv1.GatewayConditionProgrammed))
		if message != "" && programmed != nil {
			programmed.Status, programmed.Reason, programmed.Message = metav1.ConditionFalse, string(gatewayv1.GatewayReasonInvalid), message
		}
	}
}

// configuration returns what to apply, and the same as a digest.
func configuration(
	name types.NamespacedName, plane *source.DataPlane,
) (*applyappv1.GatewayApplyConfiguration, [sha256.Size]byte) {
	desired := applyappv1.Gateway(name.Name, name.Namespace).
		WithLabels(plane.Labels).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(gatewayv1.GroupVersion.String()).
			WithKind("Gateway").
			WithName(plane.Gateway.Name).
			WithUID(plane.Gateway.UID).
			WithController(true)).
		WithSpec(apply.From[applyappv1.GatewaySpecApplyConfiguration](plane.Spec))
	content, err := json.Marshal(desired)
	utilruntime.Must(err) // apply configurations are made to be marshalled
	return desired, sha256.Sum256(content)
}
