package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// haproxyVersion is the version of HAProxy that configurations are for.
const haproxyVersion = "3.4"

// HAProxy returns the command that runs HAProxy with the arguments: this machine's HAProxy if it has the right
// version, or else docker with the image, which gets the directory. It ends by a signal, not with ctx.
func HAProxy(ctx context.Context, dir string, arguments ...string) (*exec.Cmd, error) {
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy", "/usr/local/sbin/haproxy"} {
		out, err := exec.CommandContext(ctx, name, "-v").Output() //nolint:gosec // HAProxy
		if err == nil && strings.HasPrefix(string(out), "HAProxy version "+haproxyVersion+".") {
			return exec.Command(name, arguments...), nil //nolint:gosec // HAProxy
		}
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		return nil, fmt.Errorf("there is neither HAProxy %s on the PATH nor docker: install one of them", haproxyVersion)
	}
	if out, err := exec.CommandContext(ctx, docker, "version").CombinedOutput(); err != nil { //nolint:gosec // docker
		return nil, fmt.Errorf("there is no HAProxy %s on the PATH, and docker is not running: install HAProxy, or start docker: %s",
			haproxyVersion, lastLine(out))
	}
	arguments = append([]string{
		"run", "--rm", "--network=host", fmt.Sprintf("--user=%d:%d", os.Getuid(), os.Getgid()), "--volume=" + dir + ":" + dir,
		"haproxy:" + haproxyVersion, "haproxy",
	}, arguments...)
	return exec.Command(docker, arguments...), nil //nolint:gosec // docker
}

// lastLine returns the last line of an output, where programs say why they failed.
func lastLine(out []byte) string {
	text := strings.TrimSpace(string(out))
	return text[strings.LastIndexByte(text, '\n')+1:]
}
