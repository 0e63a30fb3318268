// Package version says which version of the project a program was built from.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by make release: -ldflags="-X gateway/internal/version.version=v0.1.0".
var version string

// String is the version of the release or, in another build, Go's version of the main module.
func String() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Line is what -version prints of a program: the version, and what it was built with and for.
func Line(program string) string {
	return fmt.Sprintf("%s %s %s %s/%s\n", program, String(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
