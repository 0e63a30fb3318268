package apply

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

// superfluous is an object that was applied before and is not in the files any more.
type superfluous struct {
	mapping         *meta.RESTMapping
	namespace, name string
	uid             types.UID
}

// superfluous returns what --prune is to delete. Nobody else's objects: what was not applied under our name, or belongs to
// another object, is left alone.
func (c *command) superfluous(ctx context.Context, items []*item) ([]superfluous, error) {
	if !c.prune {
		return nil, nil
	}
	mappings, namespaces, err := c.pruned(items)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, i := range items {
		wanted[fmt.Sprintf("%s %s/%s", i.kind(), i.Object.GetNamespace(), i.Object.GetName())] = true
	}
	var old []superfluous
	for _, mapping := range mappings {
		for _, namespace := range namespaces {
			list, err := c.resource(mapping, namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selectorText})
			if err != nil {
				return nil, fmt.Errorf("failed to list %s: %w", mapping.Resource.Resource, err)
			}
			for i := range list.Items {
				object := &list.Items[i]
				key := fmt.Sprintf("%s %s/%s", mapping.GroupVersionKind.GroupKind(), object.GetNamespace(), object.GetName())
				if !wanted[key] && isOurs(object) {
					old = append(old, superfluous{mapping, object.GetNamespace(), object.GetName(), object.GetUID()})
				}
			}
		}
	}
	return old, nil
}

// pruned returns in which kinds and namespaces --prune looks: those of the files, and Gateways. Cluster-scoped kinds are left
// alone: the namespaces of the files do not bound what of them is deleted.
func (c *command) pruned(items []*item) ([]*meta.RESTMapping, []string, error) {
	var mappings []*meta.RESTMapping
	seen := map[string]bool{}
	add := func(mapping *meta.RESTMapping) {
		if key := mapping.Resource.GroupResource().String(); mapping.Scope.Name() == meta.RESTScopeNameNamespace && !seen[key] {
			seen[key] = true
			mappings = append(mappings, mapping)
		}
	}
	namespaces := map[string]bool{}
	var names []string
	for _, i := range items {
		if i.mapping != nil {
			add(i.mapping)
		}
		if namespace := i.Object.GetNamespace(); namespace != "" && !namespaces[namespace] {
			namespaces[namespace] = true
			names = append(names, namespace)
		}
	}
	if len(names) == 0 {
		names = append(names, c.namespace)
	}
	gateways, err := c.mapper.RESTMapping(appv1.SchemeGroupVersion.WithKind("Gateway").GroupKind())
	switch {
	case err == nil:
		add(gateways)
	case !meta.IsNoMatchError(err):
		return nil, nil, fmt.Errorf("failed to ask which kinds there are: %w", err)
	}
	return mappings, names, nil
}

func isOurs(object *unstructured.Unstructured) bool {
	if metav1.GetControllerOf(object) != nil {
		return false
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == cli.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

// remove deletes what is not in the files any more, if it is still the same.
func (c *command) remove(ctx context.Context, old []superfluous) error {
	var errs []error
	for _, o := range old {
		name := resourceName(o.mapping.GroupVersionKind.GroupKind(), o.name)
		background := metav1.DeletePropagationBackground
		err := c.resource(o.mapping, o.namespace).Delete(ctx, o.name, metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: &o.uid}, PropagationPolicy: &background,
		})
		switch {
		case err == nil:
			c.changed++
			c.Say("%s pruned", name)
		case !apierrors.IsNotFound(err):
			errs = append(errs, fmt.Errorf("failed to delete %s: %w", name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return c.interrupted(err)
	}
	return nil
}
