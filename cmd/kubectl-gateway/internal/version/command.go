// Package version is the command that shows the version of this plugin, and of the cluster's programs.
package version

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxypod"
	"gateway/internal/version"
)

const long = `Show the version of this plugin, and the images that the operator and the proxies of the cluster run, as their Deployments have them.

You need permission to list Deployments in all namespaces, or use --client. Exit code: 3 if there is no operator.`

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	client, output := false, cli.Format("")
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version of the plugin, and what the cluster runs", Long: long,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			found, err := Versions{Plugin: version.String()}, error(nil)
			if !client {
				var clients cli.Clients
				if clients, _, err = options.Connect(); err == nil {
					found, err = Find(cmd.Context(), clients)
				}
			}
			if err := errors.Join(found.print(options, output), err); err != nil {
				return err
			}
			if !client && !slices.ContainsFunc(found.Programs, func(p program) bool { return p.Program == "operator" }) {
				return cli.Nof("there is no operator in the cluster: no Deployment has the label %s", cli.OperatorSelector)
			}
			return nil
		},
	}
	cli.AddFormatFlag(cmd, &output, "json or yaml; else a table")
	cmd.Flags().BoolVar(&client, "client", false, "only the plugin: ask no cluster")
	return cmd
}

// Versions are what the command prints.
type Versions struct {
	Plugin   string    `json:"plugin"`
	Programs []program `json:"programs,omitempty"`
}

// program is a Deployment of the project.
type program struct {
	Program    string   `json:"program"`
	Namespace  string   `json:"namespace"`
	Deployment string   `json:"deployment"`
	Ready      int32    `json:"ready"`
	Replicas   int32    `json:"replicas"`
	Images     []string `json:"images"`
}

// Find returns the plugin's version, and what runs in the cluster.
func Find(ctx context.Context, clients cli.Clients) (Versions, error) {
	found := Versions{Plugin: version.String()}
	operators, err := clients.Operators(ctx)
	if err != nil {
		return found, err
	}
	proxies, err := clients.Apps.Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: proxypod.LabelGateway})
	if err != nil {
		return found, fmt.Errorf("failed to list Deployments: %w", err)
	}
	for i := range operators {
		found.Programs = append(found.Programs, newProgram("operator", &operators[i]))
	}
	for i := range proxies.Items {
		found.Programs = append(found.Programs, newProgram("proxies", &proxies.Items[i]))
	}
	return found, nil
}

func newProgram(name string, deployment *k8sappsv1.Deployment) program {
	p := program{
		Program: name, Namespace: deployment.Namespace, Deployment: deployment.Name, Ready: deployment.Status.ReadyReplicas, Replicas: cli.Replicas(deployment),
	}
	for _, container := range slices.Concat(deployment.Spec.Template.Spec.InitContainers, deployment.Spec.Template.Spec.Containers) {
		if !slices.Contains(p.Images, container.Image) {
			p.Images = append(p.Images, container.Image)
		}
	}
	return p
}

func (v Versions) print(options *cli.Options, output cli.Format) error {
	if output != "" {
		return options.Print(output, v)
	}
	_, _ = fmt.Fprint(options.Out, version.Line("kubectl-gateway"))
	if len(v.Programs) == 0 {
		return nil
	}
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Program", Type: "string"}, {Name: "Namespace", Type: "string"}, {Name: "Deployment", Type: "string"}, {Name: "Ready", Type: "string"},
		{Name: "Images", Type: "string"},
	}}
	for _, p := range v.Programs {
		cells := []any{p.Program, p.Namespace, p.Deployment, fmt.Sprintf("%d/%d", p.Ready, p.Replicas), strings.Join(p.Images, ",")}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, options.Out)
}
