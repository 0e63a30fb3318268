// Package docs tests what the documents say about the project.
package docs

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// project is the project's tree. The tests open all files through it: go test then knows them, and runs the tests again
// when one has changed. It does not know files that are relative to a directory that TestMain changes to.
var project = os.DirFS("..")

// atTheTop are the documents that are not in docs.
var atTheTop = []string{"README.md", "README.zh-CN.md", "CONTRIBUTING.md", "SECURITY.md"}

// documents are the paths of those in docs.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	err := fs.WalkDir(project, "docs", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".md" {
			all = append(all, name)
		}
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("found %d documents (%v)", len(all), err)
	}
	return all
}

// TestDocumentsNameTests: where a document links to a test, the test exists.
func TestDocumentsNameTests(t *testing.T) {
	link := regexp.MustCompile(`\[((?:Test|Fuzz)[A-Za-z0-9]+)\]\(([^)]+)\)`)
	links := 0
	for _, document := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(read(t, document), -1) {
			links++
			code, err := fs.ReadFile(project, path.Join(path.Dir(document), match[2]))
			if err != nil {
				t.Errorf("%s: %v", document, err)
			} else if !strings.Contains(string(code), "\nfunc "+match[1]+"(") {
				t.Errorf("%s: %s has no %s", document, match[2], match[1])
			}
		}
	}
	if links < 40 {
		t.Errorf("found only %d links", links)
	}
}

// TestDocumentsLinkToFiles: what documents link to in this project exists.
func TestDocumentsLinkToFiles(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	links := 0
	for _, document := range append(documents(t), atTheTop...) {
		if document == "docs/reference/api.md" {
			continue // it is generated, and full of regular expressions
		}
		for _, match := range link.FindAllStringSubmatch(prose(t, document), -1) {
			links++
			if _, err := fs.Stat(project, path.Join(path.Dir(document), match[1])); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links", links)
	}
}

// TestDocumentsLinkToHeadings: where a document links to a heading, of its own or of another document, there is one.
func TestDocumentsLinkToHeadings(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)#([A-Za-z0-9_-]+)\)`)
	links := 0
	for _, document := range append(documents(t), atTheTop...) {
		for _, match := range link.FindAllStringSubmatch(prose(t, document), -1) {
			links++
			target := document
			if match[1] != "" {
				target = path.Join(path.Dir(document), match[1])
			}
			if !slices.Contains(anchors(read(t, target)), match[2]) {
				t.Errorf("%s: %s has no heading for #%s", document, target, match[2])
			}
		}
	}
	if links < 100 {
		t.Errorf("found only %d links", links)
	}
}

// anchors are the names by which links find the headings of a document, as GitHub makes them.
func anchors(document string) []string {
	heading, dropped := regexp.MustCompile(`(?m)^#+ +(.*)$`), regexp.MustCompile(`[^a-z0-9 _-]`)
	var all []string
	for _, match := range heading.FindAllStringSubmatch(document, -1) {
		name := dropped.ReplaceAllString(strings.ToLower(match[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// TestDocumentsAreWrapped: lines of text have up to 120 characters. Tables, blocks and pictures have lines of their
// own.
func TestDocumentsAreWrapped(t *testing.T) {
	block := regexp.MustCompile("(?ms)^```.*?^```$|^    [^\n]*$|^[|!][^\n]*$")
	for _, document := range append(documents(t), atTheTop...) {
		if document == "docs/reference/api.md" {
			continue // it is generated
		}
		for line := range strings.Lines(block.ReplaceAllString(read(t, document), "")) {
			if line = strings.TrimSuffix(line, "\n"); utf8.RuneCountInString(line) > 120 {
				t.Errorf("%s: too long: %s", document, line)
			}
		}
	}
}

// TestClientsDocumentQuotes: the Go code in docs/how-to/clients.md is the examples', but for the indentation.
func TestClientsDocumentQuotes(t *testing.T) {
	indentation := regexp.MustCompile(`(?m)^\t+`)
	var code strings.Builder
	for _, pattern := range []string{"examples/clients/*/*.go", "examples/clients/internal/*/*.go"} {
		files, err := fs.Glob(project, pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			code.WriteString(indentation.ReplaceAllString(read(t, file), ""))
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(read(t, "docs/how-to/clients.md"), -1)
	if len(blocks) < 4 {
		t.Errorf("found only %d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), indentation.ReplaceAllString(block[1], "")) {
			t.Errorf("no example has\n%s", block[1])
		}
	}
}

// prose returns a document without its blocks of code. A link in one, as in a change of another file, is not its own.
func prose(t *testing.T, file string) string {
	t.Helper()
	return regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(read(t, file), "")
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := fs.ReadFile(project, file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestConditionsAreDocumented: docs/reference/conditions.md has a row for each reason of a condition or an event, and
// no other.
func TestConditionsAreDocumented(t *testing.T) {
	reason := regexp.MustCompile(`(?m)^\t(?:Reason|event)\w+ += "(\w+)"$`)
	known := []string{"as above"}
	for _, file := range []string{"internal/operator/status/conditions.go", "controller.go"} {
		found := reason.FindAllStringSubmatch(read(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s has no reasons", file)
		}
		for _, match := range found {
			known = append(known, match[1])
		}
	}
	compare(t, "docs/reference/conditions.md", "reason", known)
}

// TestAccessLogIsDocumented: docs/reference/access-log.md has a row for each key of a line, and no other.
func TestAccessLogIsDocumented(t *testing.T) {
	var known []string
	for _, format := range regexp.MustCompile(`log-format .*`).FindAllString(read(t, "internal/haproxy/render/testdata/shadow.cfg"), -1) {
		for _, match := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(format, -1) {
			known = append(known, match[1])
		}
	}
	compare(t, "docs/reference/access-log.md", "key", known)
}

// TestMetricsAreDocumented: docs/reference/metrics.md has a row for each metric of the programs, those of HAProxy that
// it picks aside, and one for each alert, and no other.
func TestMetricsAreDocumented(t *testing.T) {
	const document = "docs/reference/metrics.md"
	known := regexp.MustCompile(`haproxy_\w+`).FindAllString(read(t, document), -1)
	for _, file := range []string{"internal/operator/metrics/metrics.go", "internal/agent/metrics.go", "internal/requestmetrics/requestmetrics.go", "internal/tracing/metrics.go", "internal/health/version.go"} {
		found := regexp.MustCompile(`"(gateway_\w+)"`).FindAllStringSubmatch(read(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s has no metrics", file)
		}
		for _, match := range found {
			known = append(known, match[1])
		}
	}
	compare(t, document, "metric", known)
	var alerts []string
	for _, match := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(read(t, "artifacts/monitoring/rules.yaml"), -1) {
		alerts = append(alerts, match[1])
	}
	compare(t, document, "alert", alerts)
}

// compare compares the first column of a document's tables that are headed so with what there is.
func compare(t *testing.T, document, head string, known []string) {
	t.Helper()
	var documented []string
	for _, table := range strings.Split(read(t, document), "\n\n") {
		rows, of := strings.CutPrefix(table, "| "+head+" |")
		if !of {
			continue
		}
		for _, row := range strings.Split(strings.TrimSpace(rows), "\n")[2:] {
			for name := range strings.SplitSeq(strings.Split(row, "|")[1], ",") {
				documented = append(documented, strings.Trim(name, " `"))
			}
		}
	}
	if len(documented) == 0 {
		t.Errorf("%s has no rows with the head %s", document, head)
	}
	slices.Sort(documented)
	slices.Sort(known)
	if got, want := slices.Compact(documented), slices.Compact(known); !slices.Equal(got, want) {
		t.Errorf("%s has rows for\n%s\nnot\n%s", document, got, want)
	}
}

// TestTranslation: the Chinese README has the commands, objects, links and rows of the English one.
func TestTranslation(t *testing.T) {
	english, chinese := read(t, "README.md"), read(t, "README.zh-CN.md")
	comment := regexp.MustCompile(` +# .*`)
	for name, part := range map[string]*regexp.Regexp{
		"blocks":   regexp.MustCompile("(?ms)^```(?:sh|yaml)\n.*?^```$"),
		"links":    regexp.MustCompile(`\]\([^)]+\)`),
		"headings": regexp.MustCompile(`(?m)^#+ `),
		"rows":     regexp.MustCompile(`(?m)^\|`),
		"code":     regexp.MustCompile("`[a-z][^`\n]*`"),
	} {
		want := strings.ReplaceAll(strings.Join(part.FindAllString(english, -1), "\n"), "](README.zh-CN.md)", "](README.md)")
		got := strings.Join(part.FindAllString(chinese, -1), "\n")
		if got, want = comment.ReplaceAllString(got, ""), comment.ReplaceAllString(want, ""); got != want {
			t.Errorf("%s of README.zh-CN.md are\n%s\nnot\n%s", name, got, want)
		}
	}
}

// TestFeaturePages: each page of a feature has the same parts in the same order, and each example is on one of them.
// What is refused is on a page only if a user would not learn it from the API server.
func TestFeaturePages(t *testing.T) {
	pages, err := fs.Glob(project, "docs/features/*.md")
	if err != nil || len(pages) < 30 {
		t.Fatalf("found %d pages (%v)", len(pages), err)
	}
	form := regexp.MustCompile("(?s)^# [^\n]+\n\n[A-Z].*\n```yaml\n.*\nOur own kind: \\[.*\n## Limits\n")
	index, all := read(t, "docs/features/README.md"), ""
	for _, page := range pages {
		if path.Base(page) == "README.md" {
			continue
		}
		text := read(t, page)
		all += text
		_, refused, _ := strings.Cut(text, "\n## What is refused\n")
		refused, _, _ = strings.Cut(refused, "\n## Limits\n")
		if !form.MatchString(text) || strings.Contains(refused, "\n## ") {
			t.Errorf("%s has another form", page)
		}
		if !strings.Contains(index, "]("+path.Base(page)+")") {
			t.Errorf("docs/features/README.md does not link to %s", page)
		}
	}
	examples, err := fs.Glob(project, "artifacts/examples/*.yaml")
	if err != nil || len(examples) < 30 {
		t.Fatalf("found %d examples (%v)", len(examples), err)
	}
	for _, example := range examples {
		if name := path.Base(example); name != "shop.yaml" && !strings.Contains(all, "artifacts/examples/"+name+")") {
			t.Errorf("no page of docs/features links to %s", name)
		}
	}
}
