package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/resource"
)

const long = `Apply, check, explain and convert Gateways.

Exit codes: 0 done; 1 failed, and nothing was changed; 2 wrong usage; 3 done, with a negative result (see each command);
4 changed in part: the message names what is left, and the same command goes on.`

// NewRoot returns the plugin with its commands.
func NewRoot(options *Options, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-gateway", Short: "Apply, check, explain and convert Gateways", Long: long,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gateway"},
		SilenceErrors: true, SilenceUsage: true,
		Args: knownCommand, RunE: help,
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usagef("%w", err) })
	options.Flags.AddFlags(root.PersistentFlags())
	kubectl := pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	root.PersistentFlags().VisitAll(kubectl.AddFlag)
	root.SetIn(options.In)
	root.SetOut(options.Out)
	root.SetErr(options.ErrOut)
	root.AddCommand(commands...)
	setHelp(root, kubectl)
	_ = root.RegisterFlagCompletionFunc("namespace", options.completeNamespaces) // which fails for unknown flags only
	return root
}

func help(command *cobra.Command, _ []string) error { return command.Help() }

// knownCommand refuses any argument of a command that has nothing but commands below it.
func knownCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := ""
	if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
		message = fmt.Sprintf(", did you mean %s?", strings.Join(similar, " or "))
	}
	return Usagef("unknown command %q%s", args[0], message)
}

// Execute runs the plugin and returns its exit code.
func Execute(ctx context.Context, root *cobra.Command, options *Options, args []string) int {
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	options.WarnOfIdle()
	if err == nil {
		return 0
	}
	server := ""
	if config, err := options.Flags.ToRESTConfig(); err == nil {
		server = " at " + config.Host
	}
	code := ExitCode(err)
	for _, message := range explain(ctx, err, server) {
		switch code {
		case ExitUsage:
			message = "error: " + message + ": see " + command.CommandPath() + " --help"
		case ExitNo:
		default:
			message = "error: " + message
		}
		_, _ = fmt.Fprintln(options.ErrOut, message)
	}
	return code
}

// MaxArgs refuses more arguments than n, and files: these come with -f.
func MaxArgs(n int) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		for _, arg := range args {
			_, err := os.Stat(arg)
			if err == nil && slices.Contains(resource.FileExtensions, filepath.Ext(arg)) && command.Flags().Lookup("filename") != nil {
				return Usagef("%s is a file: name it with -f", arg)
			}
		}
		if len(args) > n {
			return Usagef("unexpected argument %q", args[n])
		}
		return nil
	}
}

// ExactlyOneGateway wants the name of a Gateway, and nothing else.
func ExactlyOneGateway(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return Usagef("name a Gateway")
	}
	return MaxArgs(1)(command, args)
}
