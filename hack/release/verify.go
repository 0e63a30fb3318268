package main

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// verify returns an error unless the files of a release are those that the owner of a key signed, and what a build of
// the sources with the tag of the version makes.
func verify(dir, key string) error {
	sums, made, err := verifySigned(dir, key)
	if err != nil {
		return err
	}
	version := made.BuildDefinition.ExternalParameters.Version
	fmt.Printf("%s: %d files are what the key signed\n", version, len(sums))
	rebuilt, err := rebuild(made)
	if err != nil {
		return fmt.Errorf("failed to make %s again: %w", version, err)
	}
	if err := compare(sums, rebuilt); err != nil {
		return err
	}
	fmt.Printf("%s: a build of the sources here makes the same\n", version)
	return nil
}

// verifySigned checks the files by the key alone. It returns their digests by name, and how the release says that it
// was made.
func verifySigned(dir, key string) (map[string]string, *predicate, error) {
	content, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return nil, nil, err
	}
	if err := verifySignature(content, filepath.Join(dir, sumsFile+".sig"), key); err != nil {
		return nil, nil, err
	}
	sums, err := parseSums(content)
	if err != nil {
		return nil, nil, err
	}
	if err := verifyFiles(dir, sums); err != nil {
		return nil, nil, err
	}
	made, err := readProvenance(dir, sums)
	return sums, made, err
}

// verifySignature checks the content by the signature and the public key in two files.
func verifySignature(content []byte, signature, key string) error {
	encoded, err := os.ReadFile(signature)
	if err != nil {
		return err
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(string(encoded)))
	if err != nil {
		return fmt.Errorf("%s is no signature: %w", filepath.Base(signature), err)
	}
	text, err := os.ReadFile(key)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("%s has no public key in PEM", key)
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("failed to read the key %s: %w", key, err)
	}
	public, ok := parsed.(*ecdsa.PublicKey)
	if !ok {
		return fmt.Errorf("%s is no ECDSA key", key)
	}
	if digest := sha256.Sum256(content); !ecdsa.VerifyASN1(public, digest[:], raw) {
		return fmt.Errorf("the key did not sign this %s: it or %s.sig was changed, or another key signed it", sumsFile, sumsFile)
	}
	return nil
}

// parseSums reads what sha256sum writes.
func parseSums(content []byte) (map[string]string, error) {
	sums := map[string]string{}
	for line := range strings.Lines(string(content)) {
		digest, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		if !ok || name != filepath.Base(name) {
			return nil, fmt.Errorf("%s has the line %q", sumsFile, line)
		}
		sums[name] = digest
	}
	return sums, nil
}

// verifyFiles returns an error if a file is not what was signed, or if there is another one.
func verifyFiles(dir string, sums map[string]string) error {
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if digest, err := digestOf(filepath.Join(dir, name)); err != nil {
			wrong = append(wrong, err)
		} else if digest != sums[name] {
			wrong = append(wrong, fmt.Errorf("%s is not what the key signed: its digest is %s, not %s", name, digest, sums[name]))
		}
	}
	entries, err := os.ReadDir(dir)
	wrong = append(wrong, err)
	for _, entry := range entries {
		if name := entry.Name(); sums[name] == "" && name != sumsFile && name != sumsFile+".sig" {
			wrong = append(wrong, fmt.Errorf("%s is not in %s: nobody signed it", name, sumsFile))
		}
	}
	return errors.Join(wrong...)
}

// What parameters may be: a shell and git get them, and the release may be of somebody else.
var (
	platformPattern  = regexp.MustCompile(`^[a-z0-9]+-[a-z0-9]+$`)
	parameterPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9./:@_-]*$`)
	commitPattern    = regexp.MustCompile(`^[0-9a-f]{40,64}$`)
)

// readProvenance returns how a release says that it was made.
func readProvenance(dir string, sums map[string]string) (*predicate, error) {
	for name := range sums {
		version, ok := strings.CutSuffix(strings.TrimPrefix(name, "gateway-"), ".provenance.json")
		if !ok || name != provenanceFile(version) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		var s statement
		if err := json.Unmarshal(content, &s); err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", name, err)
		}
		p := &s.Predicate.BuildDefinition.ExternalParameters
		values := []string{p.Image, p.HAProxyImage, p.URL}
		if p.Version != version || !versionPattern.MatchString(version) || !commitPattern.MatchString(s.Predicate.commit()) ||
			slices.ContainsFunc(values, func(v string) bool { return !parameterPattern.MatchString(v) }) ||
			slices.ContainsFunc(p.Platforms, func(v string) bool { return !platformPattern.MatchString(v) }) {
			return nil, fmt.Errorf("%s has parameters that no release has", name)
		}
		return &s.Predicate, nil
	}
	return nil, errors.New("the release has no provenance")
}

// commit is the sources' commit.
func (p *predicate) commit() string {
	for _, dependency := range p.BuildDefinition.Dependencies {
		if commit := dependency.Digest["gitCommit"]; commit != "" {
			return commit
		}
	}
	return ""
}

// rebuild makes a release once more, of the commit with its tag, apart from the tree. It returns the digests.
func rebuild(made *predicate) (map[string]string, error) {
	p := made.BuildDefinition.ExternalParameters
	tagged, err := exec.Command("git", "rev-parse", "--verify", "--end-of-options", "refs/tags/"+p.Version+"^{commit}").Output()
	if err != nil {
		return nil, fmt.Errorf("there is no tag %s here: fetch it, and verify it with git tag -v", p.Version)
	}
	if commit := strings.TrimSpace(string(tagged)); commit != made.commit() {
		return nil, fmt.Errorf("it was made of commit %s, and the tag %s is %s", made.commit(), p.Version, commit)
	}
	dir, err := os.MkdirTemp("", "verify-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	tree := filepath.Join(dir, "tree")
	if out, err := exec.Command("git", "worktree", "add", "--detach", tree, made.commit()).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	defer func() { _ = exec.Command("git", "worktree", "remove", "--force", tree).Run() }()
	build := exec.Command("hack/release.sh", p.Version)
	build.Dir, build.Stdout, build.Stderr = tree, os.Stderr, os.Stderr
	build.Env = append(os.Environ(), "RELEASE_IMAGE="+p.Image, "HAPROXY_IMG="+p.HAProxyImage, "RELEASE_URL="+p.URL,
		"RELEASE_PLATFORMS="+strings.Join(p.Platforms, " "), "RELEASE_KEY=")
	if err := build.Run(); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(tree, "dist", sumsFile))
	if err != nil {
		return nil, err
	}
	return parseSums(content)
}

// compare returns an error if two builds differ, but for signatures of images, which only the owner of the key makes.
func compare(release, rebuilt map[string]string) error {
	isSignature := func(name, _ string) bool { return strings.HasSuffix(name, signatures) }
	all := maps.Clone(release)
	maps.Copy(all, rebuilt)
	maps.DeleteFunc(all, isSignature)
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if release[name] != rebuilt[name] {
			wrong = append(wrong, fmt.Errorf("%s: the release has the digest %q, a build of the sources here %q", name, release[name], rebuilt[name]))
		}
	}
	return errors.Join(wrong...)
}
