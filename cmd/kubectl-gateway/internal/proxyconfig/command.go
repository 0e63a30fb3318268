package proxyconfig

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Show what the proxy pods of a Gateway really run, by their agents and HAProxy: the generation, open connections and requests
since the last reload, servers that take requests and their total, when HAProxy was reloaded last and why, and old workers that still have
connections.

You need permission to create pods/portforward, and to read the Gateway and its pods.

Exit codes: 3 if a part of the pods could not be asked, 1 if none could.`

type command struct {
	*cli.Options
	pod              string
	output           cli.Format
	servers, reloads bool
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "proxy-config NAME", Short: "Show what the proxy pods really run", Long: long,
		Example: `  kubectl gateway proxy-config shop
  kubectl gateway proxy-config shop --servers
  kubectl gateway proxy-config shop --pod shop-gateway-6d4cf56db6-2x8xk -o yaml`,
		Args: cli.ExactlyOneGateway, ValidArgsFunction: options.CompleteGateway,
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cli.AddFormatFlag(cmd, &c.output, "json or yaml, which have all there is")
	cmd.Flags().StringVar(&c.pod, "pod", "", "only this pod")
	cmd.Flags().BoolVar(&c.servers, "servers", false, "show the servers of each pod, with what HAProxy says of their state")
	cmd.Flags().BoolVar(&c.reloads, "reloads", false, "show the last reloads of each pod, with their reasons")
	_ = cmd.RegisterFlagCompletionFunc("pod", options.CompletePods) // which fails for unknown flags only
	return cmd
}

func (c *command) run(ctx context.Context, name string) error {
	if c.servers && c.reloads || c.output != "" && (c.servers || c.reloads) {
		return cli.Usagef("--servers, --reloads and -o do not go together")
	}
	clients, namespace, err := c.Connect()
	if err != nil {
		return err
	}
	pods, err := clients.ProxyPods(ctx, namespace, name, c.pod)
	if err != nil {
		return err
	}
	answers := clients.AskAll(ctx, pods)
	var failed []string
	for _, answer := range answers {
		if answer.Error != "" {
			failed = append(failed, answer.Pod+": "+answer.Error)
		}
	}
	if len(failed) == len(answers) {
		return fmt.Errorf("failed to ask any of %d proxy pods: %s", len(answers), strings.Join(failed, "; "))
	}
	if err := c.print(answers); err != nil {
		return err
	}
	if len(failed) > 0 {
		return cli.Nof("%d of %d proxy pods could not be asked: %s", len(failed), len(answers), strings.Join(failed, "; "))
	}
	return nil
}

func (c *command) print(answers []cli.Answer) error {
	table := podTable
	switch {
	case c.output != "":
		return c.Print(c.output, answers)
	case c.servers:
		table = serverTable
	case c.reloads:
		table = reloadTable
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table(answers, time.Now()), c.Out)
}
