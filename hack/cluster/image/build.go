package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// epoch stands for every time in an image, so that when it was built does not
// change it.
var epoch = time.Unix(0, 0).UTC()

// build returns an image with one layer: files, by path in the image, and the
// accounts of root and user.
func build(files map[string]string, user uint, config v1.Config, arch string, compression int) (v1.Image, error) {
	content, err := archive(files, user)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithCompressionLevel(compression))
	if err != nil {
		return nil, fmt.Errorf("failed to make layer: %w", err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("failed to add layer: %w", err)
	}
	configFile, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("failed to read image configuration: %w", err)
	}
	configFile = configFile.DeepCopy()
	configFile.OS = "linux"
	configFile.Architecture = arch
	configFile.Created = v1.Time{Time: epoch}
	configFile.Config = config
	img, err = mutate.ConfigFile(img, configFile)
	if err != nil {
		return nil, fmt.Errorf("failed to set image configuration: %w", err)
	}
	return img, nil
}

// archive returns the layer's tar: files sorted by path, each after the
// directories it is in, then the accounts.
func archive(files map[string]string, user uint) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	made := map[string]bool{"/": true}
	for _, target := range slices.Sorted(maps.Keys(files)) {
		content, mode, err := read(files[target])
		if err != nil {
			return nil, err
		}
		if err := writeFile(w, made, target, mode, content); err != nil {
			return nil, err
		}
	}
	for _, target := range []string{"/etc/group", "/etc/passwd"} {
		if files[target] != "" {
			continue
		}
		if err := writeFile(w, made, target, 0o644, accounts(target, user)); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("failed to end archive: %w", err)
	}
	return buffer.Bytes(), nil
}

// read follows symbolic links: the image has the content under the name asked for.
func read(source string) ([]byte, os.FileMode, error) {
	info, err := os.Stat(source)
	if err != nil {
		return nil, 0, fmt.Errorf("failed to read file: %w", err)
	}
	content, err := os.ReadFile(source)
	if err != nil {
		return nil, 0, fmt.Errorf("failed to read file: %w", err)
	}
	return content, info.Mode().Perm(), nil
}

// writeFile adds one file, and before it the directories above it that are not
// in made yet. Everything belongs to root.
func writeFile(w *tar.Writer, made map[string]bool, target string, mode os.FileMode, content []byte) error {
	for _, dir := range missingDirectories(made, path.Dir(target)) {
		made[dir] = true
		header := &tar.Header{Typeflag: tar.TypeDir, Name: dir[1:] + "/", Mode: 0o755, ModTime: epoch}
		if err := w.WriteHeader(header); err != nil {
			return fmt.Errorf("failed to archive %s: %w", dir, err)
		}
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: target[1:], Mode: int64(mode), Size: int64(len(content)), ModTime: epoch,
	}
	if err := w.WriteHeader(header); err != nil {
		return fmt.Errorf("failed to archive %s: %w", target, err)
	}
	if _, err := w.Write(content); err != nil {
		return fmt.Errorf("failed to archive %s: %w", target, err)
	}
	return nil
}

// missingDirectories returns dir and those above it that are not in made,
// outermost first.
func missingDirectories(made map[string]bool, dir string) []string {
	var missing []string
	for ; !made[dir]; dir = path.Dir(dir) {
		missing = append(missing, dir)
	}
	slices.Reverse(missing)
	return missing
}

// accounts returns /etc/passwd or /etc/group with root and, if that is someone
// else, the user with a group of the same number.
func accounts(file string, user uint) []byte {
	format := "%[1]s:x:%[2]d:%[2]d:%[1]s:/:/sbin/nologin\n"
	if file == "/etc/group" {
		format = "%[1]s:x:%[2]d:\n"
	}
	text := fmt.Sprintf(format, "root", 0)
	if user != 0 {
		text += fmt.Sprintf(format, "user", user)
	}
	return []byte(text)
}
