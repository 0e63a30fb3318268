package list

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Show Gateways: their listeners, number of routes with those of the Gateway API, address, proxies that are
ready of those wanted, whether every proxy runs the latest generation, and what is wrong.

With -o wide also the generation, and problems in full. For other forms, such as custom-columns, use
"kubectl get gateways.app.example.com".`

type command struct {
	*cli.Options
	printing              *genericclioptions.PrintFlags
	all, watch, noHeaders bool
	labels                string

	clients   cli.Clients
	namespace string
	printer   printers.ResourcePrinter
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options, printing: genericclioptions.NewPrintFlags("")}
	cmd := &cobra.Command{
		Use: "list [NAME...]", Aliases: []string{"get"}, Short: "Show Gateways, and what is wrong with them", Long: long,
		Example: `  kubectl gateway list -A
  kubectl gateway list -w -o wide
  kubectl gateway get shop -o jsonpath='{.status.addresses[0].value}'`,
		ValidArgsFunction: options.CompleteGateways,
		RunE:              func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	c.printing.AddFlags(cmd)
	cmd.Flags().Lookup("output").Usage = "wide, or one of: (json, yaml, name, jsonpath, go-template, and these -file or -as-json)"
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "those of all namespaces")
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "go on with those that change")
	cmd.Flags().StringVarP(&c.labels, "selector", "l", "", "only those with these labels, like app=shop,tier!=test")
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "print no headers")
	return cmd
}

func (c *command) run(ctx context.Context, names []string) error {
	if len(names) > 0 && (c.all || c.labels != "") {
		return cli.Usagef("names do not go together with -A and -l")
	}
	if len(names) > 1 && c.watch {
		return cli.Usagef("--watch is for one name or none")
	}
	var err error
	if _, err = labels.Parse(c.labels); err != nil {
		return cli.Usagef("-l %s: %w", c.labels, err)
	}
	if c.isTable() {
		c.printer = printers.NewTablePrinter(printers.PrintOptions{NoHeaders: c.noHeaders, Wide: c.isWide()})
	} else if c.printer, err = c.printing.ToPrinter(); err != nil {
		return cli.Usagef("%w", err)
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
	// Every batch gets the columns of the first.
	out := printers.GetNewTabWriter(c.Out)
	switch {
	case len(gateways.Items) == 0 && c.isTable():
		if !c.watch {
			_, _ = fmt.Fprintln(c.ErrOut, "No Gateways found.")
		}
	case len(names) == 1:
		err = c.print(ctx, &gateways.Items[0], gateways.Items, out)
	default:
		err = c.print(ctx, gateways, gateways.Items, out)
	}
	if err = errors.Join(err, out.Flush()); err != nil || !c.watch {
		return err
	}
	return c.follow(ctx, gateways.ResourceVersion, names, out)
}

func (c *command) isWide() bool { return *c.printing.OutputFormat == "wide" }

func (c *command) isTable() bool {
	return c.isWide() || *c.printing.OutputFormat == "" && *c.printing.TemplatePrinterFlags.TemplateArgument == ""
}

// list returns the Gateways, with their kinds, which the typed clients leave out.
func (c *command) list(ctx context.Context, names []string) (*appv1.GatewayList, error) {
	list := &appv1.GatewayList{}
	var err error
	if len(names) == 0 {
		list, err = c.clients.Gateways.AppV1().Gateways(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.labels})
		if err != nil {
			return nil, fmt.Errorf("failed to list Gateways: %w", err)
		}
	}
	for _, name := range names {
		gateway, err := c.clients.Gateways.AppV1().Gateways(c.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("failed to get Gateway %s/%s: %w", c.namespace, name, err)
		}
		list.Items = append(list.Items, *gateway)
		list.ResourceVersion = gateway.ResourceVersion
	}
	list.SetGroupVersionKind(appv1.SchemeGroupVersion.WithKind("GatewayList"))
	for i := range list.Items {
		list.Items[i].SetGroupVersionKind(appv1.SchemeGroupVersion.WithKind("Gateway"))
	}
	return list, nil
}

// flusher is a writer that waits until it knows the widths of columns.
type flusher interface {
	io.Writer
	Flush() error
}

// follow prints changes until it is interrupted.
func (c *command) follow(ctx context.Context, version string, names []string, out flusher) error {
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = c.labels
			for _, name := range names {
				options.FieldSelector = "metadata.name=" + name
			}
			return c.clients.Gateways.AppV1().Gateways(c.namespace).Watch(ctx, options)
		},
	})
	if err != nil {
		return fmt.Errorf("failed to watch Gateways: %w", err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		gateway, ok := event.Object.(*appv1.Gateway)
		if !ok {
			return fmt.Errorf("the watch ended, start it again: %v", event.Object)
		}
		gateway.SetGroupVersionKind(appv1.SchemeGroupVersion.WithKind("Gateway"))
		if event.Type == watch.Deleted {
			gateway.Status = appv1.GatewayStatus{Conditions: []metav1.Condition{{
				Type: appv1.ConditionProgrammed, Status: metav1.ConditionFalse, ObservedGeneration: gateway.Generation, Message: "it was deleted",
			}}}
		}
		if err := errors.Join(c.print(ctx, gateway, []appv1.Gateway{*gateway}, out), out.Flush()); err != nil {
			return err
		}
	}
	return nil
}

// print prints an object, or a table of the Gateways in it.
func (c *command) print(ctx context.Context, object runtime.Object, gateways []appv1.Gateway, out io.Writer) error {
	switch {
	case *c.printing.OutputFormat == "name": // which takes no list
		var errs []error
		for i := range gateways {
			errs = append(errs, c.printer.PrintObj(&gateways[i], out))
		}
		return errors.Join(errs...)
	case !c.isTable():
		return c.printer.PrintObj(object, out)
	}
	table, err := c.table(ctx, gateways)
	if err != nil {
		return err
	}
	return c.printer.PrintObj(table, out)
}
