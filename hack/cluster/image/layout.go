package main

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// writeLayout writes one image for several architectures, as an archive of an OCI image layout, and
// prints its digest.
func writeLayout(output, tag string, config v1.Config, user uint, args, architectures []string) error {
	ref, err := name.NewTag(tag)
	if err != nil {
		return fmt.Errorf("failed to parse image name: %w", err)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range architectures {
		own := make([]string, len(args))
		for i, arg := range args {
			own[i] = strings.ReplaceAll(arg, "{arch}", arch)
		}
		files, err := collect(own, false)
		if err != nil {
			return err
		}
		img, err := build(files, user, config, arch, gzip.BestCompression)
		if err != nil {
			return err
		}
		img = mutate.ConfigMediaType(mutate.MediaType(img, types.OCIManifestSchema1), types.OCIConfigJSON)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest) // by which a registry has it
	return writeArchive(output, ref, func(path layout.Path, options ...layout.Option) error { return path.AppendIndex(index, options...) })
}

// writeArchive writes an archive of an OCI image layout, of what appendTo adds, whole or not at all.
func writeArchive(output string, ref name.Tag, appendTo func(layout.Path, ...layout.Option) error) error {
	return whole(output, func(dir, unfinished string) error {
		path, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
		if err != nil {
			return err
		}
		// The first is what skopeo and crane look for, the second what containerd does.
		err = appendTo(path, layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": ref.TagStr(), "io.containerd.image.name": strings.TrimPrefix(ref.Name(), "index."),
		}))
		if err != nil {
			return err
		}
		return pack(unfinished, string(path))
	})
}

// pack writes an archive of a directory's files, in the order of their names.
func pack(output, dir string) error {
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	defer file.Close()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, dir+"/"), Mode: 0o644, Size: int64(len(content)), ModTime: epoch,
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return file.Close()
}
