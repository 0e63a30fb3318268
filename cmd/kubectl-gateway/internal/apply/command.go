package apply

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Apply objects of any kind by server-side apply: all of them, or, if one is wrong, none.

Everything is checked first: the syntax of all files, that the API server knows the kinds, and a dry run of each object, with
unknown fields and conflicts refused. Only when all pass is anything applied. Objects whose Namespace or kind is
created by the same call can be checked only after that: they are, before anything else is applied.

If it is interrupted, the object at hand is finished, and what was applied is said; the same command goes on (exit code 4).

With --prune, objects that have the labels of -l, were applied by this command and are not in the files any more are deleted: in
the namespaces of the files, of the kinds in the files and Gateways, but no cluster-scoped ones. With --wait, it waits until every
proxy of the Gateways runs what was applied; the answer no (3) is that they did not in time.`

const examples = `  kubectl gateway apply -f shop.yaml --wait
  kubectl gateway apply -f site/ -R --dry-run
  kubectl gateway apply -f site/ --prune -l site=shop`

type command struct {
	*cli.Options
	files        cli.Files
	dryRun       string
	force        bool
	prune, wait  bool
	selectorText string
	timeout      time.Duration

	selector  labels.Selector
	namespace string
	client    dynamic.Interface
	mapper    meta.RESTMapper
	applied   int
	changed   int
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
	cmd.Flags().StringVar(&c.dryRun, "dry-run", "none", "server (or no value): only say what would be done; none")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "server"
	cmd.Flags().BoolVar(&c.force, "force-conflicts", false, "take over fields that others own")
	cmd.Flags().BoolVar(&c.prune, "prune", false, "delete what has the labels of -l and is not in the files any more")
	cmd.Flags().StringVarP(&c.selectorText, "selector", "l", "", "labels for --prune, which all objects in the files have to have")
	cmd.Flags().BoolVar(&c.wait, "wait", false, "wait until every proxy of the Gateways runs what was applied")
	cmd.Flags().DurationVar(&c.timeout, "timeout", 2*time.Minute, "how long to wait")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if err := c.checkFlags(); err != nil {
		return err
	}
	documents, err := c.files.Read(c.In)
	if err != nil {
		return fmt.Errorf("nothing was applied: %w", err)
	}
	if err := c.connect(); err != nil {
		return err
	}
	items, err := c.resolve(documents)
	if err != nil {
		return err
	}
	if err := c.findNamespaces(ctx, items); err != nil {
		return err
	}
	old, err := c.superfluous(ctx, items)
	if err != nil {
		return err
	}
	if err := c.check(ctx, items, false); err != nil {
		return err
	}
	if c.isDryRun() {
		return c.sayPlan(items, old)
	}
	if err := c.applyAll(ctx, items); err != nil {
		return err
	}
	if err := c.remove(ctx, old); err != nil {
		return err
	}
	if c.wait {
		return c.waitFor(ctx, items)
	}
	return nil
}

func (c *command) checkFlags() error {
	var err error
	switch {
	case len(c.files.Paths) == 0:
		return cli.Usagef("name a file with -f")
	case c.dryRun != "none" && c.dryRun != "server":
		return cli.Usagef("unknown --dry-run=%s: use server or none", c.dryRun)
	case c.prune != (c.selectorText != ""):
		return cli.Usagef("--prune and -l go together")
	case c.isDryRun() && c.wait:
		return cli.Usagef("--wait and --dry-run do not go together")
	}
	if c.selector, err = labels.Parse(c.selectorText); err != nil {
		return cli.Usagef("-l %s: %w", c.selectorText, err)
	}
	return nil
}

func (c *command) isDryRun() bool { return c.dryRun == "server" }

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
