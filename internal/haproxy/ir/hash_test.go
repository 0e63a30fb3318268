package ir

import (
	"testing"

	"gateway/internal/tree"
)

// TestHash: it tells everything but the servers, and LoadHash what HAProxy can refuse at a load.
func TestHash(t *testing.T) {
	newConfig := func() Config {
		return Config{
			Sections: []Section{{Header: "frontend 80", Lines: Lines("", "bind :80", "mode http")}},
			Backends: tree.Of(map[string]*Backend{"a": {Defaults: "http", Servers: []Server{{Address: "10.0.0.1", Port: 1}}}, "b": {Defaults: "http"}}),
			Maps:     map[string]tree.Map[string]{HostsFile: tree.Of(map[string]string{"80/a": "1", "80/b": "2"}), NamesFile: {}},
			Certificates: map[string]CertificateList{"certificates-443.list": NewCertificateList(nil,
				CertificateLine{File: "shop.pem", Options: "alpn h2", Filters: []string{"a.example.com"}}),
			},
			Files: map[string][]byte{"ca.pem": []byte("one")},
		}
	}
	same := newConfig()
	for name, test := range map[string]struct {
		change     func(c *Config)
		hash, load bool
	}{
		"nothing":       {func(*Config) {}, false, false},
		"a server":      {func(c *Config) { c.Backends.Value("a").Servers[0].Port = 2 }, false, false},
		"a section":     {func(c *Config) { c.Sections[0].Lines[0].Text = "bind :81" }, true, true},
		"a line less":   {func(c *Config) { c.Sections[0].Lines = c.Sections[0].Lines[:1] }, true, true},
		"a file":        {func(c *Config) { c.Files["ca.pem"] = []byte("two") }, true, true},
		"a backend":     {func(c *Config) { c.Backends = c.Backends.With("c", &Backend{Defaults: "http"}) }, true, true},
		"a value":       {func(c *Config) { c.Maps[HostsFile] = c.Maps[HostsFile].With("80/a", "3") }, true, false},
		"a key":         {func(c *Config) { c.Maps[HostsFile] = c.Maps[HostsFile].With("80/c", "3") }, true, false},
		"values change": {func(c *Config) { c.Maps[HostsFile] = tree.Of(map[string]string{"80/a": "2", "80/b": "1"}) }, true, false},
		"a certificate": {func(c *Config) {
			c.Certificates["certificates-443.list"] = NewCertificateList(nil, CertificateLine{File: "shop.pem", Options: "alpn h2", Filters: []string{"b.example.com"}})
		}, true, false},
		"the first certificate": {func(c *Config) {
			c.Certificates["certificates-443.list"] = NewCertificateList(&CertificateLine{File: "shop.pem"}, c.Certificates["certificates-443.list"].All()...)
		}, true, false},
	} {
		c := newConfig()
		test.change(&c)
		if hash, load := c.Hash() != same.Hash(), c.LoadHash() != same.LoadHash(); hash != test.hash || load != test.load {
			t.Errorf("%s: Hash changed %t, LoadHash %t; want %t, %t", name, hash, load, test.hash, test.load)
		}
	}
}
