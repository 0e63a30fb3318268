package render_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestGolden renders every testdata/NAME.in.yaml, and compares with NAME.cfg and NAME.map. TestGoldens of
// dataplanetest lets HAProxy check it.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs found (%v)", err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := render.Render(rendertest.Read(t, path).Input(t)).AllFiles()
			compareGolden(t, filepath.Join("testdata", name+".cfg"), files[ir.ConfigFile])
			compareGolden(t, filepath.Join("testdata", name+".map"), data(files))
			checkSectionNames(t, string(files[ir.ConfigFile]))
		})
	}
}

// checkSectionNames: HAProxy refuses a frontend and a backend of the same name.
func checkSectionNames(t *testing.T, content string) {
	t.Helper()
	seen := map[string]bool{}
	for _, section := range regexp.MustCompile(`(?m)^(?:frontend|backend) (\S+)`).FindAllStringSubmatch(content, -1) {
		if name := section[1]; seen[name] {
			t.Errorf("there are two sections with the name %s", name)
		}
		seen[section[1]] = true
	}
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatalf("failed to write the golden file: %v", err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("failed to read the golden file (-update writes it): %v", err)
	}
	if string(got) != string(want) {
		t.Errorf("%s differs (if it should, run the test with -update); got:\n%s", path, got)
	}
}

// data returns the content of all files but haproxy.cfg that have any, each after its name.
func data(files map[string][]byte) []byte {
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != ir.ConfigFile && len(files[name]) > 0 {
			all = append(append(all, "# "+name+"\n"...), append(files[name], '\n')...)
		}
	}
	return all
}
