package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/haproxy/config"
	"gateway/internal/haproxy/haproxytest"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestGolden renders every testdata/NAME.in.yaml, compares with NAME.cfg and NAME.map, and lets HAProxy check it.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs found (%v)", err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := readWorld(t, path).input(t)
			files := config.Render(in).Files("example")
			compareGolden(t, filepath.Join("testdata", name+".cfg"), files[config.ConfigFile])
			compareGolden(t, filepath.Join("testdata", name+".map"), files[config.MapFile])

			in.Paths = haproxytest.NewPaths(t)
			if err := haproxytest.Check(t, in.Paths, config.Render(in).Files("example")); err != nil {
				t.Error(err)
			}
		})
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
