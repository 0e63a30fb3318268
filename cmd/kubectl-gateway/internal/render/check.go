package render

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
)

// checkAll checks every Gateway of the files.
func (c *command) checkAll(ctx context.Context) error {
	sites, err := c.FromFiles(c.files)
	if err != nil {
		return err
	}
	var refused []string
	for _, site := range sites {
		if c.files.AgainstCluster {
			if site, err = c.Against(ctx, site); err != nil {
				return err
			}
		}
		err := c.checkOne(ctx, site)
		switch {
		case cli.ExitCode(err) == cli.ExitNo && len(sites) > 1:
			c.Say("%v", err)
			refused = append(refused, site.Name())
		case err != nil:
			return err
		}
	}
	if len(refused) > 0 {
		return cli.Nof("not all is well with %s", strings.Join(refused, ", "))
	}
	return nil
}

// checkOne lets HAProxy check the configuration, with files of its own in place of a pod's.
func (c *command) checkOne(ctx context.Context, site *cli.Site) error {
	dir, err := os.MkdirTemp("", "kubectl-gateway-")
	if err != nil {
		return fmt.Errorf("failed to make a directory for the check: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	table, refused := site.Compile()
	problems := site.OfFiles(append(site.Problems(table, refused), site.Doubts(table)...))
	c.warn(site, problems)
	input := site.Input(table)
	input.Paths = ir.Paths{ConfigDir: dir, RunDir: dir, CertificateDir: filepath.Join(dir, "certificates")}
	if err := makeCertificates(&input); err != nil {
		return err
	}
	if err := write(dir, render.Render(input).AllFiles()); err != nil {
		return err
	}
	haproxy, err := cli.HAProxy(ctx, dir, "-c", "-f", filepath.Join(dir, ir.ConfigFile))
	if err != nil {
		return err
	}
	out, err := haproxy.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return cli.Nof("%s: HAProxy refuses it: %s", site.Name(), alerts(strings.ReplaceAll(string(out), dir+"/", "")))
	case err != nil:
		return fmt.Errorf("failed to run HAProxy: %w: %s", err, out)
	}
	if len(problems)+len(site.Ignored) > 0 {
		return cli.Nof("%s: HAProxy accepts it, but there are warnings", site.Name())
	}
	c.Say("%s: HAProxy accepts it", site.Name())
	return nil
}

// alerts returns HAProxy's errors, without the lines that it always prints.
func alerts(output string) string {
	var all []string
	for line := range strings.Lines(output) {
		if _, alert, ok := strings.Cut(line, "[ALERT]"); ok && !strings.Contains(line, "rrors found in configuration") && !strings.Contains(line, "Error(s) found") {
			_, message, _ := strings.Cut(alert, " : ")
			all = append(all, strings.TrimSpace(message))
		}
	}
	if len(all) == 0 {
		return output
	}
	return strings.Join(all, "; ")
}
