package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// statement is what in-toto calls a Statement, with SLSA's provenance. The same sources and parameters give the same.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

// subject is a file of the release, or an image.
type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType          string     `json:"buildType"`
		ExternalParameters parameters `json:"externalParameters"`
		Dependencies       []resource `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// parameters are the variables of hack/release.sh.
type parameters struct {
	Version      string   `json:"version"`
	Image        string   `json:"image"`
	HAProxyImage string   `json:"haproxyImage"`
	URL          string   `json:"url"`
	Platforms    []string `json:"platforms"`
}

type resource struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest,omitempty"`
}

const (
	sumsFile = "SHA256SUMS"
	// signatures is how the names of archives with signatures of images end: no other build makes the same.
	signatures = ".sig.oci.tar"
	// buildType names how a release is made, and who made it: whoever runs the script of the repository.
	buildType = "/hack/release.sh"
)

// provenanceFile is the name of the statement.
func provenanceFile(version string) string { return "gateway-" + version + ".provenance.json" }

// writeProvenance writes how the files of the output were made: of which commit, with which parameters.
func (r *release) writeProvenance(commit string, images []subject) error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1", Subject: images}
	entries, err := os.ReadDir(r.output)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); name != provenanceFile(r.version) && !strings.HasPrefix(name, sumsFile) && !strings.HasSuffix(name, signatures) {
			digest, err := digestOf(filepath.Join(r.output, name))
			if err != nil {
				return err
			}
			s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": digest}})
		}
	}
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = r.url + buildType
	definition.ExternalParameters = parameters{r.version, r.image, r.haproxyImage, r.url, r.platforms}
	definition.Dependencies = []resource{{"sources", map[string]string{"gitCommit": commit}}, {Name: runtime.Version()}}
	s.Predicate.RunDetails.Builder.ID = r.url + buildType
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return r.write(provenanceFile(r.version), string(content)+"\n")
}

// digestOf returns the SHA-256 of a file.
func digestOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:]), err
}
