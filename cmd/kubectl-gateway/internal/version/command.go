// Package version is the command that shows the version of this plugin, and of the cluster's programs.
package version

import (
	"context"
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

It takes the permission to list Deployments in all namespaces, or --client. Exit code: 3 if there is no operator.`

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	client := false
	cmd := &cobra.Command{
		Use: "version", Short: "Show the version of the plugin, and what the cluster runs", Long: long,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _ = fmt.Fprint(options.Out, version.Line("kubectl-gateway"))
			if client {
				return nil
			}
			return cluster(cmd.Context(), options)
		},
	}
	cmd.Flags().BoolVar(&client, "client", false, "only the plugin: ask no cluster")
	return cmd
}

// cluster prints the versions in the cluster.
func cluster(ctx context.Context, options *cli.Options) error {
	clients, _, err := options.Connect()
	if err != nil {
		return err
	}
	table := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Program", Type: "string"}, {Name: "Namespace", Type: "string"}, {Name: "Deployment", Type: "string"}, {Name: "Ready", Type: "string"},
		{Name: "Images", Type: "string"},
	}}
	operators, err := clients.Operators(ctx)
	if err != nil {
		return err
	}
	proxies, err := clients.Apps.Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: proxypod.LabelGateway})
	if err != nil {
		return fmt.Errorf("failed to list Deployments: %w", err)
	}
	for i := range operators {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: row("operator", &operators[i])})
	}
	for i := range proxies.Items {
		table.Rows = append(table.Rows, metav1.TableRow{Cells: row("proxies", &proxies.Items[i])})
	}
	if len(table.Rows) > 0 {
		if err := printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, options.Out); err != nil {
			return err
		}
	}
	if len(operators) == 0 {
		return cli.Nof("there is no operator in the cluster: no Deployment has the label %s", cli.OperatorSelector)
	}
	return nil
}

func row(program string, deployment *k8sappsv1.Deployment) []any {
	var images []string
	for _, container := range slices.Concat(deployment.Spec.Template.Spec.InitContainers, deployment.Spec.Template.Spec.Containers) {
		if !slices.Contains(images, container.Image) {
			images = append(images, container.Image)
		}
	}
	ready := fmt.Sprintf("%d/%d", deployment.Status.ReadyReplicas, cli.Replicas(deployment))
	return []any{program, deployment.Namespace, deployment.Name, ready, strings.Join(images, ",")}
}
