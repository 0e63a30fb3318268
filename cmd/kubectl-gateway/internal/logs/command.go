package logs

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxypod"
)

const long = `Show the access logs of all proxy pods of a Gateway as one, in the order of time, and HAProxy's own messages; with --follow
also logs of pods that come later. For the log of one pod, use "kubectl logs".

Exit codes: 3 if a part of the logs could not be read, 1 if none could.`

type command struct {
	*cli.Options
	filter
	statusSpecs       []string
	output            string
	follow, noHeaders bool
	since             time.Duration
	tail              int64
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "logs NAME", Short: "Show the access logs of all proxy pods", Long: long,
		Example: `  kubectl gateway logs shop -f
  kubectl gateway logs shop --since 1h --status 5xx,429
  kubectl gateway logs shop --filter JWT,BasicAuth
  kubectl gateway logs shop -f --tail 0 --route checkout --host shop.example.com
  kubectl gateway logs shop -o json | jq -r 'select(.msTotal > 1000) | .path'`,
		Args: cli.ExactlyOneGateway, ValidArgsFunction: options.CompleteGateway,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&c.follow, "follow", "f", false, "go on with what is logged from now on, also by pods that come")
	flags.StringSliceVar(&c.routes, "route", nil, "only requests that this route took; repeated: one of these")
	flags.StringSliceVar(&c.hosts, "host", nil, "only requests for this host, or hosts like *.example.com")
	flags.StringSliceVar(&c.filters, "filter", nil, "only requests that this type of filter stopped, like RateLimit, or would have in shadow")
	flags.StringSliceVar(&c.statusSpecs, "status", nil, "only requests with this status, like 404, 4xx or 500-599")
	flags.DurationVar(&c.since, "since", 0, "only what was logged in this time, like 10m")
	flags.Int64Var(&c.tail, "tail", -1, "of what was logged up to now, only this many lines, of all pods together; -1: all")
	flags.StringVarP(&c.output, "output", "o", "", "json: a line of JSON for each, with all there is")
	flags.BoolVar(&c.noHeaders, "no-headers", false, "print no headers")
	cli.Complete(cmd, "output", "json")
	cli.Complete(cmd, "status", "2xx", "3xx", "4xx", "5xx")
	cli.Complete(cmd, "filter", filterTypes()...)
	return cmd
}

// filterTypes are the types of filters that RouteFilters may have.
func filterTypes() []string {
	return admission.FieldOf(schema.GroupKind{Group: appv1.GroupName, Kind: "RouteFilter"}, "spec.filters[].type").Values
}

func (c *command) run(ctx context.Context, name string) error {
	var err error
	if c.statuses, err = parseStatuses(c.statusSpecs); err != nil {
		return err
	}
	switch {
	case c.output != "" && c.output != "json":
		return cli.Usagef("unknown output %q: use json", c.output)
	case c.since < 0 || c.tail < -1:
		return cli.Usagef("--since and --tail cannot be negative")
	}
	clients, namespace, err := c.Connect()
	if err != nil {
		return err
	}
	pods, err := clients.ProxyPods(ctx, namespace, name, "")
	if err != nil {
		return err
	}
	out := &printer{out: c.Out, prefix: proxypod.ChildName(name) + "-", json: c.output == "json"}
	if !out.json && !c.noHeaders {
		if err := out.row("TIME", "POD", "STATUS", "TOOK", "BYTES", "CLIENT", "ROUTE", "BACKEND", "REQUEST"); err != nil {
			return err
		}
	}
	r := &reader{core: clients.Core, namespace: namespace, since: c.since, seen: map[string]time.Time{}, lookAgain: time.Second}
	failures, err := c.history(ctx, r, pods, out)
	switch {
	case err != nil:
		return err
	case c.follow:
		for _, failure := range failures {
			c.Warn("%v: it is tried again", failure)
		}
		return r.follow(ctx, name, func(l line) error {
			if !c.shows(l) {
				return nil
			}
			return out.print(l)
		})
	case len(failures) == len(pods):
		return errors.Join(failures...)
	case len(failures) > 0:
		return cli.Nof("the logs of %d of %d proxy pods could not be read: %w", len(failures), len(pods), errors.Join(failures...))
	}
	return nil
}

// history prints the lines so far. It returns what could not be read.
func (c *command) history(ctx context.Context, r *reader, pods []corev1.Pod, out *printer) (failures []error, err error) {
	options := corev1.PodLogOptions{}
	if c.tail >= 0 && c.isEmpty() {
		// Each may have all of them; and one line says up to when the log is known.
		options.TailLines = new(max(c.tail, 1))
	}
	var all []line
	for _, pod := range pods {
		err := r.read(ctx, pod.Name, time.Time{}, options, func(l line) {
			r.seen[l.pod] = l.time
			if c.shows(l) {
				all = append(all, l)
			}
		})
		if err != nil {
			failures = append(failures, err)
		}
	}
	slices.SortStableFunc(all, func(a, b line) int { return a.time.Compare(b.time) })
	if c.tail >= 0 {
		all = all[max(0, len(all)-int(c.tail)):]
	}
	for _, l := range all {
		if err := out.print(l); err != nil {
			return nil, err
		}
	}
	return failures, nil
}
