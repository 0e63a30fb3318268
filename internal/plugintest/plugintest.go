// Package plugintest builds the kubectl plugin for tests, and compares what it prints with what its documentation
// shows.
package plugintest

import (
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testbuild"
)

var update = flag.Bool("update", false, "write what the commands print into the documentation instead of comparing with it")

// Build builds the plugin of the project whose directory is root and puts it beside a kubectl
// into a directory that has to be the first of the PATH. This kubectl leaves all other commands to hack/kubectl.sh.
func Build(t testing.TB, root string) string {
	t.Helper()
	dir := t.TempDir()
	must.Do(t, os.Symlink(testbuild.Program(t, "cmd/kubectl-gateway"), filepath.Join(dir, "kubectl-gateway")))
	root = must.Get(filepath.Abs(root))(t)
	kubectl := "#!/bin/sh\nif [ \"$1\" != gateway ]; then PATH=${PATH#*:} exec " + root + "/hack/kubectl.sh \"$@\"; fi\n" +
		"shift\nexec " + dir + "/kubectl-gateway \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectl), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return dir
}

// Shell runs a command in dir, with the plugin that Build put into bin and with env added to the environment, and
// returns what it prints. That a command fails is in what it prints.
func Shell(t testing.TB, bin, dir, command string, env ...string) string {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "sh", "-c", command) //nolint:gosec // from the project's documentation
	shell.Dir, shell.Env = dir, append(append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH")), env...)
	out, _ := shell.CombinedOutput()
	return string(out)
}

// blanks at the end of lines, as tables have them, are not shown.
var blanks = regexp.MustCompile(`(?m) +$`)

// Pages are the paths of the pages of docs that have a block which begins with the fence.
func Pages(t *testing.T, root, fence string) []string {
	t.Helper()
	var pages []string
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // ours
		if strings.Contains(string(content), "\n```"+fence+"\n") {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil || len(pages) == 0 {
		t.Fatalf("found %d pages with blocks of kind %q (%v)", len(pages), fence, err)
	}
	return pages
}

// ComparePage runs every command in the blocks of a page that begin with the fence, in their order. It compares the
// output with the block, after normal has removed from both what differs each time.
func ComparePage(t *testing.T, docs, fence string, run, normal func(string) string) {
	t.Helper()
	content, err := os.ReadFile(docs) //nolint:gosec // ours
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```" + regexp.QuoteMeta(fence) + "\n(.*?)^```\n")
	updated := string(content)
	for _, block := range blocks.FindAllStringSubmatch(updated, -1) {
		for _, step := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, shown, _ := strings.Cut(strings.TrimSuffix(step, "\n")+"\n", "\n")
			got := blanks.ReplaceAllString(run(command), "")
			if !*update && normal(got) != normal(shown) {
				t.Errorf("%s is wrong, or the command (-update takes what that prints): %s\nprints\n%s\nnot\n%s", docs, command, got, shown)
			}
			updated = strings.Replace(updated, "\n$ "+command+"\n"+shown, "\n$ "+command+"\n"+got, 1)
		}
	}
	if *update {
		if err := os.WriteFile(docs, []byte(updated), 0o644); err != nil { //nolint:gosec // as it was
			t.Fatal(err)
		}
	}
}
