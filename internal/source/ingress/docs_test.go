package ingress

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gateway/internal/must"
)

var update = flag.Bool("update", false, "write the tables of the page instead of comparing with them")

const page = "../../../docs/reference/ingress-nginx.md"

// TestPage: the tables of the page equal the package's, each from its mark to the next heading or the end.
func TestPage(t *testing.T) {
	content := must.Get(os.ReadFile(page))(t)
	text := string(content)
	for _, part := range []struct {
		heading, column string
		rows            []Row
	}{{"## Annotations\n", "annotation", Annotations}, {"## Keys of the ConfigMap\n", "key", Keys}} {
		before, after, ok := strings.Cut(text, part.heading)
		if !ok {
			t.Fatalf("the page has no %q", part.heading)
		}
		rest := ""
		if i := strings.Index(after, "\n## "); i >= 0 {
			rest = after[i:]
		}
		text = before + part.heading + "\n" + table(part.column, part.rows) + rest
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // as the others
			t.Fatal(err)
		}
	} else if text != string(content) {
		t.Error("the page has other tables: run the test with -update")
	}
}

// TestPageOfFlags: its table equals the package's.
func TestPageOfFlags(t *testing.T) {
	const page = "../../../docs/reference/ingress-nginx-flags.md"
	content := must.Get(os.ReadFile(page))(t)
	const head = "| flag | here |\n|---|---|\n"
	before, after, _ := strings.Cut(string(content), head)
	_, after, _ = strings.Cut(after, "\n\n")
	var rows strings.Builder
	for _, flag := range Flags {
		fmt.Fprintf(&rows, "| `--%s` | %s |\n", strings.ReplaceAll(flag.Names, " ", "`, `--"), flag.Text)
	}
	text := before + head + rows.String() + "\n" + after
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // as the others
			t.Fatal(err)
		}
	} else if text != string(content) {
		t.Error("the page has another table: run the test with -update")
	}
}

// TestEveryFlag: the table has all flags of testdata/flags.txt, from the documentation and source of ingress-nginx.
func TestEveryFlag(t *testing.T) {
	content := must.Get(os.ReadFile("testdata/flags.txt"))(t)
	var names []string
	for _, flag := range Flags {
		names = append(names, strings.Fields(flag.Names)...)
	}
	if slices.Sort(names); !slices.Equal(names, strings.Fields(string(content))) {
		t.Errorf("the table has\n%s\nand the documentation\n%s", names, strings.Fields(string(content)))
	}
}

// table has the rows of each class under a heading of its own. Those that become the same are one row.
func table(column string, rows []Row) string {
	var text strings.Builder
	for _, class := range []Class{Carried, Differs, Closed, Lost, Harmless} {
		names, count := map[string][]string{}, 0
		var texts []string
		for _, row := range rows {
			if row.Class == class {
				if names[row.Text] == nil {
					texts = append(texts, row.Text)
				}
				names[row.Text] = append(names[row.Text], strings.Fields(row.Names)...)
				count += len(strings.Fields(row.Names))
			}
		}
		fmt.Fprintf(&text, "### %s%s: %d\n\n| %s | here |\n|---|---|\n", strings.ToUpper(string(class[:1])), class[1:], count, column)
		for _, become := range texts {
			fmt.Fprintf(&text, "| `%s` | %s |\n", strings.Join(names[become], "`, `"), strings.ReplaceAll(become, "|", `\|`))
		}
		text.WriteString("\n")
	}
	return strings.TrimSuffix(text.String(), "\n")
}
