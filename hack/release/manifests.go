package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// file is one of artifacts, named as from there.
type file struct{ name, text string }

// files returns what artifacts/kustomization.yaml names, in its order.
func (r *release) files() ([]file, error) {
	var kustomization struct {
		Resources []string `json:"resources"`
	}
	raw, err := os.ReadFile(filepath.Join(r.artifacts, "kustomization.yaml"))
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(raw, &kustomization); err != nil {
		return nil, fmt.Errorf("failed to read kustomization.yaml: %w", err)
	}
	var files []file
	for _, name := range kustomization.Resources {
		f, err := r.read(name)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return files, nil
}

func (r *release) read(name string) (file, error) {
	raw, err := os.ReadFile(filepath.Join(r.artifacts, name))
	return file{name, string(raw)}, err
}

// writeInstall writes everything in one file.
func (r *release) writeInstall(files []file) error {
	var all strings.Builder
	fmt.Fprintf(&all, "# The operator of Gateways, %s: kubectl apply --server-side -f install.yaml\n", r.version)
	for _, f := range files {
		all.WriteString("---\n" + strings.TrimPrefix(r.pinned(f.text), "---\n"))
	}
	return r.write("install.yaml", all.String())
}

// writeKustomize writes the same as a base: kubectl apply -k.
func (r *release) writeKustomize(files []file) error {
	kustomization, err := r.read("kustomization.yaml")
	if err != nil {
		return err
	}
	for _, f := range append(files, kustomization) {
		if err := r.write(filepath.Join("kustomize", f.name), r.pinned(f.text)); err != nil {
			return err
		}
	}
	return nil
}

// objects returns the objects of a file.
func (f file) objects() ([]map[string]any, error) {
	var objects []map[string]any
	documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(f.text)))
	for {
		raw, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		object := map[string]any{}
		if err == nil {
			err = yaml.Unmarshal(raw, &object)
		}
		if err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", f.name, err)
		}
		if len(object) > 0 {
			objects = append(objects, object)
		}
	}
}
