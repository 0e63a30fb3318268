// Program release makes the files that a release is installed by, of those in artifacts: install.yaml, a kustomize
// base, a Helm chart, and the plugin's manifest for krew. It also says how they were made, and verifies a release.
// hack/release.sh runs it.
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

// The images in artifacts.
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
	// digest pins the operator's image; "": nothing does.
	digest string
	// platforms are what the plugin is built for.
	platforms []string
	// url is where the files of a release are, in a directory named after its version.
	url string
	// artifacts is the directory to read, output that to write, which has the archives of the plugin.
	artifacts, output string
}

// versionPattern is semantic versioning with a v, without build metadata, which no tag of an image may have.
var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	var r release
	flag.StringVar(&r.version, "version", "", "the `version`, as v0.1.0")
	flag.StringVar(&r.image, "image", "gateway", "`name` of the operator's image, without a tag")
	flag.StringVar(&r.haproxyImage, "haproxy-image", devHAProxy, "`image` that proxy pods run HAProxy from")
	flag.StringVar(&r.digest, "image-digest", "", "`digest` of the operator's image")
	flag.StringVar(&r.url, "url", "", "`URL` above the directories of releases")
	flag.StringVar(&r.artifacts, "artifacts", "artifacts", "`directory` to read")
	flag.StringVar(&r.output, "o", "dist", "`directory` to write, with the archives of the plugin")
	platforms := flag.String("platforms", "", "`platforms` of the plugin, separated by spaces")
	commit := flag.String("provenance", "", "write only how the files of the output were made, of this `commit`")
	echoDigest := flag.String("echo-digest", "", "`digest` of the image of the examples' backend")
	dir := flag.String("verify", "", "verify the release in this `directory`, and write nothing")
	key := flag.String("key", "", "`file` with the public key that signed it")
	signed := flag.Bool("signed", false, "verify only what was signed, without another build")
	flag.Parse()
	r.platforms = strings.Fields(*platforms)
	switch {
	case *dir != "" && *signed:
		_, _, err := verifySigned(*dir, *key)
		return err
	case *dir != "":
		return verify(*dir, *key)
	case *commit != "":
		digest := func(text string) map[string]string {
			return map[string]string{"sha256": strings.TrimPrefix(text, "sha256:")}
		}
		return r.writeProvenance(*commit, []subject{{r.image, digest(r.digest)}, {r.image + "-echo", digest(*echoDigest)}})
	}
	return r.make()
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
	return strings.NewReplacer(devImage, r.image+":"+r.version+r.pin(), devHAProxy, r.haproxyImage).Replace(text)
}

// pin is what follows the tag of the operator's image.
func (r *release) pin() string {
	if r.digest == "" {
		return ""
	}
	return "@" + r.digest
}
