package command_test

import (
	"slices"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// commands are all commands that have help.
var commands = []string{
	"", "adopt", "apply", "bundle", "check", "compare", "convert", "dashboard", "explain", "list", "logs", "proxy-config", "render", "routes", "trace", "try", "version", "wait",
}

// TestHelp: help has the flags of the command alone, within 100 columns. Those of kubectl are in one place.
func TestHelp(t *testing.T) {
	for _, name := range commands {
		result := clitest.Run(t, "", append(strings.Fields(name), "--help")...)
		result.Want(t, 0, "Usage:\n  kubectl gateway "+name, "-h, --help", `"kubectl gateway options" shows the flags of kubectl`)
		for line := range strings.Lines(result.Out) {
			if len(line) > 101 && !strings.HasPrefix(line, "  kubectl ") { // an example
				t.Errorf("%s: a line has %d columns: %s", name, len(line)-1, line)
			}
			if flag := strings.TrimSpace(line); strings.HasPrefix(flag, "--") && slices.ContainsFunc([]string{"--as", "--kubeconfig", "--token", "--context"}, func(f string) bool { return strings.HasPrefix(flag, f+" ") }) {
				t.Errorf("%s: a flag of kubectl is there: %s", name, line)
			}
		}
	}
	options := clitest.Run(t, "", "options")
	options.Want(t, 0, "--kubeconfig string", "-n, --namespace string")
	if flags := strings.Count(options.Out, "  --"); flags != 18 {
		t.Errorf("there are %d flags without a letter:\n%s", flags, options.Out)
	}
	clitest.Run(t, "", "--version").Want(t, 0, "kubectl-gateway ")
	clitest.Run(t, "", "version", "--client", "-o", "json").Want(t, 0, `"plugin": "`)
}

// TestCompletionOfValues: a shell proposes the values of flags.
func TestCompletionOfValues(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	for args, want := range map[string]string{
		"explain -o": "yaml\n", "bundle -o": "json\n", "trace -o": "json\n", "routes -o": "json\n", "list -o": "wide\n", "check -o": "json\n", "version -o": "json\n", "convert -o": "yaml\n", "proxy-config -o": "yaml\n", "logs -o": "json\n",
		"logs --filter": "RateLimit\n", "logs --status": "5xx\n", "render --only": "haproxy.cfg\n",
	} {
		clitest.Run(t, "", append(append([]string{"__complete"}, strings.Fields(args)...), "")...).Want(t, 0, want)
	}
}
