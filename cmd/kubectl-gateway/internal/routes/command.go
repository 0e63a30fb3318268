package routes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/model"
)

const long = `Show the routes of a namespace, a line for each: HTTPRoutes, GRPCRoutes, TLSRoutes, TCPRoutes, Ingresses, and the routes in
Gateways of app.example.com: their hosts and Gateways, whether every proxy runs the latest generation, and problems.

Requests a second, the share with 5xx, and the 95th percentile of their time are from the last minute of the proxies'
access logs, or from the first 16 MiB of it. You need permission to get pods/log in the namespace of the Gateway; without
it, these columns are empty.`

// none is in place of a number that is not known, or that there is not.
const none = "-"

type command struct {
	*cli.Options
	all, problems, noHeaders bool
	since                    time.Duration
	output                   cli.Format
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "routes", Short: "Show routes, their requests and problems", Long: long,
		Example: `  kubectl gateway routes -n shop
  kubectl gateway routes -A --problems`,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cli.AddFormatFlag(cmd, &c.output, "json or yaml; else a table")
	cmd.Flags().BoolVarP(&c.all, "all-namespaces", "A", false, "the routes of all namespaces")
	cmd.Flags().BoolVar(&c.problems, "problems", false, "only routes that are not live, have a problem, or 5 % errors")
	cmd.Flags().BoolVar(&c.noHeaders, "no-headers", false, "print no headers")
	cmd.Flags().DurationVar(&c.since, "since", time.Minute, "count requests of this time, like 10m; 0: none")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if c.since < 0 {
		return cli.Usagef("--since cannot be negative")
	}
	clients, namespace, err := c.Connect()
	if err != nil {
		return err
	}
	if c.all {
		namespace = metav1.NamespaceAll
	}
	routes, unread, err := Read(ctx, clients, namespace)
	if err != nil {
		return err
	}
	if len(unread) > 0 {
		c.Note("you may not list %s", strings.Join(unread, ", "))
	}
	if c.since > 0 {
		if err := measure(ctx, clients, routes, c.since); err != nil {
			c.Note("not all requests are known: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	if c.problems {
		routes = slices.DeleteFunc(routes, func(route Route) bool { return !route.hasProblem() })
	}
	if c.output != "" {
		return c.Print(c.output, map[string]any{"routes": append([]Route{}, routes...)})
	}
	if len(routes) == 0 {
		_, _ = fmt.Fprintln(c.ErrOut, map[bool]string{false: "No routes found.", true: "No routes with problems found."}[c.problems])
		return nil
	}
	return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: c.noHeaders}).PrintObj(c.table(routes), c.Out)
}

func (r *Route) hasProblem() bool {
	return r.Programmed != metav1.ConditionTrue || len(r.Problems) > 0 || r.Traffic != nil && r.Traffic.Errors != nil && *r.Traffic.Errors >= manyErrors
}

func (c *command) table(routes []Route) *metav1.Table {
	names := []string{"Kind", "Name", "Hosts", "Gateway", "Programmed", "Requests/s", "Errors", "P95", "Reason"}
	if c.all {
		names = append([]string{"Namespace"}, names...)
	}
	table := &metav1.Table{}
	for _, name := range names {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for i := range routes {
		cells := routes[i].cells()
		if c.all {
			cells = append([]any{routes[i].Namespace}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}

func (r *Route) cells() []any {
	hosts, gateways := "*", none
	if len(r.Hostnames) > 0 {
		hosts = strings.ReplaceAll(model.Some(r.Hostnames, 3), ", ", ",")
	}
	if len(r.gateways) > 0 {
		gateways = strings.Join(r.shownGateways(), ",")
	}
	rate, errors, p95 := none, none, none
	if t := r.Traffic; t != nil {
		rate = fmt.Sprintf("%.1f", t.PerSecond)
		if t.Errors != nil {
			errors, p95 = fmt.Sprintf("%.1f%%", 100**t.Errors), fmt.Sprintf("%.0fms", 1000**t.P95)
		}
	}
	return []any{r.Kind, r.Name, hosts, gateways, string(r.Programmed), rate, errors, p95, strings.Join(r.Problems, "; ")}
}

// shownGateways are the names of the Gateways, with the namespace if it is another one.
func (r *Route) shownGateways() []string {
	names := make([]string, len(r.gateways))
	for i, gateway := range r.gateways {
		names[i] = strings.TrimPrefix(gateway.String(), r.Namespace+"/")
	}
	return names
}
