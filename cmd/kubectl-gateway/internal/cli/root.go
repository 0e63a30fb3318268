package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const long = `Gateways: what they say, what becomes of a request, and how they are.

Exit codes: 0 done; 1 failed, and nothing was changed; 2 wrong usage; 3 done, and the answer is no (see each command);
4 changed in part: what is left is said, and the same command goes on.`

// NewRoot returns the plugin with its commands.
func NewRoot(options *Options, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-gateway", Short: "Gateways: what they say, what becomes of a request, and how they are", Long: long,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl gateway"},
		SilenceErrors: true, SilenceUsage: true,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			message := ""
			if similar := command.SuggestionsFor(args[0]); len(similar) > 0 {
				message = fmt.Sprintf(", did you mean %s?", strings.Join(similar, " or "))
			}
			return Usagef("unknown command %q%s", args[0], message)
		},
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usagef("%w", err) })
	options.Flags.AddFlags(root.PersistentFlags())
	root.SetIn(options.In)
	root.SetOut(options.Out)
	root.SetErr(options.ErrOut)
	root.AddCommand(commands...)
	_ = root.RegisterFlagCompletionFunc("namespace", options.completeNamespaces) // which fails for unknown flags only
	return root
}

// Execute runs the plugin and returns its exit code.
func Execute(ctx context.Context, root *cobra.Command, options *Options, args []string) int {
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	server := ""
	if config, err := options.Flags.ToRESTConfig(); err == nil {
		server = " at " + config.Host
	}
	message := explain(ctx, err, server)
	code := ExitCode(err)
	switch code {
	case ExitUsage:
		message = "error: " + message + ": see kubectl gateway --help"
	case ExitNo:
	default:
		message = "error: " + message
	}
	_, _ = fmt.Fprintln(options.ErrOut, message)
	return code
}

// MaxArgs refuses more arguments than n.
func MaxArgs(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
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

// CompleteGateways proposes the names of the Gateways in the namespace, none if that takes long.
func (o *Options) CompleteGateways(command *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	clients, err := o.Clients()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	namespace, err := o.Namespace()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := clients.Gateways.AppV1().Gateways(namespace).List(command.Context(), completionOptions())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	given := map[string]bool{}
	for _, arg := range args {
		given[arg] = true
	}
	var names []string
	for i := range list.Items {
		if name := list.Items[i].Name; strings.HasPrefix(name, prefix) && !given[name] {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (o *Options) completeNamespaces(command *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	clients, err := o.Clients()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	list, err := clients.Core.CoreV1().Namespaces().List(command.Context(), completionOptions())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, prefix) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completionOptions bound a list that somebody waits for with a finger on the key.
func completionOptions() metav1.ListOptions {
	seconds := int64(3)
	return metav1.ListOptions{ResourceVersion: "0", TimeoutSeconds: &seconds}
}
