package main

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// payloadType and signatureKey are of cosign's format: an image of one layer, which is what was signed, with the
// signature in an annotation. It belongs beside the signed image, as the tag sha256-DIGEST.sig.
const (
	payloadType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureKey = "dev.cosignproject.cosign/signature"
)

// writeSignature writes the signature of an image as an archive of an OCI image layout, of the files with what was
// signed and with the signature.
func writeSignature(output, tag, payload, signature string) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("failed to parse image name: %w", err)
	}
	content, err := os.ReadFile(payload)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(signature)
	if err != nil {
		return err
	}
	img, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:       static.NewLayer(content, payloadType),
		Annotations: map[string]string{signatureKey: base64.StdEncoding.EncodeToString(raw)},
	})
	if err != nil {
		return fmt.Errorf("failed to make signature: %w", err)
	}
	img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
	return writeArchive(output, ref, func(path layout.Path, options ...layout.Option) error { return path.AppendImage(img, options...) })
}
