// Program release makes the files that a release is installed by, of those in artifacts: install.yaml, a kustomize
// base, a Helm chart, and the plugin's manifest for krew. hack/release.sh runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// What artifacts has as images.
const (
	devImage   = "gateway:dev"
	devHAProxy = "haproxy:3.4"
)

// release is one.
type release struct {
	// version is with a v: v0.1.0.
	version string
	// image is the operator's, without a tag: that is the version.
	image, haproxyImage string
	// url is where the files of a release are, in a directory named after its version.
	url string
	// artifacts is the directory to read, output that to write, which has the archives of the plugin.
	artifacts, output string
}

// versionPattern is semantic versioning with a v, without build metadata, which no tag of an image may have.
var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "the `version`, as v0.1.0")
	flag.StringVar(&r.image, "image", "gateway", "`name` of the operator's image, without a tag")
	flag.StringVar(&r.haproxyImage, "haproxy-image", devHAProxy, "`image` that proxy pods run HAProxy from")
	flag.StringVar(&r.url, "url", "", "`URL` above the directories of releases")
	flag.StringVar(&r.artifacts, "artifacts", "artifacts", "`directory` to read")
	flag.StringVar(&r.output, "o", "dist", "`directory` to write, with the archives of the plugin")
	flag.Parse()
	if err := r.make(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func (r *release) make() error {
	if !versionPattern.MatchString(r.version) {
		return fmt.Errorf("the version %q is not like v0.1.0", r.version)
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	return errors.Join(r.writeInstall(files), r.writeKustomize(files), r.writeChart(files), r.writeKrew())
}

// write makes a file in the output.
func (r *release) write(name, content string) error {
	path := filepath.Join(r.output, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), 0o644)
}

// pinned is a text of artifacts with the images of the release.
func (r *release) pinned(text string) string {
	return strings.NewReplacer(devImage, r.image+":"+r.version, devHAProxy, r.haproxyImage).Replace(text)
}
