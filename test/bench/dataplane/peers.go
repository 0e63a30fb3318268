package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

// What a good administrator would write for the ten hosts.
//
//go:embed peers
var peers embed.FS

// routesMap is the name of a file with routes for haproxy.cfg.
const routesMap = "routes.map"

// written is a file in peers, and what is written into it.
type written struct {
	file string
	// defaults is a line for the defaults of haproxy.cfg.
	defaults string
	// routes is a map that haproxy.cfg finds backends by, instead of rules for the ten hosts, if it is not empty.
	routes string
	// policy are lines for what is done to each request, sections are those that they need, and files those that they
	// name.
	policy, sections string
	files            map[string]string
}

// proxy returns the proxy that the file is for.
func (w written) proxy() proxy {
	run := func(site *site, dir string, ports [2]int) (*process, error) {
		text, err := peers.ReadFile("peers/" + w.file)
		if err != nil {
			return nil, fmt.Errorf("failed to read %s: %w", w.file, err)
		}
		tmpl, err := template.New(w.file).Parse(strings.NewReplacer("POLICY", w.policy, "SECTIONS", w.sections).Replace(string(text)))
		if err != nil {
			return nil, fmt.Errorf("failed to parse %s: %w", w.file, err)
		}
		var content strings.Builder
		in := map[string]any{"Dir": dir, "HTTP": ports[0], "HTTPS": ports[1], "Services": site.servers, "More": w.defaults, "Hash": passwordHash}
		if w.routes != "" {
			in["Map"] = filepath.Join(dir, routesMap)
		}
		if err := tmpl.Execute(&content, in); err != nil {
			return nil, fmt.Errorf("failed to write %s: %w", w.file, err)
		}
		files := map[string]string{w.file: content.String(), routesMap: w.routes}
		maps.Copy(files, w.files)
		for name, content := range files {
			if err := write(dir, name, []byte(content)); err != nil {
				return nil, err
			}
		}
		if err := writeCertificate(dir); err != nil {
			return nil, err
		}
		return start(ports[0], peerCommand(w.file, filepath.Join(dir, w.file)))
	}
	return proxy{name: w.file + w.defaults + w.routes + w.policy, run: run}
}

// mapped returns the static haproxy.cfg with a map of the same routes as plainRoutes.
func mapped(hosts, rules int) proxy {
	var routes strings.Builder
	for rule := range rules {
		for host := range hosts {
			fmt.Fprintf(&routes, "%s%s %s\n", hostname(host), prefix(rule), service((rule*hosts+host)%services))
		}
	}
	return written{file: "haproxy.cfg", routes: routes.String()}.proxy()
}

func peerCommand(file, path string) *exec.Cmd {
	switch file {
	case "nginx.conf":
		return pinned("nginx", "-c", path)
	case "Caddyfile":
		return pinned("caddy", "run", "--adapter", "caddyfile", "--config", path)
	}
	return pinned("haproxy", "-db", "-f", path)
}

// writeCertificate writes tls.crt and tls.key for the hosts, and tls.pem, which is both.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("failed to make a key: %w", err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"*.example.com"}, NotAfter: time.Now().Add(24 * time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return fmt.Errorf("failed to make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("failed to encode a key: %w", err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for name, content := range map[string][]byte{"tls.crt": public, "tls.key": secret, "tls.pem": slices.Concat(public, secret)} {
		if err := write(dir, name, content); err != nil {
			return err
		}
	}
	return nil
}
