// Command debian writes the CycloneDX list of the Debian packages that some files of this machine are from.
//
// Usage: debian FILE...
package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "debian: %v\n", err)
		os.Exit(1)
	}
}

func run(w io.Writer, files []string) error {
	var owners []string
	for _, file := range files {
		owner, err := owner(file)
		if err != nil {
			return err
		}
		owners = append(owners, owner)
	}
	slices.Sort(owners)
	components := []cdx.Component{}
	for _, name := range slices.Compact(owners) {
		version, err := exec.Command("dpkg-query", "--show", "--showformat=${Version} ${Architecture}", name).Output()
		if err != nil {
			return fmt.Errorf("failed to find the version of %s: %w", name, err)
		}
		components = append(components, component(name, string(version)))
	}
	bom := cdx.NewBOM()
	bom.Components = &components
	encoder := cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON)
	return encoder.SetPretty(true).Encode(bom)
}

// owner returns the package that a file is from.
func owner(file string) (string, error) {
	path, err := filepath.EvalSymlinks(file)
	if err != nil {
		return "", fmt.Errorf("failed to find %s: %w", file, err)
	}
	// Packages older than the merge of /lib into /usr/lib list the former.
	for _, name := range []string{path, strings.TrimPrefix(path, "/usr")} {
		if output, err := exec.Command("dpkg-query", "--search", name).Output(); err == nil {
			owner, _, _ := strings.Cut(string(output), ": ")
			return owner, nil
		}
	}
	return "", fmt.Errorf("failed to find the package of %s", path)
}

// component is a package, by its name, which may end with an architecture, and its version and architecture.
func component(name, version string) cdx.Component {
	name, _, _ = strings.Cut(name, ":")
	version, architecture, _ := strings.Cut(version, " ")
	url := fmt.Sprintf("pkg:deb/debian/%s@%s?arch=%s", name, strings.ReplaceAll(version, "+", "%2B"), architecture)
	return cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: url}
}
