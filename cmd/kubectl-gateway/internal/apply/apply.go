package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const (
	// requestTimeout bounds a request that an interrupt does not end, so that it is known what it did.
	requestTimeout = 30 * time.Second
	// establishTimeout is how long the API server may take to serve a new kind.
	establishTimeout = 30 * time.Second
	pollInterval     = 250 * time.Millisecond

	created, configured, unchanged = "created", "configured", "unchanged"
)

// check lets the API server check every object, by a dry run: those that can be checked at once, or the others.
func (c *command) check(ctx context.Context, items []*item, later bool) error {
	var problems []string
	for _, i := range items {
		if i.later != later {
			continue
		}
		live, err := c.resource(i.mapping, i.Object.GetNamespace()).Get(ctx, i.Object.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			live, err = nil, nil
		}
		var planned *unstructured.Unstructured
		if err == nil {
			planned, err = c.patch(ctx, i, true)
		}
		switch {
		case isRefusal(err):
			problems = append(problems, fmt.Sprintf("%s: %s: %s", i.Source, i, reason(err)))
		case err != nil:
			return c.interrupted(fmt.Errorf("failed to check %s: %w", i, err))
		default:
			i.result = compare(live, planned)
		}
	}
	return c.refused(problems, len(items))
}

// isRefusal says whether an error is the API server's word about an object, for an unknown field with code 500, rather than about
// how the server is or who asks.
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

// reason says why the API server refuses an object. Conflicts are listed by field and manager.
func reason(err error) string {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return cli.PlainPatch(err.Error())
	}
	if details := status.Status().Details; apierrors.IsInvalid(err) && len(details.Causes) > 0 {
		var problems []string
		for _, cause := range details.Causes {
			problems = append(problems, cause.Field+": "+cause.Message)
		}
		return "the API server refuses it: " + strings.Join(cli.Plain(problems), "; ")
	}
	if !apierrors.IsConflict(err) {
		return cli.PlainPatch(err.Error())
	}
	var conflicts []string
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeFieldManagerConflict {
			conflicts = append(conflicts, cause.Field+" ("+cause.Message+")")
		}
	}
	if len(conflicts) == 0 {
		return err.Error()
	}
	return "others own the fields " + strings.Join(conflicts, ", ") + ": leave them out, or use --force-conflicts"
}

// patch applies an object, or tries to.
func (c *command) patch(ctx context.Context, i *item, dryRun bool) (*unstructured.Unstructured, error) {
	content, err := json.Marshal(i.Object)
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: cli.FieldManager, FieldValidation: metav1.FieldValidationStrict, Force: &c.force}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	return c.resource(i.mapping, i.Object.GetNamespace()).Patch(ctx, i.Object.GetName(), types.ApplyPatchType, content, options)
}

// compare says what makes one object of another.
func compare(before, after *unstructured.Unstructured) string {
	if before == nil {
		return created
	}
	before, after = before.DeepCopy(), after.DeepCopy()
	for _, object := range []*unstructured.Unstructured{before, after} {
		object.SetManagedFields(nil)
		object.SetResourceVersion("")
		object.SetGeneration(0)
	}
	if reflect.DeepEqual(before.Object, after.Object) {
		return unchanged
	}
	return configured
}

// sayPlan says what would be done.
func (c *command) sayPlan(items []*item, old []superfluous) error {
	for _, i := range items {
		if i.later {
			i.result = created + ", not checked: what it needs is not there yet"
		}
		c.Say("%s %s (dry run)", i.name(), i.result)
	}
	for _, o := range old {
		c.Say("%s pruned (dry run)", resourceName(o.mapping.GroupVersionKind.GroupKind(), o.name))
	}
	return nil
}

// applyAll applies what was checked. Those that others need come first in items.
func (c *command) applyAll(ctx context.Context, items []*item) error {
	first := 0
	for first < len(items) && items[first].isFirst() {
		first++
	}
	if err := c.applySome(ctx, items[:first], len(items)); err != nil {
		return err
	}
	if err := c.prepareLater(ctx, items); err != nil {
		return err
	}
	return c.applySome(ctx, items[first:], len(items))
}

// prepareLater checks what could not be checked before.
func (c *command) prepareLater(ctx context.Context, items []*item) error {
	for _, i := range items {
		if !i.later || i.mapping != nil {
			continue
		}
		kind := i.Object.GroupVersionKind()
		err := wait.PollUntilContextTimeout(ctx, pollInterval, establishTimeout, true, func(context.Context) (bool, error) {
			meta.MaybeResetRESTMapper(c.mapper)
			var err error
			i.mapping, err = c.mapper.RESTMapping(kind.GroupKind(), kind.Version)
			return err == nil, nil
		})
		if err != nil {
			return c.interrupted(fmt.Errorf("the API server does not serve kind %s: %w", kind.Kind, err))
		}
	}
	return c.check(ctx, items, true)
}

func (c *command) applySome(ctx context.Context, items []*item, of int) error {
	for _, i := range items {
		if ctx.Err() != nil {
			return c.interrupted(fmt.Errorf("interrupted before %s: %d of %d objects are applied", i, c.applied, of))
		}
		// An interrupt lets the request end: else nobody would know what it did.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
		_, err := c.patch(bounded, i, false)
		cancel()
		if err != nil {
			return c.interrupted(fmt.Errorf("failed to apply %s (%d of %d objects are applied): %s", i, c.applied, of, reason(err)))
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
