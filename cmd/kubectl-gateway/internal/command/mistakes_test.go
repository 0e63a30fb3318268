package command_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
)

var updateMistakes = flag.Bool("update-mistakes", false, "write what is said about mistakes instead of comparing with it")

// TestMistakes: each mistake that people make is named, and nothing else is. testdata/mistakes.txt has the mistakes, as
// changes of a file without any, and what the command says of each.
func TestMistakes(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	const table = "testdata/mistakes.txt"
	content := must.Get(os.ReadFile(table))(t)
	var written strings.Builder
	for part := range strings.SplitSeq(strings.TrimPrefix(string(content), "=== "), "\n=== ") {
		mistake, _, _ := strings.Cut(part, "\nexit ")
		title, edits, _ := strings.Cut(mistake, "\n")
		name, base, _ := strings.Cut(strings.TrimSuffix(title, ")"), " (")
		t.Run(name, func(t *testing.T) {
			result := clitest.Run(t, mistaken(t, base, edits), "render", "--check", "-f", "-")
			if result.Err == "" {
				t.Errorf("nothing is said")
			}
			got := fmt.Sprintf("%s\nexit %d\n%s", mistake, result.Code, result.Err)
			if !*updateMistakes && strings.TrimSpace(got) != strings.TrimSpace(part) {
				t.Errorf("it says\n%s\nand not\n%s", got, part)
			}
			written.WriteString("=== " + got + "\n")
		})
	}
	if *updateMistakes {
		must.Do(t, os.WriteFile(table, []byte(strings.TrimSuffix(written.String(), "\n")), 0o600))
	}
}

// mistaken returns a file with changes, each of which ends with a line of one dot: lines with - give way to those with
// +.
func mistaken(t *testing.T, base, edits string) string {
	t.Helper()
	content := must.Get(os.ReadFile("testdata/mistakes-" + base + ".yaml"))(t)
	file := string(content)
	for edit := range strings.SplitSeq(strings.TrimSuffix(edits, "\n."), "\n.\n") {
		var old, replacement []string
		for line := range strings.SplitSeq(edit, "\n") {
			if text, ok := strings.CutPrefix(line, "-"); ok {
				old = append(old, text)
			} else {
				replacement = append(replacement, strings.TrimPrefix(line, "+"))
			}
		}
		if len(old) == 0 {
			file += strings.Join(replacement, "\n") + "\n"
			continue
		}
		if !strings.Contains(file, strings.Join(old, "\n")) {
			t.Fatalf("the file has no %q", old)
		}
		file = strings.Replace(file, strings.Join(old, "\n"), strings.Join(replacement, "\n"), 1)
	}
	return file
}
