package wait

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Wait until every proxy runs the latest generation of objects: HTTPRoutes, GRPCRoutes, TLSRoutes, TCPRoutes,
Gateways, ListenerSets and BackendPolicies.

After an edit, "kubectl wait --for=jsonpath" returns at once, because the status still has the condition of the previous
generation. This command compares generations. The exit code is 3 if a proxy did not run an object in time.`

const examples = `  kubectl gateway wait httproute/shop
  kubectl gateway wait httproutes --all -n shop --timeout=1m`

type command struct {
	*cli.Options
	all     bool
	timeout time.Duration
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "wait KIND/NAME...", Short: "Wait until every proxy runs an edited route or Gateway", Long: long, Example: examples,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cmd.Flags().BoolVar(&c.all, "all", false, "wait for all objects of the kinds in the namespace")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 2*time.Minute, "how long to wait")
	return cmd
}

func (c *command) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return cli.Usagef("name an object, such as httproute/shop")
	}
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	namespace, err := c.Namespace()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	infos, err := resource.NewBuilder(c.Flags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		ResourceTypeOrNameArgs(c.all, args...).Flatten().Do().Infos()
	if err != nil {
		return err
	}
	var objects []Object
	for _, info := range infos {
		o := Object{
			Kind: info.Mapping.GroupVersionKind.GroupKind(), Namespace: info.Namespace, Name: info.Name,
			Client: client.Resource(info.Mapping.Resource).Namespace(info.Namespace),
		}
		if !IsFor(o.Kind) {
			return cli.Usagef("%s has no condition Programmed: see kubectl gateway wait --help", o)
		}
		objects = append(objects, o)
	}
	return For(ctx, c.Options, objects, c.timeout, "")
}
