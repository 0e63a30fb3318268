package check

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Check whether the cluster is ready for Gateways, and the Gateways of a namespace. It shows each problem with its remedy.

It looks at the version of the API server, the CRDs (compared with this plugin's), the operator, your permissions, and the
status of each Gateway.

Exit codes: 3 if something is wrong; warnings alone are 0.`

// Level is the severity of a finding.
type Level string

// The levels, the best first.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Wrong   Level = "wrong"
)

// Finding is the result of a check.
type Finding struct {
	Level Level `json:"level"`
	// About names the checked object, Says is the result, and Details are more about it.
	About   string   `json:"about"`
	Says    string   `json:"message"`
	Details []string `json:"details,omitempty"`
	// Do is what to do about it; "" if nothing.
	Do string `json:"remedy,omitempty"`
}

// print writes a finding as a line, with its details below.
func (f Finding) print(options *cli.Options) {
	options.Say("%-8s %s: %s", f.Level, f.About, oneLine(f.Says))
	for _, detail := range f.Details {
		options.Say("%-8s %s", "", oneLine(detail))
	}
	if f.Do != "" {
		options.Say("%-8s -> %s", "", f.Do)
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	all, output := false, cli.Format("")
	cmd := &cobra.Command{
		Use: "check", Short: "Check the cluster and its Gateways", Long: long,
		Example: `  kubectl gateway check
  kubectl gateway check -A`,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), options, all, output) },
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "the Gateways of all namespaces")
	cli.AddFormatFlag(cmd, &output, "json or yaml; else text")
	return cmd
}

func run(ctx context.Context, options *cli.Options, all bool, output cli.Format) error {
	clients, namespace, err := options.Connect()
	if err != nil {
		return err
	}
	if all {
		namespace = metav1.NamespaceAll
	}
	found, bad := []Finding{}, 0
	err = All(ctx, clients, namespace, func(finding Finding) {
		if output == "" {
			finding.print(options)
		}
		if finding.Level == Wrong {
			bad++
		}
		found = append(found, finding)
	})
	if err != nil {
		return err
	}
	if output != "" {
		if err := options.Print(output, map[string]any{"findings": found}); err != nil {
			return err
		}
	}
	if bad > 0 {
		return cli.Nof("%d of %d checks failed", bad, len(found))
	}
	return nil
}

// All checks the cluster and the Gateways of a namespace, and passes on what it finds.
func All(ctx context.Context, clients cli.Clients, namespace string, found func(Finding)) error {
	for _, check := range []func(context.Context, cli.Clients, string) ([]Finding, error){server, definitions, operators, permissions, gateways} {
		findings, err := check(ctx, clients, namespace)
		if err != nil {
			return err
		}
		for _, finding := range findings {
			found(finding)
		}
	}
	return nil
}

// where names a namespace.
func where(namespace string) string {
	if namespace == metav1.NamespaceAll {
		return "all namespaces"
	}
	return fmt.Sprintf("namespace %s", namespace)
}
