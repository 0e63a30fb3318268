package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"gateway/internal/must"
	"gateway/internal/plugintest"
	"gateway/internal/testbuild"
)

// never are the parts of what the plugin prints that are not the same twice.
var never = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`), "TIME"},
	{regexp.MustCompile(`\d+ms +\d+ `), "TOOK BYTES "},
	// Before ages: the end of a name may look like one.
	{regexp.MustCompile(`\b[b-df-hj-np-tv-z2-9]{6,10}-[b-df-hj-np-tv-z2-9]{5}\b`), "POD"},
	{regexp.MustCompile(`\b(\d+[smhd])+\b`), "AGE"},
	{regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+`), "ADDRESS"},
	{regexp.MustCompile(`\bload-\d+-[0-9a-f]{8}\b`), "CONFIGURATION"},
	{regexp.MustCompile(` id \d+\b`), " id ID"},
	// Columns are as wide as what is in them.
	{regexp.MustCompile(` +`), " "},
}

var setsVariable = regexp.MustCompile(`^\w+=`)

func normal(output string) string {
	for _, part := range never {
		output = part.pattern.ReplaceAllString(output, part.instead)
	}
	return output
}

func TestNormal(t *testing.T) {
	for output, want := range map[string]string{
		"shop-gateway-6569cbdd68-7872s   1   0   2s    never":                            "shop-gateway-POD 1 0 AGE never",
		"2026-11-23T02:55:10.170Z  6569cbdd68-7872s  200     2ms     545     10.244.0.1": "TIME POD 200 TOOK BYTES ADDRESS",
	} {
		if got := normal(output); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// testTranscripts runs what the pages of docs show of a cluster, each page in a namespace of its own.
func testTranscripts(t *testing.T, bin string) {
	t.Helper()
	needNode(t) // the requests go to the addresses of Services
	root := testbuild.MustRoot(t)
	for _, page := range plugintest.Pages(t, root, "console cluster") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			s := newDocsStage(t, bin, root)
			plugintest.ComparePage(t, page, "console cluster", func(command string) string { return s.run(t, command) }, normal)
		})
	}
}

// testCommands runs the blocks "sh cluster" of docs, each page's in a namespace with the Gateway and the backends of
// shop.yaml.
func testCommands(t *testing.T, bin string) {
	t.Helper()
	root := testbuild.MustRoot(t)
	for _, page := range plugintest.Pages(t, root, "sh cluster") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			s := newDocsStage(t, bin, root)
			s.run(t, "kubectl gateway apply -f artifacts/examples/shop.yaml --wait")
			content, err := os.ReadFile(page) //nolint:gosec // ours
			must.Do(t, err)
			for _, block := range shellOnCluster.FindAllStringSubmatch(string(content), -1) {
				if out := s.shell(t, "set -ex\n"+block[1]+"echo all commands succeeded"); !strings.HasSuffix(out, "all commands succeeded\n") {
					t.Errorf("%s: a command failed:\n%s", page, out)
				}
			}
		})
	}
}

var shellOnCluster = regexp.MustCompile("(?ms)^```sh cluster\n(.*?)^```$")

// newDocsStage makes a stage whose namespace goes with the test.
func newDocsStage(t *testing.T, bin, root string) *docsStage {
	t.Helper()
	s := &docsStage{namespace: "e2e-docs-" + rand.String(5), bin: bin, dir: t.TempDir()}
	s.copyExamples(t, root)
	t.Cleanup(func() {
		if t.Failed() {
			dump(t, s.namespace)
		}
		_ = kube.CoreV1().Namespaces().Delete(context.Background(), s.namespace, metav1.DeleteOptions{})
	})
	return s
}

// docsStage is where the commands of the documentation run: in a namespace of the test's in place of "shop", which may
// be somebody's.
type docsStage struct {
	namespace string
	// bin has the plugin, dir what stands for the project's directory.
	bin, dir string
	// variables are the commands that set some: each command has a shell of its own.
	variables string
	requests  int
}

// copyExamples makes examples of the namespace, with the image that is on the node.
func (s *docsStage) copyExamples(t *testing.T, root string) {
	t.Helper()
	const examples = "artifacts/examples"
	must.Do(t, os.CopyFS(filepath.Join(s.dir, examples), os.DirFS(filepath.Join(root, examples))))
	files := must.Get(filepath.Glob(filepath.Join(s.dir, examples, "*.yaml")))(t)
	inNamespace := regexp.MustCompile(`(namespace: |kind: Namespace\nmetadata:\n  name: )shop\b`)
	for _, file := range files {
		content, err := os.ReadFile(file) //nolint:gosec // ours
		must.Do(t, err)
		changed := inNamespace.ReplaceAllString(string(content), "${1}"+s.namespace)
		if image := os.Getenv("ECHO_IMG"); image != "" {
			changed = strings.ReplaceAll(changed, "gateway-echo:dev", image)
		}
		must.Do(t, os.WriteFile(file, []byte(changed), 0o600))
	}
}

// run returns what a command prints, and waits until what it brought about can be seen.
func (s *docsStage) run(t *testing.T, command string) string {
	t.Helper()
	out := s.shell(t, command)
	switch {
	case setsVariable.MatchString(command):
		s.variables += command + "\n"
	case strings.HasPrefix(command, "curl "):
		s.requests++
		eventually(t, "the log has the request", func(context.Context) error {
			log := s.shell(t, "kubectl gateway logs shop -n shop --no-headers --status 100-599")
			if strings.Count(log, "\n") != s.requests {
				return errors.New(log)
			}
			return nil
		})
	case strings.Contains(command, "gateway apply "):
		eventually(t, "what was applied is at work", func(context.Context) error {
			state := s.shell(t, "kubectl gateway list -n shop; kubectl gateway proxy-config shop -n shop")
			if !strings.Contains(state, " 2/2 ") || strings.Count(state, " 4/4 ") != 2 {
				return errors.New(state)
			}
			return nil
		})
	}
	return out
}

// shell returns what a command prints.
func (s *docsStage) shell(t *testing.T, command string) string {
	t.Helper()
	out := plugintest.Shell(t, s.bin, s.dir, strings.ReplaceAll(s.variables+command, "-n shop", "-n "+s.namespace))
	return strings.ReplaceAll(out, s.namespace, "shop")
}
