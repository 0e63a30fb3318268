package engine_test

import (
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
)

var update = flag.Bool("update", false, "write the IDs of the Core Rule Set")

// TestIDs: the operator, which has no Core Rule Set, knows the IDs of the one here.
func TestIDs(t *testing.T) {
	files, err := fs.Glob(coreruleset.FS, "@owasp_crs/REQUEST-*.conf")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var ids []int
	for _, file := range files {
		content, err := fs.ReadFile(coreruleset.FS, file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^[^#\n]*\bid:'?([0-9]+)`).FindAllSubmatch(content, -1) {
			id, err := strconv.Atoi(string(found[1]))
			if err != nil {
				t.Fatal(err)
			}
			if id >= 911000 && id <= 944999 { // as in the schema of excludedRules
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	want, err := json.Marshal(slices.Compact(ids))
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../../../internal/waf/crs.json"
	if *update {
		if err := os.WriteFile(file, append(want, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want)+"\n" {
		t.Errorf("%s is not current: run the test with -update (%v)", file, err)
	}
}
