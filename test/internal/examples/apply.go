package examples

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/utils/ptr"
)

// Applier applies objects of any kind.
type Applier struct {
	client dynamic.Interface
	mapper meta.RESTMapper
}

// NewApplier asks the server for the kinds it has.
func NewApplier(server discovery.DiscoveryInterface, client dynamic.Interface) (*Applier, error) {
	groups, err := restmapper.GetAPIGroupResources(server)
	if err != nil {
		return nil, fmt.Errorf("failed to list the server's kinds: %w", err)
	}
	return &Applier{client: client, mapper: restmapper.NewDiscoveryRESTMapper(groups)}, nil
}

// Apply does what kubectl apply --server-side does, where unknown fields and fields that are there twice are errors.
func (a *Applier) Apply(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return a.apply(ctx, object)
}

// DryRun has the server check what Apply would do.
func (a *Applier) DryRun(ctx context.Context, object *unstructured.Unstructured) error {
	_, err := a.apply(ctx, object, metav1.DryRunAll)
	return err
}

func (a *Applier) apply(
	ctx context.Context, object *unstructured.Unstructured, dryRun ...string,
) (*unstructured.Unstructured, error) {
	kind := object.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, err
	}
	body, err := object.MarshalJSON()
	if err != nil {
		return nil, err
	}
	applied, err := a.client.Resource(mapping.Resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(),
		types.ApplyPatchType, body, metav1.PatchOptions{
			FieldManager: "kubectl", Force: ptr.To(true), FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
		})
	if err != nil {
		return nil, fmt.Errorf("failed to apply %s %s/%s: %w", kind.Kind, object.GetNamespace(), object.GetName(), err)
	}
	return applied, nil
}
