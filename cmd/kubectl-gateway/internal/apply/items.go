package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

// item is an object to apply.
type item struct {
	cli.Document
	// mapping is nil as long as its kind is yet to come with a CustomResourceDefinition of the same call.
	mapping *meta.RESTMapping
	// later says that it can be checked only once a Namespace or CustomResourceDefinition of the same call is there.
	later bool
	// result is what is or would be done: created, configured or unchanged.
	result string
}

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}
	crdKind       = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

func (i *item) kind() schema.GroupKind { return i.Object.GroupVersionKind().GroupKind() }

// isFirst says whether others may need the object.
func (i *item) isFirst() bool { return i.kind() == namespaceKind || i.kind() == crdKind }

// name is the object in the words of kubectl.
func (i *item) name() string { return resourceName(i.kind(), i.Object.GetName()) }

func resourceName(kind schema.GroupKind, name string) string {
	return strings.ToLower(kind.String()) + "/" + name
}

// resolve finds the kinds of all documents, and sorts those first that others may need.
func (c *command) resolve(documents []cli.Document) ([]*item, error) {
	brought := bringsKinds(documents)
	var items []*item
	var problems []string
	seen := map[string]string{}
	for _, document := range documents {
		i := &item{Document: document}
		problem, err := c.place(i, brought)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%s %s/%s", i.kind(), i.Object.GetNamespace(), i.Object.GetName())
		switch {
		case problem != "":
		case seen[key] != "":
			problem = "it is also in " + seen[key]
		case !c.selector.Matches(labels.Set(i.Object.GetLabels())):
			problem = fmt.Sprintf("it does not have the labels of -l %s", c.selectorText)
		}
		seen[key] = document.Source
		if problem != "" {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", document.Source, document, problem))
		}
		items = append(items, i)
	}
	slices.SortStableFunc(items, func(a, b *item) int { return order(a) - order(b) })
	return items, c.refused(problems, len(items))
}

func order(i *item) int {
	if i.isFirst() {
		return 0
	}
	return 1
}

// place finds the kind of an object and its namespace.
func (c *command) place(i *item, brought map[schema.GroupKind]string) (problem string, err error) {
	kind := i.Object.GroupVersionKind()
	namespaced := false
	i.mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case err == nil:
		namespaced = i.mapping.Scope.Name() == meta.RESTScopeNameNamespace
	case !meta.IsNoMatchError(err):
		return "", fmt.Errorf("failed to ask which kinds there are: %w", err)
	case brought[kind.GroupKind()] == "":
		return fmt.Sprintf("the API server knows no kind %s of %s", kind.Kind, kind.GroupVersion()), nil
	default:
		i.later, namespaced = true, brought[kind.GroupKind()] == "Namespaced"
	}
	own := i.Object.GetNamespace()
	switch {
	case namespaced && own == "":
		i.Object.SetNamespace(c.namespace)
	case namespaced && *c.Flags.Namespace != "" && own != *c.Flags.Namespace:
		return fmt.Sprintf("it is in another namespace than --namespace=%s", *c.Flags.Namespace), nil
	}
	return "", nil
}

// bringsKinds returns the kinds of the CustomResourceDefinitions among the documents, with their scopes.
func bringsKinds(documents []cli.Document) map[schema.GroupKind]string {
	kinds := map[schema.GroupKind]string{}
	for _, document := range documents {
		if document.Object.GroupVersionKind().GroupKind() != crdKind {
			continue
		}
		group, _, _ := unstructured.NestedString(document.Object.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(document.Object.Object, "spec", "names", "kind")
		scope, _, _ := unstructured.NestedString(document.Object.Object, "spec", "scope")
		kinds[schema.GroupKind{Group: group, Kind: kind}] = scope
	}
	return kinds
}

// findNamespaces notes which objects are in namespaces that are yet to come.
func (c *command) findNamespaces(ctx context.Context, items []*item) error {
	for _, i := range items {
		if i.kind() != namespaceKind {
			continue
		}
		namespaces := c.client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
		_, err := namespaces.Get(ctx, i.Object.GetName(), metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to get %s: %w", i, err)
		}
		for _, other := range items {
			if err != nil && other.Object.GetNamespace() == i.Object.GetName() {
				other.later = true
			}
		}
	}
	return nil
}

// resource returns the client for an object.
func (c *command) resource(mapping *meta.RESTMapping, namespace string) dynamic.ResourceInterface {
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return c.client.Resource(mapping.Resource).Namespace(namespace)
	}
	return c.client.Resource(mapping.Resource)
}

// refused says what is wrong with objects, a line each, and returns the error for all.
func (c *command) refused(problems []string, of int) error {
	if len(problems) == 0 {
		return nil
	}
	for _, problem := range problems {
		_, _ = fmt.Fprintln(c.ErrOut, strings.ReplaceAll(problem, "\n", " "))
	}
	err := fmt.Errorf("%d of %d objects are not right", len(problems), of)
	if c.applied > 0 {
		return cli.Partialf("%w: only the Namespaces and CustomResourceDefinitions were applied", err)
	}
	return fmt.Errorf("nothing was applied: %w", err)
}
