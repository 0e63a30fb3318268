package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const (
	// requestTimeout bounds a request that an interrupt does not end, so that it is known what it did.
	requestTimeout = 30 * time.Second

	unchanged = "unchanged"
)

// item is an object to apply.
type item struct {
	cli.Document
	client dynamic.ResourceInterface
	// result is what is or would be done: created, configured or unchanged.
	result string
	// isShared reports that somebody else owns fields, which have the wanted values already. There is nothing to apply.
	isShared bool
}

// name is the object in the words of kubectl.
func (i *item) name() string {
	return strings.ToLower(i.Object.GroupVersionKind().GroupKind().String()) + "/" + i.Object.GetName()
}

// resolve finds the kinds of all documents. Namespaces come first: others may need them.
func (c *command) resolve(documents []cli.Document) (namespaces, others []*item, err error) {
	c.all = len(documents)
	var problems []string
	seen := map[string]string{}
	for _, document := range documents {
		i := &item{Document: document}
		problem, err := c.place(i)
		if err != nil {
			return nil, nil, err
		}
		key := i.Object.GroupVersionKind().Group + " " + i.String()
		if problem == "" && seen[key] != "" {
			problem = "it is also in " + seen[key]
		}
		seen[key] = i.Source
		if problem != "" {
			problems = append(problems, fmt.Sprintf("%s: %s: %s", i.Source, document, problem))
		}
		if i.name() == "namespace/"+i.Object.GetName() {
			namespaces = append(namespaces, i)
		} else {
			others = append(others, i)
		}
	}
	return namespaces, others, c.refused(problems)
}

// place finds the kind of an object and its namespace.
func (c *command) place(i *item) (problem string, err error) {
	kind, namespace := i.Object.GroupVersionKind(), i.Object.GetNamespace()
	mapping, err := c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	switch {
	case meta.IsNoMatchError(err):
		return fmt.Sprintf("the API server knows no kind %s of %s", kind.Kind, kind.GroupVersion()), nil
	case err != nil:
		return "", fmt.Errorf("failed to ask which kinds there are: %w", err)
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		i.client = c.client.Resource(mapping.Resource)
		return "", nil
	case namespace != "" && *c.Flags.Namespace != "" && namespace != *c.Flags.Namespace:
		return fmt.Sprintf("it is in another namespace than --namespace=%s", *c.Flags.Namespace), nil
	case namespace == "":
		i.Object.SetNamespace(c.namespace)
	}
	i.client = c.client.Resource(mapping.Resource).Namespace(i.Object.GetNamespace())
	return "", nil
}

// check makes the API server check every object, by a dry run. It returns those that can be checked only once the
// namespaces exist.
func (c *command) check(ctx context.Context, namespaces, others []*item) (later []*item, err error) {
	var problems []string
	for _, i := range slices.Concat(namespaces, others) {
		live, err := i.client.Get(ctx, i.Object.GetName(), metav1.GetOptions{})
		var planned *unstructured.Unstructured
		if err == nil || apierrors.IsNotFound(err) {
			planned, err = c.patch(ctx, i, true, c.force)
		}
		if apierrors.IsConflict(err) {
			// Server-side apply takes a list that lacks defaults for another value than the same list with them.
			forced, forcedErr := c.patch(ctx, i, true, true)
			if i.isShared = forcedErr == nil && compare(live.DeepCopy(), forced.DeepCopy()) == unchanged; i.isShared {
				planned, err = forced, nil
			}
		}
		switch {
		case apierrors.IsNotFound(err) && slices.ContainsFunc(namespaces, func(n *item) bool { return n.Object.GetName() == i.Object.GetNamespace() }):
			later = append(later, i)
			i.result = "created, not checked: what it needs is not there yet"
		case isRefusal(err):
			problems = append(problems, fmt.Sprintf("%s: %s: %s", where(i, err), i, reason(err)))
		case err != nil:
			return nil, c.interrupted(fmt.Errorf("failed to check %s: %w", i, err))
		default:
			i.result = compare(live, planned)
		}
	}
	return later, c.refused(problems)
}

// isRefusal reports whether an error is the API server's verdict on an object, with code 500 for an unknown field.
// Other errors are about the server's state, or the user.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// where returns the file and the line that the API server objects to.
func where(i *item, err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil && len(status.Status().Details.Causes) > 0 {
		return i.At(status.Status().Details.Causes[0].Field)
	}
	return i.Source
}

// reason returns why the API server refuses an object.
func reason(err error) string {
	if apierrors.IsConflict(err) {
		return err.Error() + ": leave these fields out, or use --force-conflicts"
	}
	return cli.Plain(err.Error())
}

// refused prints the problems of objects, a line each, and returns one error for all.
func (c *command) refused(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	for _, problem := range problems {
		_, _ = fmt.Fprintln(c.ErrOut, strings.ReplaceAll(problem, "\n", " "))
	}
	err := fmt.Errorf("%d of %d objects are invalid", len(problems), c.all)
	if c.applied > 0 {
		return cli.Partialf("%w: only the Namespaces were applied", err)
	}
	return fmt.Errorf("nothing was applied: %w", err)
}

// patch applies an object, or tries to.
func (c *command) patch(ctx context.Context, i *item, dryRun, force bool) (*unstructured.Unstructured, error) {
	content, err := json.Marshal(i.Object)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: cli.FieldManager, FieldValidation: metav1.FieldValidationStrict, Force: &force}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return i.client.Patch(ctx, i.Object.GetName(), types.ApplyPatchType, content, options)
}

// compare returns the verb for a change: created, configured or unchanged.
func compare(before, after *unstructured.Unstructured) string {
	if before == nil {
		return "created"
	}
	for _, object := range []*unstructured.Unstructured{before, after} {
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		object.SetGeneration(0)
	}
	if reflect.DeepEqual(before.Object, after.Object) {
		return unchanged
	}
	return "configured"
}

// apply applies the checked objects, or prints what it would do.
func (c *command) apply(ctx context.Context, items []*item) error {
	for _, i := range items {
		if c.dryRun {
			c.Say("%s %s (dry run)", i.name(), i.result)
			continue
		}
		if ctx.Err() != nil {
			return c.interrupted(fmt.Errorf("interrupted before %s: %d of %d objects are applied", i, c.applied, c.all))
		}
		// An interrupt lets the request end: else its result would be unknown.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		var err error
		if !i.isShared {
			_, err = c.patch(bounded, i, false, c.force)
		}
		cancel()
		if err != nil {
			return c.interrupted(fmt.Errorf("failed to apply %s (%d of %d objects are applied): %s", i, c.applied, c.all, reason(err)))
		}
		c.applied++
		if i.result != unchanged {
			c.changed++
		}
		c.Say("%s %s", i.name(), i.result)
	}
	return nil
}

// interrupted is the error if something came between.
func (c *command) interrupted(err error) error {
	if c.changed == 0 {
		return err
	}
	return cli.Partialf("%w: run the same command again", err)
}
