package logs

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxypod"
)

const long = `Show the access logs of all proxy pods of a Gateway as one, in the order of time, and what HAProxy says of itself; with --follow
also those of pods that come later.

Exit codes: 3 if a part of the logs could not be read, 1 if none could.`

type command struct {
	*cli.Options
	filter
	statusSpecs       []string
	pod, output       string
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
	flags.StringSliceVar(&c.filters, "filter", nil, "only requests that were stopped by this type of filter, like RateLimit")
	flags.StringSliceVar(&c.statusSpecs, "status", nil, "only requests with this status, like 404, 4xx or 500-599")
	flags.DurationVar(&c.since, "since", 0, "only what was logged in this time, like 10m")
	flags.Int64Var(&c.tail, "tail", -1, "of what was logged up to now, only this many lines, of all pods together; -1: all")
	flags.StringVar(&c.pod, "pod", "", "only this pod")
	flags.StringVarP(&c.output, "output", "o", "", "json: a line of JSON for each, with all there is")
	flags.BoolVar(&c.noHeaders, "no-headers", false, "print no headers")
	_ = cmd.RegisterFlagCompletionFunc("pod", options.CompletePods) // which fails for unknown flags only
	_ = cmd.RegisterFlagCompletionFunc("route", options.CompleteRoutes)
	return cmd
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
	pods, err := clients.ProxyPods(ctx, namespace, name, c.pod)
	if err != nil {
		return err
	}
	out := newPrinter(c.Out, proxypod.ChildName(name)+"-")
	out.json, out.colour = c.output == "json", printers.AllowsColorOutput(c.Out)
	if !out.json && !c.noHeaders {
		if err := out.header(); err != nil {
			return err
		}
	}
	read := reader{core: clients.Core, namespace: namespace, since: c.since}
	seen, failures, err := c.history(ctx, &read, pods, out)
	switch {
	case err != nil:
		return err
	case c.follow:
		for _, failure := range failures {
			c.Warn("%v: it is tried again", failure)
		}
		f := &follower{reader: read, gateway: name, only: c.pod, seen: seen}
		return f.run(ctx, func(l line) error { return c.show(l, out) })
	case len(failures) == len(pods):
		return errors.Join(failures...)
	case len(failures) > 0:
		return cli.Nof("the logs of %d of %d proxy pods could not be read: %w", len(failures), len(pods), errors.Join(failures...))
	}
	return nil
}

func (c *command) show(l line, out *printer) error {
	if !c.shows(l) {
		return nil
	}
	return out.print(l)
}

// history prints what was logged up to now. It returns up to when the log of each pod was read, and which could not be
// read.
func (c *command) history(ctx context.Context, read *reader, pods []corev1.Pod, out *printer) (map[string]time.Time, []error, error) {
	options := corev1.PodLogOptions{}
	if c.tail >= 0 && c.isEmpty() {
		// Each may have all of them; and one line says up to when the log is known.
		lines := max(c.tail, 1)
		options.TailLines = &lines
	}
	var logs []iter.Seq2[line, error]
	for _, pod := range pods {
		logs = append(logs, read.read(ctx, pod.Name, time.Time{}, options))
	}
	seen := map[string]time.Time{}
	var failures []error
	var last []line
	for l, err := range merge(logs) {
		if err != nil {
			failures = append(failures, err)
			continue
		}
		seen[l.pod] = l.time
		switch {
		case c.tail < 0:
			if err := c.show(l, out); err != nil {
				return nil, nil, err
			}
		case c.tail > 0 && c.shows(l):
			if int64(len(last)) == c.tail {
				last = slices.Delete(last, 0, 1)
			}
			last = append(last, l)
		}
	}
	for _, l := range last {
		if err := out.print(l); err != nil {
			return nil, nil, err
		}
	}
	return seen, failures, nil
}
