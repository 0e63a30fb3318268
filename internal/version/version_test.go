package version

import (
	"runtime"
	"testing"
)

func TestVersion(t *testing.T) {
	version = "v1.2.3"
	t.Cleanup(func() { version = "" })
	if got, want := Line("gateway"), "gateway v1.2.3 "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n"; got != want {
		t.Errorf("a release says %q, want %q", got, want)
	}
	version = ""
	if got := String(); got == "" {
		t.Error("another build has no version")
	}
}
