package render

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/operator/status"
)

const long = `Show the haproxy.cfg and the maps of a Gateway: of a file, without a cluster, or of one in the cluster, with its
endpoints. Services and certificates that a file lacks are assumed to exist.

With --check, HAProxy checks the configuration; the exit code is 3 if it refuses it, or if there are warnings. With
--diff, the difference from the Gateway of that name in the cluster is shown, and whether loading it takes a reload; the
exit code is 3 if there is one.`

const examples = `  kubectl gateway render -f shop.yaml
  kubectl gateway render -f shop.yaml --check
  kubectl gateway render -f routes.yaml --check --against-cluster
  kubectl gateway render -f shop.yaml --diff
  kubectl gateway render shop --only haproxy.cfg`

type command struct {
	*cli.Options
	files       cli.Files
	only, dir   string
	check, diff bool
}

// NewCommand returns the command.
func NewCommand(options *cli.Options) *cobra.Command {
	c := &command{Options: options}
	cmd := &cobra.Command{
		Use: "render (NAME | -f FILE)", Short: "Show what HAProxy gets for a Gateway", Long: long, Example: examples,
		Args: cli.MaxArgs(1), ValidArgsFunction: options.CompleteGateways,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return c.run(cmd.Context(), name)
		},
	}
	cli.AddFileFlags(cmd, &c.files, "file or directory with the Gateway, - for standard input")
	cli.AddAgainstFlag(cmd, &c.files)
	cmd.Flags().StringVar(&c.only, "only", "", "print this file alone, like paths.map")
	cli.Complete(cmd, "only", ir.ConfigFile, "hosts.map", "paths.map")
	cmd.Flags().StringVar(&c.dir, "output-dir", "", "write the files into this directory instead")
	cmd.Flags().BoolVar(&c.check, "check", false, "let HAProxy 3.4 check the configuration: the local one, or else its image by docker")
	cmd.Flags().BoolVar(&c.diff, "diff", false, "show the difference from the Gateway in the cluster, and whether it takes a reload")
	return cmd
}

func (c *command) run(ctx context.Context, name string) error {
	if c.diff && len(c.files.Paths) == 0 {
		return cli.Usagef("--diff compares a file with the cluster: name the file with -f")
	}
	if c.files.AgainstCluster && (len(c.files.Paths) == 0 || c.diff) {
		return cli.Usagef("--against-cluster needs a file with -f, and --diff always has it")
	}
	if c.check && c.diff || (c.check || c.diff) && c.only+c.dir != "" || c.only != "" && c.dir != "" {
		return cli.Usagef("--check, --diff, --only and --output-dir do not go together")
	}
	if c.check && name == "" && len(c.files.Paths) > 0 {
		return c.checkAll(ctx)
	}
	site, err := c.One(ctx, c.files, name)
	if err != nil {
		return err
	}
	if err := site.Complete(); err != nil {
		return err
	}
	if c.diff {
		return c.compare(ctx, site)
	}
	if c.check {
		return c.checkOne(ctx, site)
	}
	table, refused := site.Compile()
	c.warn(site, append(site.Problems(table, refused), site.Doubts(table)...))
	for _, message := range site.MissingKeys(table, false) {
		c.Warn("%s: %s", site.Name(), message)
	}
	return c.show(render.Render(site.Input(table)).AllFiles())
}

// warn prints the parts of a Gateway that have no effect.
func (c *command) warn(site *cli.Site, problems []model.Problem) {
	for _, problem := range problems {
		c.Warn("%s", site.Describe(problem))
	}
	for _, note := range status.UnusedBackends(site.Gateway) {
		c.Note("%s", site.Describe(note))
	}
}

// show prints the files that have any content, or writes all of them.
func (c *command) show(files map[string][]byte) error {
	if c.dir != "" {
		return write(c.dir, files)
	}
	names := slices.Sorted(maps.Keys(files))
	if c.only != "" {
		content, ok := files[c.only]
		if !ok {
			return cli.Usagef("there is no file %s, but %v", c.only, names)
		}
		_, err := c.Out.Write(content)
		return err
	}
	// haproxy.cfg comes first: it names the others.
	names = slices.Insert(slices.DeleteFunc(names, func(name string) bool { return name == ir.ConfigFile }), 0, ir.ConfigFile)
	var all bytes.Buffer
	for i, name := range names {
		if len(files[name]) == 0 {
			continue
		}
		if i > 0 {
			all.WriteByte('\n')
		}
		fmt.Fprintf(&all, "#### %s\n%s", name, files[name])
	}
	_, err := c.Out.Write(all.Bytes())
	return err
}

func write(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("failed to make the directory: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("failed to write the file: %w", err)
		}
	}
	return nil
}
