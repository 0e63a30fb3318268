// Package scripts runs the scripts of hack with stand-ins for the programs that they call.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testbuild"
)

// stubs makes a directory of programs, by the shell commands that each of them runs.
func stubs(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, commands := range programs {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+commands+"\n"), 0o700))
	}
	return dir
}

// script runs commands of bash at the top of the tree, with the programs of dir first on the PATH. It returns what they
// print, and whether they succeed.
func script(t *testing.T, dir, commands string, env ...string) (string, bool) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", commands)
	command.Dir = testbuild.MustRoot(t)
	command.Env = append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), env...)
	output, err := command.CombinedOutput()
	return string(output), err == nil
}

// TestVulnerabilitiesWithoutADatabase: without the database, there is no answer that looks like a good one.
func TestVulnerabilitiesWithoutADatabase(t *testing.T) {
	output, ok := script(t, stubs(t, map[string]string{"curl": "exit 6"}), "hack/vuln.sh")
	if want := "the vulnerability database https://vuln.go.dev cannot be reached"; ok || !strings.Contains(output, want) {
		t.Errorf("it succeeds: %v, and prints\n%s\nwant %q", ok, output, want)
	}
}

// TestKind: with kind and docker, there is a cluster of kind, one for the tests and one for the demo. It gets the
// images.
func TestKind(t *testing.T) {
	const (
		use = `. hack/lib.sh; use_cluster TEST_KUBECONFIG && load_images && echo "$cluster of $KUBECONFIG with $IMG"`
		// The images are not built, and there is no node.
		stubbed = `hack/images.sh() { echo "images $*" >&2; echo "export IMG=gateway:dev-1"; }
			hack/cluster/cluster.sh() { echo "node $*" >&2; echo /node; }; `
	)
	for _, c := range []struct {
		why, docker, clusters string
		want                  []string
	}{
		{"the first time", "exit 0", "gateway-demo", []string{"kind create cluster --name gateway-test\n"}},
		{"from then on", "exit 0", "gateway-test", []string{"kind export kubeconfig --name gateway-test\n"}},
		{"without docker's engine", "exit 1", "", []string{"node up\n", "images \n", "node of /node with gateway:dev-1\n"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			dir, cache := stubs(t, map[string]string{
				"docker": c.docker,
				"kind":   `if [ "$1" = get ]; then echo ` + c.clusters + `; else echo "kind $*"; fi`,
			}), t.TempDir()
			if c.docker == "exit 0" {
				c.want = append(c.want, "images build\n", "kind load image-archive bin/gateway.tar --name gateway-test\n",
					"kind load image-archive bin/gateway-echo.tar --name gateway-test\n", "kind load image-archive bin/haproxy.tar --name gateway-test\n",
					"kind of "+cache+"/gateway/kind/gateway-test with gateway:dev-1\n")
			}
			output, ok := script(t, dir, stubbed+use, "TEST_KUBECONFIG=", "XDG_CACHE_HOME="+cache)
			for _, want := range c.want {
				if !ok || !strings.Contains(output, want) {
					t.Errorf("it succeeds: %v, and prints\n%s\nwant %q", ok, output, want)
				}
			}
		})
	}
	if output, ok := script(t, stubs(t, map[string]string{"docker": "exit 0", "kind": "exit 1"}),
		". hack/lib.sh; use_cluster TEST_KUBECONFIG && load_images", "TEST_KUBECONFIG=", "XDG_CACHE_HOME="+t.TempDir()); ok {
		t.Errorf("kind fails, and it goes on:\n%s", output)
	}
}

// TestEtcd: an etcd on which an API server has no watch-lists is never used.
func TestEtcd(t *testing.T) {
	etcd := func(version string) string { return "echo 'etcd Version: " + version + "'" }
	for _, c := range []struct {
		why, onPath, cached string
		ok                  bool
		want                func(dir, cache string) string
	}{
		{"a new one on the PATH", etcd("3.6.1"), etcd("3.5.16"), true, func(dir, _ string) string { return dir + "\n" }},
		{"an old one on the PATH", etcd("3.4.23"), etcd("3.5.16"), true, func(_, cache string) string { return cache + "\n" }},
		{"none", "exit 1", "exit 1", false, func(string, string) string {
			return "no etcd 3.5.13 or newer on the PATH, and none in a Debian archive"
		}},
		{"an old one only", etcd("3.5.12"), "exit 1", false, func(string, string) string { return "install it" }},
	} {
		t.Run(c.why, func(t *testing.T) {
			dir, cache := stubs(t, map[string]string{"etcd": c.onPath, "apt-get": "exit 1"}), t.TempDir()
			fetched := filepath.Join(cache, "gateway/etcd/usr/bin")
			must.Do(t, os.MkdirAll(fetched, 0o700))
			must.Do(t, os.WriteFile(filepath.Join(fetched, "etcd"), []byte("#!/bin/sh\n"+c.cached+"\n"), 0o700))
			output, ok := script(t, dir, "hack/etcd.sh", "XDG_CACHE_HOME="+cache)
			if want := c.want(dir, fetched); ok != c.ok || !strings.Contains(output, want) {
				t.Errorf("it succeeds: %v, and prints\n%s\nwant %q", ok, output, want)
			}
		})
	}
}

// TestImagesOfARegistry: with a registry, images have its name and are pushed; without one, they are files.
func TestImagesOfARegistry(t *testing.T) {
	const functions = `eval "$(sed -n '/^tag() {/,/^}/p; /^destination() /p' hack/images.sh)"; echo "$(tag gateway Makefile) $(destination gateway)"`
	for registry, want := range map[string][2]string{
		"":                          {"gateway:dev-", " -o=bin/gateway.tar\n"},
		"registry.example.com/team": {"registry.example.com/team/gateway:dev-", " -push\n"},
	} {
		output, ok := script(t, t.TempDir(), functions, "REGISTRY="+registry)
		if !ok || !strings.HasPrefix(output, want[0]) || !strings.HasSuffix(output, want[1]) {
			t.Errorf("%q: it succeeds: %v, and prints %s", registry, ok, output)
		}
	}
}

// TestFailuresAreSummed: the summary of a suite names the tests that failed, and how to run them alone.
func TestFailuresAreSummed(t *testing.T) {
	const output = "--- FAIL: TestA (0.1s)\n    --- FAIL: TestA/part (0.1s)\n--- FAIL: TestB (0.1s)\nFAIL\nFAIL\tgateway/test/apiserver/edits\t1s\n" +
		"ok  \tgateway/internal/model\t1s\nFAIL\tgateway/cmd/kubectl-gateway/internal/cli [build failed]\n--- FAIL: TestC (1s)\nFAIL\tgateway/internal/agent\t1s\n"
	file := filepath.Join(t.TempDir(), "output")
	must.Do(t, os.WriteFile(file, []byte(output), 0o600))
	const functions = `eval "$(sed -n '/^failures() {/,/^}/p' hack/test.sh)"; unit() { true; }; failures ` // and what follows
	got, ok := script(t, t.TempDir(), functions+file+" unit")
	want := `            TestA (0.1s)
                TestA/part (0.1s)
            TestB (0.1s)
            TestC (1s)
    alone:  PATH=$(hack/haproxy.sh):$PATH KUBEBUILDER_ASSETS=$(hack/cluster/cluster.sh assets) go test -C test -count=1 -run='^(TestA|TestB)$' ./apiserver/edits
    alone:  PATH=$(hack/haproxy.sh):$PATH go test -C cmd/kubectl-gateway -count=1 ./internal/cli
    alone:  PATH=$(hack/haproxy.sh):$PATH go test -C . -count=1 -run='^(TestC)$' ./internal/agent
`
	if !ok || got != want {
		t.Errorf("it succeeds: %v, and prints\n%swant\n%s", ok, got, want)
	}
	if got, _ := script(t, t.TempDir(), functions+"/dev/null make --no-print-directory -s lint"); got != "    alone:  make lint\n" {
		t.Errorf("of a suite without tests, it prints %q", got)
	}
}

// TestTryBuildsWhatRulesNeed: with a WAF or OIDC in the file, their programs are built, too.
func TestTryBuildsWhatRulesNeed(t *testing.T) {
	dir := stubs(t, map[string]string{"make": `echo "make $*"; exit 1`, "go": "echo go1.99"})
	for filter, want := range map[string]string{"RateLimit": "plugin\n", "WAF": "plugin bin/gateway-waf\n", "OIDC": "plugin bin/gateway-login\n"} {
		file := filepath.Join(dir, filter+".yaml")
		must.Do(t, os.WriteFile(file, []byte("filters: [{type: "+filter+"}]\n"), 0o600))
		if output, _ := script(t, dir, "hack/try.sh "+file, "XDG_CACHE_HOME="+dir); !strings.Contains(output, "make --no-print-directory "+want) {
			t.Errorf("%s: it prints\n%s", filter, output)
		}
	}
}

// TestRelease makes a release of programs that are none, and verifies it as a stranger does: it is signed, another
// build makes the same, and a changed byte of any file is refused by the file's name.
func TestRelease(t *testing.T) {
	real := must.Get(exec.LookPath("go"))(t)
	programs := stubs(t, map[string]string{"go": `real=` + real + `
		case "$*" in *hack/cluster/image*|*hack/release*|env*|version*) exec $real "$@";; esac
		[ "$1" = build ] || exit 1
		shift
		dir=. names=
		while [ $# -gt 0 ]; do
			case "$1" in
			-C) dir=$2; shift;;
			-o) out=$2; shift;;
			-ldflags|-tags) shift;;
			-*) ;;
			.) [ $dir = . ] && names="$names gateway" || names="$names $(basename $dir)";;
			*) names="$names $(basename $1)";;
			esac
			shift
		done
		mkdir -p $dir/$out
		for name in $names; do printf '#!/bin/sh\necho "{\"of\": \"%s\"}"\n' "$name $GOOS" >$dir/$out/$name; chmod +x $dir/$out/$name; done`})
	output, ok := script(t, programs, "hack/reproducible.sh")
	for _, want := range []string{"  install.yaml\n", "  gateway-v0.1.0.provenance.json\n", "  gateway-echo-v0.1.0.sig.oci.tar\n",
		"v0.1.0: a build of the sources here makes the same\n", "changes that cannot\n"} {
		if !ok || !strings.Contains(output, want) {
			t.Fatalf("it succeeds: %v, and prints\n%s\nwant %q", ok, output, want)
		}
	}
}
