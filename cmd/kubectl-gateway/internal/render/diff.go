package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
)

// compare shows what loading the Gateway of a file would change in the proxies of the one in the cluster. Both get the
// cluster's endpoints, which the file cannot change. It can change ConfigMaps, and routes without their Gateway.
func (c *command) compare(ctx context.Context, site *cli.Site) error {
	clients, _, err := c.Connect()
	if err != nil {
		return err
	}
	live, err := clients.Live(ctx, site.Gateway.Namespace, site.Gateway.Name)
	if err != nil {
		return err
	}
	if err := live.Complete(); err != nil {
		return err
	}
	edited, err := clients.Edited(ctx, live, site)
	if err != nil {
		return err
	}
	before, _ := live.Compile()
	after, refused := edited.Compile()
	c.warn(edited, append(edited.Problems(after, refused), edited.Doubts(after)...))
	running, desired := render.Render(live.Input(before)), render.Render(edited.Input(after))
	was, is := running.AllFiles(), desired.AllFiles()
	if maps.EqualFunc(was, is, bytes.Equal) {
		c.Say("%s: no difference", site.Name())
		return nil
	}
	if err := c.printDiff(ctx, was, is); err != nil {
		return err
	}
	if change := plan.Diff(desired, running); change.Reload != "" {
		return cli.Nof("%s differs, and loading it takes a reload: %s", site.Name(), change.Reload)
	}
	return cli.Nof("%s differs, and loading it takes no reload", site.Name())
}

// printDiff prints the difference of the files with diff, as kubectl diff does.
func (c *command) printDiff(ctx context.Context, was, is map[string][]byte) error {
	dir, err := os.MkdirTemp("", "kubectl-gateway-")
	if err != nil {
		return fmt.Errorf("failed to make a directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for name, files := range map[string]map[string][]byte{"live": was, "file": is} {
		if err := write(filepath.Join(dir, name), files); err != nil {
			return err
		}
	}
	names := slices.Sorted(maps.Keys(is))
	for name := range was {
		if _, ok := is[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if bytes.Equal(was[name], is[name]) {
			continue
		}
		diff := exec.CommandContext(ctx, "diff", "-uN", "--label", "live/"+name, "--label", "file/"+name, //nolint:gosec // our own names
			filepath.Join("live", name), filepath.Join("file", name))
		diff.Dir, diff.Stdout, diff.Stderr = dir, c.Out, c.ErrOut
		var exit *exec.ExitError
		if err := diff.Run(); err != nil && (!errors.As(err, &exit) || exit.ExitCode() > 1) {
			return fmt.Errorf("failed to run diff: %w", err)
		}
	}
	return nil
}
