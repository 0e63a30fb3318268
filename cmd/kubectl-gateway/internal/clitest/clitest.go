// Package clitest runs the plugin in tests, and what its documentation shows.
package clitest

import (
	"bytes"
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/command"
)

// Root is the directory of the project, from the directory of a package two levels below the module's.
const Root = "../../../.."

var update = flag.Bool("update", false, "write what the commands print into the documentation instead of comparing with it")

// Result is what a command printed, and its exit code.
type Result struct {
	Out, Err string
	Code     int
}

// Run runs the plugin in this process, with what it reads from standard input.
func Run(t testing.TB, stdin string, args ...string) Result {
	t.Helper()
	return RunUntil(t, "", stdin, args...)
}

// RunUntil interrupts the plugin when it has printed a text; "": it does not.
func RunUntil(t testing.TB, text, stdin string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errOut := &output{text: text, cancel: cancel}, &output{}
	options := cli.NewOptions(genericiooptions.IOStreams{In: strings.NewReader(stdin), Out: out, ErrOut: errOut})
	code := cli.Execute(ctx, command.New(options), options, args)
	return Result{out.String(), errOut.String(), code}
}

// output is what was printed. It calls cancel once that has the text.
type output struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Buffer.Write(p)
	if o.text != "" && strings.Contains(o.String(), o.text) {
		o.cancel()
	}
	return n, err
}

// Want ends the test if the exit code or a part of the output is not there.
func (r Result) Want(t testing.TB, code int, parts ...string) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("exit code %d, want %d; output:\n%s%s", r.Code, code, r.Out, r.Err)
	}
	for _, part := range parts {
		if !strings.Contains(r.Out+r.Err, part) {
			t.Errorf("the output has no %q:\n%s%s", part, r.Out, r.Err)
		}
	}
}

// WriteFile writes a file of this test and returns its path.
func WriteFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Build builds the plugin, and puts it beside a kubectl that knows it, into a directory for the PATH.
func Build(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "gateway/cmd/kubectl-gateway")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("failed to build the plugin: %v\n%s", err, out)
	}
	kubectl := "#!/bin/sh\nshift\nexec " + dir + "/kubectl-gateway \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}

// Docs is the documentation.
const Docs = Root + "/docs/kubectl-gateway.md"

// Transcripts runs every command in the blocks of the documentation that begin with the fence, in the project's directory, and
// compares what is printed. Volatile parts are replaced first.
func Transcripts(t *testing.T, fence string, env []string, volatile func(string) string) {
	t.Helper()
	content, err := os.ReadFile(Docs)
	if err != nil {
		t.Fatal(err)
	}
	env = append(append(os.Environ(), "PATH="+Build(t)+":"+os.Getenv("PATH")), env...)
	commands := 0
	blocks := regexp.MustCompile("(?ms)^" + regexp.QuoteMeta("```"+fence) + "\n(.*?)^```\n")
	got := blocks.ReplaceAllStringFunc(string(content), func(block string) string {
		var b strings.Builder
		b.WriteString("```" + fence + "\n")
		for line := range strings.Lines(block) {
			command, ok := strings.CutPrefix(line, "$ ")
			if !ok {
				continue
			}
			commands++
			b.WriteString(line)
			shell := exec.CommandContext(t.Context(), "sh", "-c", command) //nolint:gosec // from the project's documentation
			shell.Dir, shell.Env = Root, env
			out, _ := shell.CombinedOutput() // that a command fails is in what it prints
			b.WriteString(volatile(string(out)))
		}
		return b.String() + "```\n"
	})
	if commands == 0 {
		t.Errorf("%s has no commands in blocks of kind %q", Docs, fence)
	}
	if *update {
		if err := os.WriteFile(Docs, []byte(got), 0o644); err != nil { //nolint:gosec // as it was
			t.Fatal(err)
		}
	} else if got != string(content) {
		t.Errorf("%s differs (if it should, run the test with -update); it would be:\n%s", Docs, got)
	}
}
