package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// writeProgram makes a small file to put into images.
func writeProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("content"), 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

func TestSameFilesMakeSameArchive(t *testing.T) {
	program := writeProgram(t)
	args := []string{program + ":/usr/bin/a", program + ":/b", program + ":/usr/c"}
	config := v1.Config{Entrypoint: []string{"/b"}, User: "99", StopSignal: "SIGUSR1"}
	var first []byte
	for range 20 {
		output := filepath.Join(t.TempDir(), "image.tar")
		if err := writeImage(output, "test:dev", config, 99, args, false); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if !bytes.Equal(first, got) {
			t.Fatal("two archives of the same files differ")
		}
	}
}

func TestImageHasConfigurationItWasGiven(t *testing.T) {
	output := filepath.Join(t.TempDir(), "image.tar")
	config := v1.Config{Entrypoint: []string{"/b"}, User: "99", StopSignal: "SIGUSR1"}
	if err := writeImage(output, "test:dev", config, 99, []string{writeProgram(t) + ":/b"}, false); err != nil {
		t.Fatal(err)
	}
	img, err := tarball.ImageFromPath(output, nil)
	if err != nil {
		t.Fatal(err)
	}
	file, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	got := file.Config
	if !slices.Equal(got.Entrypoint, config.Entrypoint) || got.User != "99" || got.StopSignal != "SIGUSR1" {
		t.Errorf("got configuration %+v, want %+v", got, config)
	}
}

func TestDirectoriesComeBeforeTheirFiles(t *testing.T) {
	program := writeProgram(t)
	content, err := archive(map[string]string{"/usr/bin/a": program, "/b": program}, 99)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, header.Name)
	}
	want := []string{"b", "usr/", "usr/bin/", "usr/bin/a", "etc/", "etc/group", "etc/passwd"}
	if !slices.Equal(got, want) {
		t.Errorf("got entries %q, want %q", got, want)
	}
}

func TestParseLdd(t *testing.T) {
	got, err := parseLdd("\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld-linux.so.2 (0x3)\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/lib/libc.so.6", "/lib64/ld-linux.so.2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := parseLdd("\tlibgone.so.1 => not found\n"); err == nil {
		t.Error("got no error for a library that is not there")
	}
}

// TestLayout reads an OCI image layout back: an index with an image for each architecture, of its own files.
func TestLayout(t *testing.T) {
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(filepath.Join(dir, arch), []byte("for "+arch), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var archives [][]byte
	for range 2 {
		output := filepath.Join(dir, "image.tar")
		err := writeLayout(output, "test:dev", v1.Config{Entrypoint: []string{"/b"}}, 99, []string{dir + "/{arch}:/b"}, []string{"amd64", "arm64"})
		if err != nil {
			t.Fatal(err)
		}
		archive, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, archive)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same files differ")
	}
	top, err := layout.ImageIndexFromPath(unpack(t, filepath.Join(dir, "image.tar")))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Error(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Annotations["io.containerd.image.name"] != "docker.io/library/test:dev" {
		t.Fatalf("got %+v, %v", manifest, err)
	}
	images, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = images.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, image := range manifest.Manifests {
		got = append(got, image.Platform.String()+" "+string(image.MediaType))
	}
	want := []string{"linux/amd64 application/vnd.oci.image.manifest.v1+json", "linux/arm64 application/vnd.oci.image.manifest.v1+json"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// unpack returns a directory with the files of an archive.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	unpacked := t.TempDir()
	for r := tar.NewReader(bytes.NewReader(content)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return unpacked
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		path := filepath.Join(unpacked, header.Name)
		if err = errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, content, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPush: an image is in the registry that its name begins with.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("text"), 0o700); err != nil {
		t.Fatal(err)
	}
	tag := strings.TrimPrefix(server.URL, "http://") + "/team/gateway:dev-1"
	if err := pushImage(tag, v1.Config{Entrypoint: []string{"/program"}}, 65532, []string{source + ":/program"}, false); err != nil {
		t.Fatal(err)
	}
	ref, err := name.NewTag(tag)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/program" {
		t.Errorf("it has %v, %v", config, err)
	}
}
