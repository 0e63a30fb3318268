// Package command is the plugin as a whole.
package command

import (
	"github.com/spf13/cobra"

	"gateway/cmd/kubectl-gateway/internal/adopt"
	"gateway/cmd/kubectl-gateway/internal/apply"
	"gateway/cmd/kubectl-gateway/internal/bundle"
	"gateway/cmd/kubectl-gateway/internal/check"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/compare"
	"gateway/cmd/kubectl-gateway/internal/convert"
	"gateway/cmd/kubectl-gateway/internal/dashboard"
	"gateway/cmd/kubectl-gateway/internal/explain"
	"gateway/cmd/kubectl-gateway/internal/list"
	"gateway/cmd/kubectl-gateway/internal/logs"
	"gateway/cmd/kubectl-gateway/internal/proxyconfig"
	"gateway/cmd/kubectl-gateway/internal/render"
	"gateway/cmd/kubectl-gateway/internal/routes"
	"gateway/cmd/kubectl-gateway/internal/trace"
	"gateway/cmd/kubectl-gateway/internal/try"
	"gateway/cmd/kubectl-gateway/internal/version"
	"gateway/cmd/kubectl-gateway/internal/wait"
)

// New returns the plugin.
func New(options *cli.Options) *cobra.Command {
	return cli.NewRoot(options,
		apply.NewCommand(options), wait.NewCommand(options), explain.NewCommand(options), list.NewCommand(options), routes.NewCommand(options), render.NewCommand(options),
		proxyconfig.NewCommand(options), logs.NewCommand(options), trace.NewCommand(options), convert.NewCommand(options), adopt.NewCommand(options), try.NewCommand(options),
		compare.NewCommand(options), check.NewCommand(options), bundle.NewCommand(options), dashboard.NewCommand(options), version.NewCommand(options))
}
