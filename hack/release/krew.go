package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// writeKrew writes the plugin's manifest, with all archives kubectl-gateway-VERSION-OS-ARCH.tar.gz of the output.
func (r *release) writeKrew() error {
	prefix := "kubectl-gateway-" + r.version + "-"
	paths, err := filepath.Glob(filepath.Join(r.output, prefix+"*.tar.gz"))
	if err != nil {
		return err
	}
	slices.Sort(paths)
	var platforms []any
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := filepath.Base(path)
		system, arch, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(name, prefix), ".tar.gz"), "-")
		if !found {
			return fmt.Errorf("%s is for no system that its name says", name)
		}
		program := "kubectl-gateway"
		if system == "windows" {
			program += ".exe"
		}
		digest := sha256.Sum256(content)
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"os": system, "arch": arch}},
			"uri":      r.url + "/" + r.version + "/" + name, "sha256": hex.EncodeToString(digest[:]), "bin": program,
		})
	}
	if len(platforms) == 0 {
		return errors.New("there are no archives of the plugin")
	}
	manifest, err := yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2", "kind": "Plugin",
		"metadata": map[string]any{"name": "gateway"},
		"spec": map[string]any{
			"version": r.version, "homepage": r.url, "platforms": platforms,
			"shortDescription": "Show, check and explain Gateways and their routes",
			"description": "What Gateways and their routes say, what becomes of a request, and how their proxies are.\n" +
				"kubectl gateway --help lists the commands.\n",
		},
	})
	if err != nil {
		return err
	}
	return r.write("krew/gateway.yaml", string(manifest))
}
