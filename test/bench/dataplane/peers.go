package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"embed"
	"encoding/pem"
	"fmt"
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

// limited is in place of a line for the defaults: requests are counted by the address of the client.
const limited = "a rate limit"

// asked is in place of such a line, too: a Service is asked about each request.
const asked = "a question about each request"

// peer returns the proxy that a file in peers is for. Of haproxy.cfg, more is a line for its defaults, and routes is a map that it finds backends
// by, instead of rules for the ten hosts, if it is not empty.
func peer(file, more, routes string) proxy {
	run := func(site *site, dir string, ports [2]int) (*process, error) {
		tmpl, err := template.ParseFS(peers, "peers/"+file)
		if err != nil {
			return nil, fmt.Errorf("failed to parse %s: %w", file, err)
		}
		var content bytes.Buffer
		in := map[string]any{"Dir": dir, "HTTP": ports[0], "HTTPS": ports[1], "Services": site.servers, "More": more}
		if more == limited || more == asked {
			in["More"], in["Limit"], in["Auth"] = "", more == limited, more == asked
		}
		if routes != "" {
			in["Map"] = filepath.Join(dir, routesMap)
		}
		if err := tmpl.Execute(&content, in); err != nil {
			return nil, fmt.Errorf("failed to write %s: %w", file, err)
		}
		for name, content := range map[string][]byte{file: content.Bytes(), routesMap: []byte(routes)} {
			if err := write(dir, name, content); err != nil {
				return nil, err
			}
		}
		if err := writeCertificate(dir); err != nil {
			return nil, err
		}
		return start(peerCommand(file, filepath.Join(dir, file)), ports[0])
	}
	return proxy{name: file + more + routes, run: run}
}

// mapped returns the static haproxy.cfg with a map of the same routes as plainRoutes.
func mapped(hosts, rules int) proxy {
	var routes strings.Builder
	for rule := range rules {
		for host := range hosts {
			fmt.Fprintf(&routes, "%s%s %s\n", hostname(host), prefix(rule), service((rule*hosts+host)%services))
		}
	}
	return peer("haproxy.cfg", "", routes.String())
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
