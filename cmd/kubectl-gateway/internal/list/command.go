package list

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/cli-runtime/pkg/printers"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Show Gateways: their listeners, number of routes including the Gateway API's, address, ready and wanted
proxies, whether every proxy runs the latest generation, and problems.

With -o wide also the generation, and problems in full, as where the output is not a terminal. To watch Gateways, use
"kubectl get gateways.app.example.com".`

type command struct {
	*cli.Options
	all, noHeaders bool
	labels, output string

	clients   cli.Clients
	namespace string
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "list [NAME...]", Aliases: []string{"get"}, Short: "Show Gateways and their problems", Long: long,
		Example: `  kubectl gateway list -A
  kubectl gateway list shop -o wide`,
		ValidArgsFunction: options.CompleteGateways,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cmd.Flags().StringVarP(&c.output, "output", "o", "", "wide: show the generation, too, and problems in full; json, yaml: for programs")
	cli.Complete(cmd, "output", "wide", "json", "yaml")
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "the Gateways of all namespaces")
	cmd.Flags().StringVarP(&c.labels, "selector", "l", "", "only those with these labels, like app=shop,tier!=test")
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "print no headers")
	return cmd
}

func (c *command) run(ctx context.Context, names []string) error {
	if len(names) > 0 && (c.all || c.labels != "") {
		return cli.Usagef("names do not go together with -A and -l")
	}
	if !slices.Contains([]string{"", "wide", "json", "yaml"}, c.output) {
		return cli.Usagef("unknown output %q: use wide, json or yaml", c.output)
	}
	var err error
	if _, err = labels.Parse(c.labels); err != nil {
		return cli.Usagef("-l %s: %w", c.labels, err)
	}
	if c.clients, c.namespace, err = c.Connect(); err != nil {
		return err
	}
	if c.all {
		c.namespace = metav1.NamespaceAll
	}
	gateways, err := c.list(ctx, names)
	if err != nil {
		return err
	}
	rows, err := c.rows(ctx, gateways)
	if err != nil {
		return err
	}
	if c.output == "json" || c.output == "yaml" {
		return c.Print(cli.Format(c.output), map[string]any{"gateways": rows})
	}
	if len(gateways) == 0 {
		_, _ = fmt.Fprintln(c.ErrOut, "No Gateways found.")
		return nil
	}
	table := c.table(rows, time.Now())
	return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: c.noHeaders, Wide: c.isWide()}).PrintObj(table, c.Out)
}

func (c *command) isWide() bool { return c.output == "wide" }

// list returns the Gateways.
func (c *command) list(ctx context.Context, names []string) ([]appv1.Gateway, error) {
	if len(names) == 0 {
		list, err := c.clients.Gateways.AppV1().Gateways(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.labels})
		if err != nil {
			return nil, fmt.Errorf("failed to list Gateways: %w", err)
		}
		return list.Items, nil
	}
	var gateways []appv1.Gateway
	for _, name := range names {
		gateway, err := c.clients.Gateway(ctx, c.namespace, name)
		if err != nil {
			return nil, err
		}
		gateways = append(gateways, *gateway)
	}
	return gateways, nil
}
