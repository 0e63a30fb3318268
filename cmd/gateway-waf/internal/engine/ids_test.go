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

	"gateway/internal/must"
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
		content := must.Get(fs.ReadFile(coreruleset.FS, file))(t)
		for _, found := range regexp.MustCompile(`(?m)^[^#\n]*\bid:'?([0-9]+)`).FindAllSubmatch(content, -1) {
			id := must.Get(strconv.Atoi(string(found[1])))(t)
			if id >= 911000 && id <= 944999 { // as in the schema of excludedRules
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	want := must.Get(json.Marshal(slices.Compact(ids)))(t)
	const file = "../../../../internal/waf/crs.json"
	if *update {
		must.Do(t, os.WriteFile(file, append(want, '\n'), 0o600))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want)+"\n" {
		t.Errorf("%s is not current: run the test with -update (%v)", file, err)
	}
}
