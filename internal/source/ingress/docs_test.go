package ingress

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of the page instead of comparing with them")

const page = "../../../docs/reference/ingress-nginx.md"

// TestPage: the tables of the page are those of the package, each from its mark to the next heading or the end.
func TestPage(t *testing.T) {
	content, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
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

func table(column string, rows []Row) string {
	counts := map[Class]int{}
	var text, summary strings.Builder
	fmt.Fprintf(&text, "| %s | | here |\n|---|---|---|\n", column)
	for _, row := range rows {
		names := strings.Fields(row.Names)
		counts[row.Class] += len(names)
		fmt.Fprintf(&text, "| `%s` | %s | %s |\n", strings.Join(names, "`, `"), row.Class, strings.ReplaceAll(row.Text, "|", `\|`))
	}
	summary.WriteString("| | number |\n|---|---|\n")
	for _, class := range []Class{Carried, Differs, Harmless, Closed, Lost} {
		fmt.Fprintf(&summary, "| %s | %d |\n", class, counts[class])
	}
	return summary.String() + "\n" + text.String()
}
