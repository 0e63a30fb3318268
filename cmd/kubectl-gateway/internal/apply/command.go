package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/dynamic"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/wait"
)

const long = `Apply objects of any kind by server-side apply: all of them, or, if one is wrong, none.

Everything is checked first: the syntax of all files, that the API server knows the kinds, and a dry run of each object,
with unknown fields and conflicts refused. Nothing is applied unless all pass. Objects whose Namespace is created by
the same call are checked after that, before anything else is applied. A field that somebody else owns
is no conflict if it has the same value already.

If it is interrupted, it finishes the object at hand and prints what was applied; the same command goes on (exit code
4). With --wait, it waits until every proxy runs the applied Gateways, ListenerSets, routes and BackendPolicies; the
exit code is 3 if they did not in time.`

const examples = `  kubectl gateway apply -f shop.yaml --wait
  kubectl gateway apply -f site/ -R --dry-run`

type command struct {
	*cli.Options
	files               cli.Files
	dryRun, force, wait bool
	timeout             time.Duration

	namespace string
	client    dynamic.Interface
	mapper    meta.RESTMapper
	// all counts the objects, applied the objects applied so far, and changed the applied objects that differ from
	// before.
	all, applied, changed int
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "apply -f FILE", Short: "Apply objects: all of them or, if one is wrong, none", Long: long, Example: examples,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cli.AddFileFlags(cmd, &c.files, "file or directory with objects, - for standard input")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only print what would be done")
	cmd.Flags().BoolVar(&c.force, "force-conflicts", false, "take over fields that others own")
	cmd.Flags().BoolVar(&c.wait, "wait", false, "wait until every proxy runs the applied Gateways and routes")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 2*time.Minute, "how long to wait")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	switch {
	case len(c.files.Paths) == 0:
		return cli.Usagef("name a file with -f")
	case c.dryRun && c.wait:
		return cli.Usagef("--wait and --dry-run do not go together")
	}
	documents, err := c.files.Read(c.In)
	if err != nil {
		return fmt.Errorf("nothing was applied: %w", err)
	}
	if err := c.connect(); err != nil {
		return err
	}
	namespaces, others, err := c.resolve(documents)
	if err != nil {
		return err
	}
	later, err := c.check(ctx, namespaces, others)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, namespaces); err != nil {
		return err
	}
	if !c.dryRun && len(later) > 0 {
		if _, err := c.check(ctx, nil, later); err != nil {
			return err
		}
	}
	if err := c.apply(ctx, others); err != nil || !c.wait {
		return err
	}
	var objects []wait.Object
	for _, i := range others {
		kind := i.Object.GroupVersionKind().GroupKind()
		if wait.IsFor(kind) {
			objects = append(objects, wait.Object{Kind: kind, Namespace: i.Object.GetNamespace(), Name: i.Object.GetName(), Client: i.client})
		}
	}
	return wait.For(ctx, c.Options, objects, c.timeout, "everything is applied, but ")
}

func (c *command) connect() error {
	config, err := c.RESTConfig()
	if err != nil {
		return err
	}
	if c.namespace, err = c.Namespace(); err != nil {
		return err
	}
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	if c.mapper, err = c.Flags.ToRESTMapper(); err != nil {
		return fmt.Errorf("failed to ask which kinds there are: %w", err)
	}
	return nil
}
