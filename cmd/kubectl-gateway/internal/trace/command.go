package trace

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/routetrace"
)

const long = `Show the requests that are under way in all proxies of a Gateway, the oldest first, and what each waits for:

  body        the rest of the request's body, from the client
  question    an answer about the request: of an ExternalAuth, a login, a WAF
  queue       a place at an endpoint
  connection  a connection to an endpoint, or an endpoint that is ready
  endpoint    the endpoint's answer
  response    the rest of the response
  tunnel      the end of a WebSocket and the like

RULE has all rules that may have taken it, because HAProxy shows neither the headers nor, of HTTP/1.1, the host of a request.

With --next, it shows the next requests that end, from the access log, with the decisions and times of each, and where they
differ from what "explain" expects. It stops after --timeout.

For requests under way, you need permission to create pods/portforward in the namespace of the Gateway; for --next, to get
pods/log. These permissions show the requests of all teams.

A team needs neither. With httproute/NAME or grpcroute/NAME in place of a Gateway, it shows the requests under way that go to
Services of the route's namespace by this route, or the next ones that this route takes, 20 at most, within a minute. You
need permission to patch the route, and to list events.

Exit codes: 3 if a part of the pods could not be asked, or fewer than --next requests ended in time; with a route if no
pod has answered.`

// maxTimeout bounds how long it goes on.
const maxTimeout = 10 * time.Minute

type command struct {
	*cli.Options
	older, timeout       time.Duration
	hosts, routes        []string
	path, client, header string
	headers              map[string]string
	next                 int
	output               cli.Format
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "trace NAME | httproute/NAME | grpcroute/NAME", Short: "Show the requests that are under way, or the next ones", Long: long,
		Example: `  kubectl gateway trace shop
  kubectl gateway trace shop --older 30s --route team/web
  kubectl gateway trace httproute/web -n team
  kubectl gateway trace httproute/web -n team --next 5 --path /cart
  kubectl gateway trace shop --next 5 --host shop.example.com --path /cart`,
		Args: cli.ExactlyOneGateway, ValidArgsFunction: options.CompleteGateway,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&c.older, "older", time.Second, "only requests under way for so long, in whole seconds")
	flags.IntVar(&c.next, "next", 0, "show so many requests that end from now on instead")
	flags.DurationVar(&c.timeout, "timeout", time.Minute, "stop after this time, of 10m at most; with a route, of 20s, or with --next of 1m")
	flags.StringSliceVar(&c.hosts, "host", nil, "only requests for this host, or hosts like *.example.com")
	flags.StringVar(&c.path, "path", "", "only requests whose path begins with this")
	flags.StringVar(&c.client, "client", "", "only requests of this address")
	flags.StringSliceVar(&c.routes, "route", nil, "only requests that this route may have taken, like team/web")
	flags.StringVar(&c.header, "header", "", "with --next: only requests with this NAME:VALUE, of accessLog.requestHeaders")
	cli.AddFormatFlag(cmd, &c.output, "json or yaml; else text")
	return cmd
}

func (c *command) run(ctx context.Context, name string) error {
	switch {
	case c.older < 0 || c.next < 0:
		return cli.Usagef("--older and --next cannot be negative")
	case c.timeout <= 0 || c.timeout > maxTimeout:
		return cli.Usagef("--timeout is more than 0, and %s at most", maxTimeout)
	case c.header != "" && c.next == 0:
		return cli.Usagef("--header needs --next: HAProxy does not show the headers of a request under way")
	}
	if c.header != "" {
		header, value, ok := strings.Cut(c.header, ":")
		if !ok {
			return cli.Usagef("the header %q is not like NAME:VALUE", c.header)
		}
		c.headers = map[string]string{strings.ToLower(strings.TrimSpace(header)): strings.TrimSpace(value)}
	}
	clients, namespace, err := c.Connect()
	if err != nil {
		return err
	}
	if kind, route, isRoute := strings.Cut(name, "/"); isRoute {
		return c.showOfRoute(ctx, clients, namespace, kind, route)
	}
	site, err := clients.Live(ctx, namespace, name)
	if err != nil {
		return err
	}
	if err := site.Complete(); err != nil {
		c.Note("rules that you may not read may have taken a request, too: %v", err)
	}
	table, refused := site.Compile()
	name = site.Gateway.Name
	if c.next == 0 {
		return c.showUnderWay(ctx, clients, namespace, name, table)
	}
	want := expectation{site: site, table: table, refused: refused}
	if site.Complete() != nil {
		want.site = nil
	}
	return c.showNext(ctx, clients.Core, namespace, name, want)
}

// shows reports whether a request is to be shown. A host that is "" is not known.
func (c *command) shows(client, host, path string, rules []string) bool {
	return routetrace.Wanted{Hosts: c.hosts, Path: c.path, Client: c.client}.Takes(routetrace.Line{Client: client, Host: host, Path: path}) &&
		(len(c.routes) == 0 || slices.ContainsFunc(rules, func(rule string) bool {
			name, _, _ := strings.Cut(rule, "[")
			return slices.Contains(c.routes, name)
		}))
}
