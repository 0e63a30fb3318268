// Package adopt is the command that keeps what the operator has made of Ingresses, without them.
package adopt

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/kinds"
	"gateway/internal/source/ingress"
)

const long = `Take over the objects that were generated from the Ingresses of a class, so that you can delete the Ingresses.

The objects lose the label of the class and their owners, so that they are yours: routes, RouteFilters, policies,
ListenerSets, ReferenceGrants, and the Gateway with its address. No request is lost. The IngressClass is marked first, and
the operator does not look at its Ingresses any more. Delete them and the IngressClass when you like.`

const examples = `  kubectl gateway adopt gateway --dry-run
  kubectl gateway adopt gateway`

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	dryRun := false
	cmd := &cobra.Command{
		Use: "adopt CLASS", Short: "Take over the objects of a class of Ingresses", Long: long, Example: examples,
		Args: cli.MaxArgs(1), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef("name an IngressClass")
			}
			return run(cmd.Context(), options, args[0], dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only print what would be done")
	return cmd
}

// run adopts the objects of a class. The operator may have been about to make some more, so it looks again.
func run(ctx context.Context, options *cli.Options, class string, dryRun bool) error {
	config, err := options.RESTConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	classes := client.Resource(networkingv1.SchemeGroupVersion.WithResource("ingressclasses"))
	patch := metav1.PatchOptions{FieldManager: cli.FieldManager}
	if dryRun {
		patch.DryRun = []string{metav1.DryRunAll}
	}
	mark := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"true"}}}`, ingress.AnnotationAdopted)
	if _, err := classes.Patch(ctx, class, types.MergePatchType, mark, patch); err != nil {
		return fmt.Errorf("failed to mark IngressClass %s: %w", class, err)
	}
	adopted := 0
	for found := 1; found > 0; adopted += found {
		if found, err = pass(ctx, options, client, class, patch); err != nil {
			return cli.Partialf("adopted %d objects, and the same command goes on: %w", adopted+found, err)
		}
		if dryRun {
			return nil
		}
	}
	return nil
}

// pass adopts what there is of a class, and returns how much that is.
func pass(ctx context.Context, options *cli.Options, client dynamic.Interface, class string, patch metav1.PatchOptions) (int, error) {
	found := 0
	for _, kind := range ingress.Kinds {
		resource := kinds.ResourceOf(kind)
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{LabelSelector: ingress.LabelClass + "=" + class})
		if err != nil {
			return found, fmt.Errorf("failed to list %s: %w", resource.GroupResource(), err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			if err := adopt(ctx, client.Resource(resource).Namespace(object.GetNamespace()), object, patch); err != nil {
				return found, err
			}
			options.Say("%s %s/%s", kind, object.GetNamespace(), object.GetName())
			found++
		}
	}
	return found, nil
}

// adopt takes the label and the owners from an object.
func adopt(ctx context.Context, client dynamic.ResourceInterface, object *unstructured.Unstructured, patch metav1.PatchOptions) error {
	owners := slices.DeleteFunc(object.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.Kind == "Ingress" })
	content, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "ownerReferences": owners,
		"labels": map[string]any{ingress.LabelClass: nil}, "annotations": map[string]any{ingress.AnnotationApplied: nil},
	}})
	if err == nil {
		_, err = client.Patch(ctx, object.GetName(), types.MergePatchType, content, patch)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("failed to adopt %s %s/%s: %w", object.GetKind(), object.GetNamespace(), object.GetName(), err)
	}
	return nil
}
