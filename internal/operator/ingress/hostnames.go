package ingress

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
	source "gateway/internal/source/ingress"
)

// handleHostnames triggers a sync when namespaces may use other hostnames.
func (c *Controller) handleHostnames() error {
	for informer, of := range map[cache.SharedIndexInformer]func(any) any{
		c.inputs.Gateways.Informer(): func(obj any) any {
			if gateway, ok := obj.(*appv1.Gateway); ok && gateway.Namespace == c.inputs.Namespace {
				return gateway.Spec.AllowedHostnames
			}
			return (*appv1.AllowedHostnames)(nil)
		},
		c.inputs.Namespaces: func(obj any) any { return obj.(metav1.Object).GetLabels() },
	} {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.queue.Add(everything) },
			UpdateFunc: func(old, new any) {
				if !reflect.DeepEqual(of(old), of(new)) {
					c.queue.Add(everything)
				}
			},
			DeleteFunc: func(any) { c.queue.Add(everything) },
		})
		if err != nil {
			return fmt.Errorf("failed to watch for changes of hostnames: %w", err)
		}
	}
	return nil
}

// hostnamesAt returns what the owner of a Gateway of the class says of hostnames, nil if that is nothing. Our own
// Gateway has what the GatewayConfigs of its class and of itself say together.
func (c *Controller) hostnamesAt(gateway string) *source.AllowedHostnames {
	own, err := c.inputs.Gateways.Lister().Gateways(c.inputs.Namespace).Get(gatewayapi.DataPlaneName(gateway))
	if err != nil || own.Spec.AllowedHostnames == nil { // it is not there yet
		return nil
	}
	allowed := &source.AllowedHostnames{AllowedHostnames: *own.Spec.AllowedHostnames, Labels: map[string]labels.Set{}}
	for _, namespace := range list[metav1.Object](c.inputs.Namespaces) {
		allowed.Labels[namespace.GetName()] = namespace.GetLabels()
	}
	return allowed
}
