package examples

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gateway/internal/must"
)

// elsewhere are the commands of tutorials and how-tos that no test runs as they are, by their beginnings, with the
// reason.
var elsewhere = map[string]string{
	"kind ":             "kind needs docker",
	"export ":           "sets up the reader's shell",
	"make docker-build": "needs docker; hack/images.sh builds the same without",
	"make deploy":       "the end-to-end tests deploy so",
	"make plugin":       "plugintest.Build does so",
	"kubectl apply --server-side -f artifacts/examples/":      "TestExamples applies them all",
	"kubectl -n shop port-forward ":                           "hack/demo.sh does so on kind",
	"curl -H 'Host: shop.example.com' http://localhost:8080/": "hack/demo.sh asks so on kind",
	"kubectl -n shop create secret generic oauth2-proxy ":     "TestLogin in test/apiserver/oidc does so",
	"kubectl -n shop get certificate ":                        "needs cert-manager",
	"kubectl gateway dashboard ":                              "runs until it is stopped; TestDashboard starts it",
	"kubectl gateway apply -f gateways.yaml":                  "there are no Ingresses on the node; TestConvertedIsAdmitted",
	"kubectl create namespace gateways":                       "for the objects of gateways.yaml",
	"kubectl gateway list -A":                                 "the Gateways of other tests; testTranscripts lists those of a page",
	"kubectl get ingresses,ingressclasses,services,":          "reads the reader's cluster",
	"kubectl gateway wait httproute/closed":                   "the plugin's tests run the example",
	"kubectl -n shop get canary ":                             "needs Flagger",
	"kubectl -n shop get httproute api ":                      "needs Flagger",
}

// TestCommandsOfPages: what tutorials, how-tos and pages with steps tell to run in blocks "sh" is run by TestRequests,
// as a command of an example, or no test can do it. Those in blocks "sh cluster" are run by TestPlugin.
func TestCommandsOfPages(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	all := must.Get(Load(root))(t)
	known := map[string]bool{}
	for _, example := range all {
		for _, command := range example.Commands {
			known[command.Text] = true
		}
	}
	found := 0
	howTos, err1 := filepath.Glob(filepath.Join(root, "docs", "how-to", "*.md"))
	tutorials, err2 := filepath.Glob(filepath.Join(root, "docs", "tutorials", "*.md"))
	must.Do(t, errors.Join(err1, err2))
	features := filepath.Join(root, "docs", "features")
	steps := []string{filepath.Join(features, "backend-tls.md"), filepath.Join(features, "client-certificates.md")}
	for _, page := range slices.Concat(howTos, tutorials, steps) {
		for _, command := range shown(t, page) {
			switch {
			case known[command.Text]:
				found++
			case !isElsewhere(command.Text):
				t.Errorf("%s: no test runs %s", page, command.Text)
			}
		}
	}
	if found < 15 {
		t.Errorf("found only %d commands of examples", found)
	}
}

var (
	shell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	line  = regexp.MustCompile(`(?m)^.`)
)

// shown are the commands in the blocks of a page.
func shown(t *testing.T, page string) []Command {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	var all []Command
	for _, block := range shell.FindAllStringSubmatch(string(text), -1) {
		all = append(all, commands(line.ReplaceAllString(block[1], "    $0"))...)
	}
	return all
}

func isElsewhere(command string) bool {
	for start := range elsewhere {
		if strings.HasPrefix(command, start) {
			return true
		}
	}
	return false
}
