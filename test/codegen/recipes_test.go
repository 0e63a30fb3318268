package codegen

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

// recipes are the pages of docs/maintainers/recipes, each with what has to be there and what is checked afterwards.
var recipes = map[string]struct {
	prepare, check func(t *testing.T, r *recipe)
	// editsOnly reports whether nothing is compiled.
	editsOnly bool
}{
	"new-field.md":   {check: checkNewField, editsOnly: !testtier.All},
	"new-filter.md":  {check: checkNewFilter, editsOnly: !testtier.All},
	"new-kind.md":    {check: checkNewKind, editsOnly: !testtier.All},
	"new-version.md": {prepare: prepareWebhook, check: checkNewVersion, editsOnly: !testtier.All},
}

// TestRecipes follows the pages of docs/maintainers/recipes to the letter, each in a copy of the tree: files are made
// and changed as its blocks say, its commands run. Without the tag slow, the pages have to fit the code, and what
// they make is not compiled.
func TestRecipes(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob(filepath.Join(testbuild.MustRoot(t), "docs", "maintainers", "recipes", "*.md"))
	if err != nil || len(pages) != len(recipes) {
		t.Fatalf("found %d pages (%v), want %d", len(pages), err, len(recipes))
	}
	for _, page := range pages {
		name := filepath.Base(page)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := must.Get(os.ReadFile(page))(t)
			r := newRecipe(t)
			defer r.leaveCluster(t)
			if prepare := recipes[name].prepare; prepare != nil {
				prepare(t, r)
			}
			for _, block := range blocks(string(text)) {
				if recipes[name].editsOnly && block.kind == "sh" && !edits.MatchString(block.text) {
					continue
				}
				if err := r.follow(t, block); err != nil {
					t.Fatalf("%v, in the block\n%s", err, block.text)
				}
			}
			if !recipes[name].editsOnly {
				recipes[name].check(t, r)
			}
		})
	}
}

// recipe is a page on its way.
type recipe struct {
	// tree is the copy it is followed in.
	tree string
	// env is for its commands.
	env []string
	// hasCluster reports whether the API server has the copy's CRDs.
	hasCluster bool
}

// cluster is the API server, for one recipe at a time.
var cluster sync.Mutex

func newRecipe(t *testing.T) *recipe {
	t.Helper()
	assets := must.Get(testenv.Assets())(t)
	return &recipe{tree: copyTree(t), env: append(slices.Clone(inCopy), "KUBECONFIG="+server.Kubeconfig, "PATH="+assets+":"+os.Getenv("PATH"))}
}

type block struct{ kind, text string }

// edits matches commands that change files. All others compile something, or use what was compiled.
var edits = regexp.MustCompile("^(cp|rm|sed) ")

// blocks returns the fenced blocks of a page.
func blocks(page string) []block {
	var all []block
	for _, match := range regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		all = append(all, block{match[1], match[2]})
	}
	return all
}

// follow does what a block says. From the first "make install" on, a recipe has the API server for itself.
func (r *recipe) follow(t *testing.T, b block) error {
	t.Helper()
	switch b.kind {
	case "sh":
		if strings.Contains(b.text, "make install") {
			r.enterCluster()
		}
		testenv.Run(t, r.tree, r.env, "bash", "-euo", "pipefail", "-c", b.text)
		return nil
	case "diff":
		return r.change(b.text)
	case "go", "yaml":
		return r.create(b.text)
	}
	return fmt.Errorf("nobody knows what to do with a block of %q", b.kind)
}

// change applies a difference, which begins with the file's name. Its hunks have no line numbers: what a hunk leaves
// and what it removes is in the file exactly once.
func (r *recipe) change(difference string) error {
	head, hunks, _ := strings.Cut(difference, "@@\n")
	_, name, found := strings.Cut(head, "\n+++ b/")
	if !found {
		return errors.New("the block does not name its file")
	}
	path := filepath.Join(r.tree, strings.TrimSpace(name))
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text := "\n" + string(content)
	for hunk := range strings.SplitSeq(hunks, "@@\n") {
		before, after := "\n", "\n"
		for line := range strings.Lines(hunk) {
			if line == "\n" {
				line = " \n" // an editor has cut it
			}
			if line[0] != '+' {
				before += line[1:]
			}
			if line[0] != '-' {
				after += line[1:]
			}
		}
		if first := strings.Index(text, before); first < 0 || first != strings.LastIndex(text, before) {
			return fmt.Errorf("%s has this not at all or more than once:%s", path, before)
		}
		text = strings.Replace(text, before, after, 1)
	}
	return os.WriteFile(path, []byte(text[1:]), 0o600)
}

// create makes a file, whose name the first line says in a comment.
func (r *recipe) create(text string) error {
	label, content, _ := strings.Cut(text, "\n")
	words := strings.Fields(label)
	if len(words) != 2 || words[0] != "//" && words[0] != "#" {
		return errors.New("the block does not name its file")
	}
	path := filepath.Join(r.tree, words[1])
	if _, err := os.Stat(path); err == nil {
		return fmt.Errorf("%s exists", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o600)
}

// enterCluster waits until no other recipe uses the API server.
func (r *recipe) enterCluster() {
	if !r.hasCluster {
		cluster.Lock()
		r.hasCluster = true
	}
}

// leaveCluster takes the copy's CRDs, with all objects, from the API server.
func (r *recipe) leaveCluster(t *testing.T) {
	t.Helper()
	if r.hasCluster {
		defer cluster.Unlock()
		server.DeleteCRDs(t, "-f", filepath.Join(r.tree, "artifacts/crd"))
	}
}
