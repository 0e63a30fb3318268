package main

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// TestSignature reads a signature back, as cosign's specification describes it.
func TestSignature(t *testing.T) {
	dir := t.TempDir()
	payload, signature, output := filepath.Join(dir, "payload"), filepath.Join(dir, "signature"), filepath.Join(dir, "sig.tar")
	for path, content := range map[string]string{payload: "signed", signature: "raw"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeSignature(output, "registry.example.com/gateway:sha256-1.sig", payload, signature); err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(unpack(t, output))
	if err != nil {
		t.Fatal(err)
	}
	index, err := top.IndexManifest()
	if err != nil || len(index.Manifests) != 1 || index.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "sha256-1.sig" {
		t.Fatalf("got %+v, %v", index, err)
	}
	img, err := top.Image(index.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := img.Manifest()
	if err != nil || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != "application/vnd.dev.cosign.simplesigning.v1+json" ||
		manifest.Layers[0].Annotations["dev.cosignproject.cosign/signature"] != base64.StdEncoding.EncodeToString([]byte("raw")) {
		t.Errorf("got %+v, %v", manifest, err)
	}
}
