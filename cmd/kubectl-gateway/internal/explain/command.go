package explain

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/model"
	"gateway/internal/routing"
)

const long = `Show what happens to a request: its listener, route, rule and filters, its backends with their shares and endpoints, and
why other rules do not get it. The matcher is the one that HAProxy is tested against.

With -f, no cluster is needed: Services that the file lacks are assumed to exist. Only the given headers count, and
X-Forwarded-Host, -Port and -Proto, as the proxy sets them. Passwords and tokens are not checked. The exit code is 3 if
the request gets an error that is not a DirectResponse, and 1 if you may not read all that counts.`

const examples = `  kubectl gateway explain shop http://shop.example.com/beta
  kubectl gateway explain -f shop.yaml -X POST -H 'version: two' https://shop.example.com/api?debug=1
  kubectl gateway explain shop tls://db.example.com:5432`

type command struct {
	*cli.Options
	files   cli.Files
	method  string
	headers []string
	client  string
	limit   int
	output  cli.Format
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "explain (NAME | -f FILE [NAME]) URL", Short: "Show which rule handles a request, and why", Long: long, Example: examples,
		Args: cli.MaxArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return options.CompleteGateways(cmd, args, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args) },
	}
	cli.AddFileFlags(cmd, &c.files, "file or directory with the Gateway, - for standard input")
	cli.AddAgainstFlag(cmd, &c.files)
	cmd.Flags().StringVarP(&c.method, "request", "X", "GET", "method of the request")
	cmd.Flags().StringArrayVarP(&c.headers, "header", "H", nil, "header of the request, as NAME:VALUE; one for each")
	cmd.Flags().StringVar(&c.client, "client-address", "", "address of the client, as the filter ClientAddress finds it")
	cmd.Flags().IntVar(&c.limit, "limit", 10, "how many of those that the request does not meet to name")
	cli.AddFormatFlag(cmd, &c.output, "json or yaml; else text")
	return cmd
}

func (c *command) run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 0:
		return cli.Usagef("the URL is missing")
	case c.files.AgainstCluster && len(c.files.Paths) == 0:
		return cli.Usagef("--against-cluster needs a file with -f")
	case len(args) == 1 && len(c.files.Paths) == 0:
		return cli.Usagef("name a Gateway of the cluster before the URL, or a file with -f")
	}
	r, err := parseRequest(args[len(args)-1], c.method, c.headers)
	if err != nil {
		return err
	}
	if r.client, err = parseClient(c.client); err != nil {
		return err
	}
	name := ""
	if len(args) == 2 {
		name = args[0]
	}
	site, err := c.One(ctx, c.files, name)
	if err != nil {
		return err
	}
	if site.Live && !cli.IsProgrammed(site.Gateway) {
		c.Warn("%s: not every proxy runs generation %d yet, which this is about", site.Name(), site.Gateway.Generation)
	}
	table, refused := site.Compile()
	for _, problem := range site.OfFiles(append(site.Problems(table, refused), site.Doubts(table)...)) {
		c.Warn("%s", site.Describe(problem))
	}
	if isTrusted(table) && r.claims() {
		const warning = "%s: explain does not know who the client is: it is taken for one of spec.trustedProxies, whose X-Forwarded headers count"
		c.Warn(warning, site.Name())
	}
	e := explain(site, table, refused, r, c.limit)
	if err := c.print(e); err != nil {
		return err
	}
	if err := site.Complete(); err != nil {
		return fmt.Errorf("the answer is incomplete: %w", err)
	}
	if e.Refused {
		return cli.Nof("the request gets an error")
	}
	return nil
}

// Of returns what happens to a request of a client, whose headers are like NAME:VALUE.
func Of(site *cli.Site, table routing.Table, refused []model.Problem, url, method, client string, headers []string) (*Explanation, error) {
	r, err := parseRequest(url, method, headers)
	if err != nil {
		return nil, err
	}
	if r.client, err = parseClient(client); err != nil {
		return nil, err
	}
	return explain(site, table, refused, r, 0), nil
}

func (c *command) print(e *Explanation) error {
	if c.output != "" {
		return c.Print(c.output, e)
	}
	_, err := c.Out.Write(e.text())
	return err
}

// text is the explanation for people.
func (e *Explanation) text() []byte {
	var b bytes.Buffer
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s%s\n", label, fmt.Sprintf(format, args...))
	}
	line("request", "%s", e.Request)
	line("gateway", "%s", e.Gateway)
	for _, unread := range e.Unread {
		line("unknown", "%s", unread)
	}
	if l := e.Listener; l != nil {
		hostname := ""
		if l.Hostname != "" {
			hostname = ", for " + l.Hostname
		}
		line("listener", "%s: %s on port %d%s", l.Name, l.Protocol, l.Port, hostname)
	}
	if e.Route != "" {
		line("route", "%s rules[%d]: %s", e.Route, *e.Rule, e.Match)
	}
	for _, filter := range e.Filters {
		line("filter", "%s", filter)
	}
	if e.Answer != "" {
		line("answer", "%s", e.Answer)
	}
	for _, backend := range e.Backends {
		line("backend", "%s", backend.text())
		for _, object := range backend.Settings {
			line("", "  settings of %s", object)
		}
		for _, filter := range backend.Filters {
			line("", "  %s", filter)
		}
	}
	for _, passed := range e.Passed {
		line("not", "%s", passed.What)
		line("", "  because %s", passed.Why)
	}
	if e.More > 0 {
		line("not", "%d more, see --limit", e.More)
	}
	if e.OtherHosts > 0 && e.Route != "" {
		line("not", "%d for other hosts", e.OtherHosts)
	}
	return b.Bytes()
}

func (b Backend) text() string {
	kind, name := "Service", b.Service
	if namespace, of := path.Split(b.Service); of != "" {
		if of, isImport := model.ServiceImportOf(of); isImport {
			kind, name = "ServiceImport", namespace+of
		}
	}
	text := fmt.Sprintf("%.4g%% to %s %s port %d", b.Percent, kind, name, b.Port)
	if b.Service == "" {
		text = fmt.Sprintf("%.4g%% to no Service", b.Percent)
	}
	switch {
	case b.Answer != "":
		text += ", answered with " + b.Answer
	case len(b.Backup) > 0:
		text += fmt.Sprintf(", ready: %s, otherwise the backup: %s", cmp.Or(strings.Join(b.Ready, ", "), "none"), strings.Join(b.Backup, ", "))
	case len(b.Ready) > 0:
		text += fmt.Sprintf(", ready: %s", strings.Join(b.Ready, ", "))
	default:
		text += ", endpoints not known"
	}
	return text
}
