package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

const long = `Make Gateways of Ingresses (networking.k8s.io/v1), as ingress-nginx reads them: one for each namespace and class. Give
the Services too, for their ports. No cluster is needed. Standard error lists what is not carried over or differs; the
exit code is 3 if there is such a line.

Rules that lose something that may keep clients out answer 503: annotations about access, those of other controllers,
and policies for a Service or Ingress. --open names what may be lost.`

const examples = `  kubectl gateway convert -f ingresses.yaml > gateways.yaml
  kubectl get ingresses,services -A -o yaml | kubectl gateway convert -f - > gateways.yaml
  kubectl gateway convert -f ingresses/ | kubectl gateway render -f - --check`

type command struct {
	*cli.Options
	files  cli.Files
	name   string
	output cli.Format
	class  string
	open   []string
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options, output: "yaml"}
	cmd := &cobra.Command{
		Use: "convert -f FILE", Short: "Make Gateways of Ingresses", Long: long, Example: examples,
		Args: cli.MaxArgs(0), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error { return c.run() },
	}
	cli.AddFileFlags(cmd, &c.files, "file or directory with the objects, - for standard input")
	cmd.Flags().StringVar(&c.name, "name", "ingress", "name of the Gateways for Ingresses, to which the class is added, if there is one and --class does not name it")
	cli.AddFormatFlag(cmd, &c.output, "json or yaml")
	cmd.Flags().StringVar(&c.class, "class", "", "take the Ingresses of this class alone")
	cmd.Flags().StringSliceVar(&c.open, "open", nil, "let requests through without this: an annotation, or KIND/NAMESPACE/NAME of a policy")
	return cmd
}

func (c *command) run() error {
	switch {
	case len(c.files.Paths) == 0:
		return cli.Usagef("name a file with -f")
	case !isGatewayName(c.name):
		return cli.Usagef("%q is no name for a Gateway: use up to 55 lower-case letters, digits and '-', a letter first", c.name)
	}
	documents, namespace, err := c.Objects(c.files)
	if err != nil {
		return err
	}
	result, err := Convert(Input{Documents: documents, Namespace: namespace, Name: c.name, Class: c.class, Open: c.open})
	if err != nil {
		return err
	}
	return c.print(result)
}

func (c *command) print(result *Result) error {
	if err := c.nothing(result); err != nil {
		return err
	}
	for _, note := range result.Notes {
		_, _ = fmt.Fprintln(c.ErrOut, note)
	}
	if len(result.Gateways) > 0 {
		c.Warn("the ConfigMap of ingress-nginx's controller is not read: check it for settings of all Ingresses, such as global-auth-url, " +
			"whitelist-source-range, block-cidrs and proxy-body-size")
	}
	if err := c.write(result.Gateways); err != nil {
		return err
	}
	summary := fmt.Sprintf("%s made of %s", count(len(result.Gateways), "Gateway"), counts(result.Converted))
	if len(result.PassedOver) > 0 {
		summary += "; passed over: " + counts(result.PassedOver)
	}
	if len(result.Notes) > 0 {
		return cli.Nof("%s; not carried over as it was: %s, see above", summary, count(len(result.Notes), "thing"))
	}
	_, _ = fmt.Fprintln(c.ErrOut, summary)
	return nil
}

// nothing returns an error if nothing was converted.
func (c *command) nothing(result *Result) error {
	ingress, paths := "Ingress", strings.Join(c.files.Paths, ", ")
	if c.class != "" {
		ingress += " of class " + c.class
	}
	switch {
	case len(result.Gateways) == 0 && result.GatewayAPI:
		const message = "there is no %s in %s, but objects of the Gateway API, which the operator serves as they are, with the GatewayClass gateway"
		return cli.Usagef(message, ingress, paths)
	case len(result.Gateways) == 0 && len(result.Notes) == 0:
		return fmt.Errorf("there is no %s in %s", ingress, paths)
	}
	return nil
}

func counts(kinds map[string]int) string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, count(kinds[kind], kind))
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, ", ")
}

func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "s"):
		noun += "e"
	case strings.HasSuffix(noun, "y") && !strings.HasSuffix(noun, "way"):
		noun = strings.TrimSuffix(noun, "y") + "ie"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
