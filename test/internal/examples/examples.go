// Package examples reads artifacts/examples for the tests.
package examples

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Backends is the example whose Services the others use.
const Backends = "shop"

// Example is a file.
type Example struct {
	// Name is the file's, without .yaml.
	Name string
	// Comment is the text at the file's top, without the number signs.
	Comment string
	// Commands are those in the comment.
	Commands []Command
	// Objects are what the file has.
	Objects []*unstructured.Unstructured
}

// Command is a command of an example's comment.
type Command struct {
	// Text is for a shell, with $GATEWAY for the Gateway's address.
	Text string
	// Want is a part of what it prints; "" if the comment does not say.
	Want string
}

// Gateways returns the example's Gateways.
func (e Example) Gateways() []*unstructured.Unstructured {
	var gateways []*unstructured.Unstructured
	for _, object := range e.Objects {
		if object.GetKind() == "Gateway" {
			gateways = append(gateways, object)
		}
	}
	return gateways
}

// address is what commands call the address of the Gateway.
const address = "$GATEWAY"

// Split returns the commands that make what the Gateway needs, and those that show what it does.
func (e Example) Split() (setup, requests []Command) {
	for i, command := range e.Commands {
		if strings.Contains(command.Text, address) {
			return e.Commands[:i], e.Commands[i:]
		}
	}
	return e.Commands, nil
}

// Run runs the command in a directory, with env added to the environment and another namespace in place of shop, and
// says what is wrong if it does not do what the comment says.
func (c Command) Run(ctx context.Context, dir, namespace string, env ...string) error {
	text := strings.ReplaceAll(c.Text, "-n shop ", "-n "+namespace+" ")
	command := exec.CommandContext(ctx, "bash", "-c", text)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	output, err := command.CombinedOutput()
	if c.Want != "" {
		// Some show what is refused.
		err = nil
		if !strings.Contains(string(output), c.Want) {
			err = fmt.Errorf("the output lacks %q", c.Want)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w:\n%s", text, err, output)
	}
	return nil
}

// Load reads every example of the project whose root directory is given, Backends first.
func Load(root string) ([]Example, error) {
	files, err := filepath.Glob(filepath.Join(root, "artifacts", "examples", "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []Example
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		example, err := parse(strings.TrimSuffix(filepath.Base(file), ".yaml"), content)
		if err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", file, err)
		}
		if example.Name == Backends {
			all = append([]Example{example}, all...)
		} else {
			all = append(all, example)
		}
	}
	if len(all) == 0 || all[0].Name != Backends {
		return nil, fmt.Errorf("there is no example %s in %s", Backends, root)
	}
	return all, nil
}

func parse(name string, content []byte) (Example, error) {
	example := Example{Name: name}
	for line := range strings.Lines(string(content)) {
		text, is := strings.CutPrefix(line, "#")
		if !is {
			break
		}
		example.Comment += strings.TrimPrefix(text, " ")
	}
	example.Commands = commands(example.Comment)
	for document := range bytes.SplitSeq(content, []byte("\n---\n")) {
		object := map[string]any{}
		if err := yaml.UnmarshalStrict(document, &object); err != nil {
			return example, err
		}
		example.Objects = append(example.Objects, &unstructured.Unstructured{Object: object})
	}
	return example, nil
}

// expectation ends a command's line.
var expectation = regexp.MustCompile(`\s+# (.+)$`)

// commands finds the commands, which are indented. One goes on in the next line after a backslash, or if that is
// indented more, up to the end of a loop.
func commands(comment string) []Command {
	var all []Command
	more := false
	for line := range strings.Lines(comment) {
		text, is := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if !is {
			continue
		}
		want := ""
		if found := expectation.FindStringSubmatch(text); found != nil {
			text, want = strings.TrimSuffix(text, found[0]), found[1]
		}
		if more {
			last := &all[len(all)-1]
			last.Text, last.Want = last.Text+"\n"+text, want
		} else {
			all = append(all, Command{text, want})
		}
		joined := all[len(all)-1].Text
		more = strings.HasSuffix(text, `\`) || strings.HasPrefix(joined, "for ") && text != "done"
	}
	return all
}

// Program is the first word of the command.
func (c Command) Program() string {
	program, _, _ := strings.Cut(c.Text, " ")
	return program
}
