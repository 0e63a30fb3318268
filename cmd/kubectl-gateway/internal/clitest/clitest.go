// Package clitest runs the plugin in tests.
package clitest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/command"
	"gateway/internal/must"
)

// Root is the directory of the project, from the directory of a package two levels below the module's.
const Root = "../../../.."

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
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}
