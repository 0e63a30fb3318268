package gatewayapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/operator/children"
	source "gateway/internal/source/gatewayapi"
)

// fieldManager owns the fields of our Gateways that are for Gateways of the Gateway API. The operator owns those of the
// status by another name.
const fieldManager = "gateway-operator-gatewayapi"

// applied is what was applied of one of our Gateways, and the generation that it had then.
type applied struct {
	uid        types.UID
	generation int64
	content    string
}

// applyDataPlanes makes our Gateways for Gateways as they should be, and deletes those whose Gateway has another class
// by now. The garbage collector deletes the others.
func (c *Controller) applyDataPlanes(ctx context.Context, seen *observed, result *source.Result) error {
	var errs []error
	wanted := map[types.NamespacedName]bool{}
	for _, plane := range result.DataPlanes() {
		name := types.NamespacedName{Namespace: plane.Gateway.Namespace, Name: plane.Name}
		wanted[name] = true
		if plane.Spec != nil && plane.Gateway.DeletionTimestamp == nil {
			errs = append(errs, c.applyDataPlane(ctx, name, &plane))
		}
	}
	for _, gateway := range seen.Gateways {
		name := types.NamespacedName{Namespace: gateway.Namespace, Name: source.DataPlaneName(gateway.Name)}
		own := c.ownGateway(name.Namespace, name.Name)
		if wanted[name] || own == nil || own.DeletionTimestamp != nil || !metav1.IsControlledBy(own, gateway) {
			continue
		}
		err := c.Gateways.AppV1().Gateways(own.Namespace).Delete(ctx, own.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(own.UID))})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("failed to delete Gateway %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// applyDataPlane makes one of our Gateways as it should be. One of that name that is somebody else's is left alone.
func (c *Controller) applyDataPlane(ctx context.Context, name types.NamespacedName, plane *source.DataPlane) error {
	desired, content, err := configuration(name, plane)
	if err != nil {
		return err
	}
	own := c.ownGateway(name.Namespace, name.Name)
	if own != nil {
		if !metav1.IsControlledBy(own, plane.Gateway) {
			return nil // the status says that the data plane is missing
		}
		if c.applied[name] == (applied{own.UID, own.Generation, content}) {
			return nil
		}
		desired.WithUID(own.UID)
	}
	made, err := c.Gateways.AppV1().Gateways(name.Namespace).Apply(ctx, desired, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	switch {
	case apierrors.IsConflict(err):
		return fmt.Errorf("failed to apply Gateway %s: %w", name, children.ErrOutdated)
	case apierrors.IsNotFound(err): // the namespace is gone
		return nil
	case err != nil:
		return fmt.Errorf("failed to apply Gateway %s: %w", name, err)
	}
	c.applied[name] = applied{made.UID, made.Generation, content}
	return nil
}

// configuration returns what to apply, and the same as a text.
func configuration(name types.NamespacedName, plane *source.DataPlane) (*applyappv1.GatewayApplyConfiguration, string, error) {
	spec, err := json.Marshal(plane.Spec)
	if err != nil {
		return nil, "", fmt.Errorf("failed to write the spec of Gateway %s: %w", name, err)
	}
	configuration := &applyappv1.GatewaySpecApplyConfiguration{}
	if err := json.Unmarshal(spec, configuration); err != nil {
		return nil, "", fmt.Errorf("failed to read the spec of Gateway %s: %w", name, err)
	}
	desired := applyappv1.Gateway(name.Name, name.Namespace).
		WithLabels(plane.Labels).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(gatewayv1.GroupVersion.String()).
			WithKind("Gateway").
			WithName(plane.Gateway.Name).
			WithUID(plane.Gateway.UID).
			WithController(true)).
		WithSpec(configuration)
	content, err := json.Marshal(desired)
	if err != nil {
		return nil, "", fmt.Errorf("failed to write Gateway %s: %w", name, err)
	}
	return desired, string(content), nil
}
