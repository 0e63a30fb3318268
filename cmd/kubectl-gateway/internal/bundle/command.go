package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Write an archive for a bug report: versions, what "check" finds, the objects of the Gateways of a namespace with their statuses
and events, HAProxy's files, and the last lines of the logs of proxies and operators.

It reads no Secrets. Values of headers, parameters, variables and annotations whose names look like secrets are replaced by
REDACTED, also in logs, and so are private keys, tokens, passwords in URLs, and logged request headers. The archive has names, addresses of clients, and the
paths of requests: look through it before you publish it.

Exit codes: 3 if a part could not be read, such as objects that you may not read.`

type command struct {
	*cli.Options
	all    bool
	file   string
	tail   int64
	output cli.Format
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "bundle [NAME...]", Short: "Write an archive for a bug report, without secrets", Long: long,
		Example: `  kubectl gateway bundle -n shop
  kubectl gateway bundle shop --tail 10000 --output-file shop.tar.gz`,
		ValidArgsFunction: options.CompleteGateways,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cli.AddFormatFlag(cmd, &c.output, "json or yaml: print the names of the files in the archive, and what is missing")
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "the Gateways of all namespaces")
	cmd.Flags().StringVar(&c.file, "output-file", "", "the archive (default gateway-bundle-TIME.tar.gz)")
	cmd.Flags().Int64Var(&c.tail, "tail", 1000, "how many lines of each log")
	return cmd
}

func (c *command) run(ctx context.Context, names []string) error {
	if len(names) > 0 && c.all {
		return cli.Usagef("names do not go together with -A")
	}
	if c.tail < 0 {
		return cli.Usagef("--tail cannot be negative")
	}
	redactor, configure := &redactor{}, c.Flags.WrapConfigFn
	c.Flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config = configure(config)
		config.Wrap(redactor.wrap)
		return config
	}
	clients, namespace, err := c.Connect()
	if err != nil {
		return err
	}
	if c.all {
		namespace = metav1.NamespaceAll
	}
	gateways, err := c.gateways(ctx, clients, namespace, names)
	if err != nil {
		return err
	}
	dynamic, err := dynamic.NewForConfig(clients.Config)
	if err != nil {
		return fmt.Errorf("failed to make a client: %w", err)
	}
	now := time.Now().UTC()
	if c.file == "" {
		c.file = now.Format("gateway-bundle-20060102-150405.tar.gz")
	}
	out, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("failed to make the archive: %w", err)
	}
	all := &collector{archive: &archive{redactor: redactor}, clients: clients, dynamic: dynamic, tail: c.tail}
	all.collect(ctx, gateways, namespace)
	if err = errors.Join(all.write(out, now), out.Close()); err != nil {
		return err
	}
	return c.report(all.archive)
}

// gateways returns those that are named, or all.
func (c *command) gateways(ctx context.Context, clients cli.Clients, namespace string, names []string) (gateways []appv1.Gateway, err error) {
	for _, name := range names {
		gateway, err := clients.Gateway(ctx, namespace, name)
		if err != nil {
			return nil, err
		}
		gateways = append(gateways, *gateway)
	}
	if len(names) > 0 {
		return gateways, nil
	}
	list, err := clients.Gateways.AppV1().Gateways(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) && namespace != metav1.NamespaceAll {
		return nil, nil // a team's namespace has routes, and the archive tells that Gateways may not be read
	}
	if err != nil {
		return nil, fmt.Errorf("failed to list Gateways: %w", err)
	}
	return list.Items, nil
}

// report prints what the archive has, and what it lacks.
func (c *command) report(a *archive) error {
	if c.output != "" {
		if err := c.Print(c.output, map[string]any{"file": c.file, "entries": a.entries, "missing": append([]string{}, a.missing...)}); err != nil {
			return err
		}
	} else {
		c.Say("%s has %d files: look through it before you publish it", c.file, len(a.entries))
		for _, missing := range a.missing {
			c.Warn("%s", missing)
		}
	}
	if len(a.missing) > 0 {
		return cli.Nof("%d parts could not be read", len(a.missing))
	}
	return nil
}
