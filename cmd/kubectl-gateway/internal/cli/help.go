package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gateway/internal/version"
)

// columns is how wide help is.
const columns = 100

// setHelp has all commands print their help without the flags of kubectl, which the command options has.
func setHelp(root *cobra.Command, kubectl *pflag.FlagSet) {
	root.SetHelpFunc(func(command *cobra.Command, _ []string) {
		out := command.OutOrStdout()
		_, _ = fmt.Fprintf(out, "%s\n\n", wrap(command.Long))
		usage(command, kubectl, out)
	})
	root.SetUsageFunc(func(command *cobra.Command) error {
		usage(command, kubectl, command.OutOrStderr())
		return nil
	})
	root.SetVersionTemplate(version.Line("kubectl-gateway"))
	root.Version = version.String()
	root.AddCommand(&cobra.Command{
		Use: "options", Short: "Show the flags of kubectl, which all commands have", Args: MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Show the flags of kubectl, which all commands have.",
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "All commands have the flags of kubectl:\n\n%s", kubectl.FlagUsagesWrapped(columns))
			return err
		},
	})
}

// usage prints how to call a command.
func usage(command *cobra.Command, kubectl *pflag.FlagSet, out io.Writer) {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	say("Usage:\n  %s", command.UseLine())
	if len(command.Aliases) > 0 {
		say("\nAliases:\n  %s", command.NameAndAliases())
	}
	if command.Example != "" {
		say("\nExamples:\n%s", command.Example)
	}
	if command.HasAvailableSubCommands() {
		say("\nCommands:")
		for _, sub := range command.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				say("  %-*s %s", sub.NamePadding(), sub.Name(), sub.Short)
			}
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if kubectl.Lookup(flag.Name) == nil {
			flags.AddFlag(flag)
		}
	})
	if flags.HasAvailableFlags() {
		say("\nFlags:\n%s", strings.TrimRight(flags.FlagUsagesWrapped(columns), "\n"))
	}
	if command.HasAvailableSubCommands() {
		say("\n\"%s COMMAND --help\" shows more about a command.", command.CommandPath())
	}
	say("\n\"%s options\" shows the flags of kubectl, such as --namespace and --context.", command.Root().CommandPath())
}

// wrap returns a text in lines of so many columns. Lines that begin with a space stay as they are.
func wrap(text string) string {
	var paragraphs []string
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(paragraph, " ") {
			paragraphs = append(paragraphs, paragraph)
			continue
		}
		var lines []string
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len(line)+1+len(word) > columns {
				lines, line = append(lines, line), ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		paragraphs = append(paragraphs, strings.Join(append(lines, line), "\n"))
	}
	return strings.Join(paragraphs, "\n\n")
}

// Complete has a shell propose values of a flag.
func Complete(command *cobra.Command, flag string, values ...string) {
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // which fails for unknown flags only
}
