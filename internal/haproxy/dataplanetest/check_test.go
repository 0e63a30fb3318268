package dataplanetest_test

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// TestGoldens lets HAProxy check what TestGolden of render compares.
func TestGoldens(t *testing.T) {
	inputs, err := filepath.Glob("../render/testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs found (%v)", err)
	}
	for _, path := range inputs {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			in := rendertest.Read(t, path).Input(t)
			in.Paths = haproxytest.NewPaths(t)
			in = withRealCertificates(t, in)
			if err := haproxytest.Check(t, in.Paths, render.Render(in).AllFiles()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestHostileStringsAreInert renders strings that no API server admits and has HAProxy check that they change nothing:
// as many lines and sections as with harmless ones. Those of certificates are whatever their authors wrote.
func TestHostileStringsAreInert(t *testing.T) {
	ca := certtest.NewAuthority(t)
	inPath := strings.NewReplacer("%", "%25", `\`, "") // no path has a backslash
	lines := func(s string) [3]int {
		in := render.Input{Paths: haproxytest.NewPaths(t), Bind: render.Bind{Addresses: []string{"127.0.0.1"}}}
		in.Certificates = map[string][]render.Certificate{"https": {{Secret: "cert", Names: []string{s, "*." + s}}}}
		in.Paths.CertificateDir = t.TempDir()
		writeSecret(t, in.Paths, "cert", ca.Issue(t, []string{"a"}))
		in.Table, _ = routingtest.Compile(&appv1.GatewaySpec{
			Listeners: []appv1.Listener{{Name: appv1.Name(s), Port: 80, Hostname: appv1.Hostname(s)}, {Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS, TLS: &appv1.ListenerTLS{}}},
			Routes: []appv1.Route{{
				Name: appv1.Name(s), Hostnames: []appv1.Hostname{appv1.Hostname(s)},
				Rules: []appv1.RouteRule{{
					Matches: []appv1.RouteMatch{{
						Path:        appv1.PathMatch{Value: "/" + inPath.Replace(s)},
						Headers:     []appv1.HeaderMatch{{Name: appv1.HeaderName(s), Value: s}},
						QueryParams: []appv1.QueryParamMatch{{Name: s, Value: s}},
					}},
					Filters: []appv1.RuleFilter{
						{RequestHeaderModifier: &appv1.HeaderFilter{Set: []appv1.Header{{Name: appv1.ModifiedHeaderName(s), Value: s}}}},
						{URLRewrite: &appv1.URLRewrite{Hostname: appv1.PreciseHostname(s), Path: &appv1.PathModifier{Type: appv1.PathModifierReplaceFullPath, ReplaceFullPath: appv1.URLPath(s)}}},
					},
					SessionPersistence: &appv1.SessionPersistence{SessionName: s},
					BackendRefs:        []appv1.BackendRef{{Name: "a", Port: 80}, {Name: "a", Port: 81}},
				}},
			}},
		})
		in.Backends = map[routing.Backend]render.BackendState{{Service: "a", Port: 80}: {Exists: true}}
		files := render.Render(in).AllFiles()
		files[ir.LoadFile] = ir.LoadContent(s, s, s)
		if err := haproxytest.Check(t, in.Paths, files); err != nil {
			t.Errorf("%q: %v", s, err)
		}
		cfg := slices.Concat(files[ir.ConfigFile], files[ir.LoadFile])
		list := files["certificates-443.list"]
		data := 0
		for name, content := range files {
			if name != ir.ConfigFile {
				data += bytes.Count(content, []byte("\n"))
			}
		}
		return [3]int{bytes.Count(cfg, []byte("\n")), data, len(bytes.FieldsFunc(list, unicode.IsSpace))}
	}
	want := lines("harmless")
	for _, s := range []string{"a\nbackend b", "a b", `a"b`, "a'b", `a\`, "a#b", "$HOME", "${HOME}", "%[src]", "a\x00b", "a\r\nb", "é\xff", "[a", "!a", strings.Repeat("a", 1000)} {
		if got := lines(s); got != want {
			t.Errorf("%q makes %d lines of configuration and of map, and words of the list of certificates, want %d", s, got, want)
		}
	}
}
