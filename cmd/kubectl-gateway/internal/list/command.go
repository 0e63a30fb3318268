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

With -o wide also the generation, the one that each proxy runs, and the images.`

const columnsPrefix = "custom-columns="

type command struct {
	*cli.Options
	printing        *genericclioptions.PrintFlags
	all, watch      bool
	labels, fields  string
	noHeaders, wide bool

	clients   cli.Clients
	namespace string
	printer   printers.ResourcePrinter
	columns   []column
}

// NewListCommand returns the command that shows all Gateways of a namespace.
func NewListCommand(options *cli.Options) *cobra.Command {
	cmd := newCommand(options)
	cmd.Use, cmd.Short, cmd.Args = "list", "Show the Gateways of a namespace, and what is wrong with them", cli.MaxArgs(0)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.Example = `  kubectl gateway list -A
  kubectl gateway list -w -o wide
  kubectl gateway list -o custom-columns=NAME:.metadata.name,REPLICAS:.spec.replicas`
	return cmd
}

// NewGetCommand returns the command that shows some Gateways.
func NewGetCommand(options *cli.Options) *cobra.Command {
	cmd := newCommand(options)
	cmd.Use, cmd.Short, cmd.ValidArgsFunction = "get [NAME...]", "Show Gateways by name, and what is wrong with them", options.CompleteGateways
	cmd.Example = `  kubectl gateway get shop -o wide
  kubectl gateway get shop -o jsonpath='{.status.addresses[0].value}'`
	return cmd
}

func newCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options, printing: genericclioptions.NewPrintFlags("")}
	cmd := &cobra.Command{Long: long, RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) }}
	c.printing.AddFlags(cmd)
	cmd.Flags().Lookup("output").Usage = "wide, custom-columns=NAME:.path,..., or one of: (json, yaml, name, jsonpath, go-template, and these -file or -as-json)"
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "those of all namespaces")
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "go on with those that change")
	cmd.Flags().StringVarP(&c.labels, "selector", "l", "", "only those with these labels, like app=shop,tier!=test")
	cmd.Flags().StringVar(&c.fields, "field-selector", "", "only those with these fields, like metadata.name=shop")
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "print no headers")
	return cmd
}

func (c *command) run(ctx context.Context, names []string) error {
	if len(names) > 0 && (c.all || c.labels != "" || c.fields != "") {
		return cli.Usagef("names do not go together with -A, -l and --field-selector")
	}
	if len(names) > 1 && c.watch {
		return cli.Usagef("--watch is for one name or none")
	}
	var err error
	if _, err = labels.Parse(c.labels); err != nil {
		return cli.Usagef("-l %s: %w", c.labels, err)
	}
	if c.printer, err = c.newPrinter(); err != nil {
		return err
	}
	if c.clients, c.namespace, err = c.Connect(); err != nil {
		return err
	}
	if c.all {
		c.namespace = metav1.NamespaceAll
	}
	if len(names) == 1 {
		c.fields = "metadata.name=" + names[0]
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
	if err != nil || !c.watch {
		return errors.Join(err, out.Flush())
	}
	return c.follow(ctx, gateways.ResourceVersion, out)
}

// list returns the Gateways, with their kinds, which the typed clients leave out.
func (c *command) list(ctx context.Context, names []string) (*appv1.GatewayList, error) {
	list := &appv1.GatewayList{}
	var err error
	if len(names) == 0 {
		list, err = c.clients.Gateways.AppV1().Gateways(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.labels, FieldSelector: c.fields})
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

// flusher is a writer that holds back until it knows the widths of columns.
type flusher interface {
	io.Writer
	Flush() error
}

// follow prints what changes, until the user has seen enough.
func (c *command) follow(ctx context.Context, version string, out flusher) error {
	if err := out.Flush(); err != nil {
		return err
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector, options.FieldSelector = c.labels, c.fields
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
			gateway.Status = appv1.GatewayStatus{Conditions: []metav1.Condition{deleted(gateway.Generation)}}
		}
		if err := errors.Join(c.print(ctx, gateway, []appv1.Gateway{*gateway}, out), out.Flush()); err != nil {
			return err
		}
	}
	return nil
}

// deleted is in place of what was observed of a Gateway that is gone.
func deleted(generation int64) metav1.Condition {
	return metav1.Condition{Type: appv1.ConditionProgrammed, Status: metav1.ConditionFalse, ObservedGeneration: generation, Message: "it was deleted"}
}

// print prints an object, or a table of the Gateways in it.
func (c *command) print(ctx context.Context, object runtime.Object, gateways []appv1.Gateway, out io.Writer) error {
	switch {
	case c.format() == "name":
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
