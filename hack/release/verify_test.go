package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/must"
)

const commit = "0123456789012345678901234567890123456789"

// signedRelease makes the files of a release, as far as they are written here, with a key that signed them.
func signedRelease(t *testing.T, r release) (dir, key string) {
	t.Helper()
	r.version, r.output = "v1.2.3", t.TempDir()
	for _, name := range []string{"install.yaml", "gateway-v1.2.3.oci.tar", "gateway-v1.2.3.sig.oci.tar"} {
		must.Do(t, r.write(name, "content of "+name))
	}
	must.Do(t, r.writeProvenance(commit, []subject{{r.image, map[string]string{"sha256": "1"}}}))
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	var sums strings.Builder
	entries := must.Get(os.ReadDir(r.output))(t)
	for _, entry := range entries {
		digest := must.Get(digestOf(filepath.Join(r.output, entry.Name())))(t)
		fmt.Fprintf(&sums, "%s  %s\n", digest, entry.Name())
	}
	must.Do(t, r.write(sumsFile, sums.String()))
	digest := sha256.Sum256([]byte(sums.String()))
	signature := must.Get(ecdsa.SignASN1(rand.Reader, private, digest[:]))(t)
	must.Do(t, r.write(sumsFile+".sig", base64.StdEncoding.EncodeToString(signature)))
	public := must.Get(x509.MarshalPKIXPublicKey(&private.PublicKey))(t)
	key = filepath.Join(t.TempDir(), "key.pub")
	must.Do(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o600))
	return r.output, key
}

var parametersOfTest = release{
	image: "registry.example.com/gateway", haproxyImage: "haproxy:3.4@sha256:1", url: "https://example.com/releases", platforms: []string{"linux-amd64"},
}

// TestOneChangedByteIsRefused: of each file, by its name.
func TestOneChangedByteIsRefused(t *testing.T) {
	dir, key := signedRelease(t, parametersOfTest)
	sums, made, err := verifySigned(dir, key)
	if err != nil || len(sums) != 4 || made.commit() != commit || made.BuildDefinition.ExternalParameters.Image != parametersOfTest.image {
		t.Fatalf("got %d files, %+v, %v", len(sums), made, err)
	}
	entries := must.Get(os.ReadDir(dir))(t)
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		before := must.Get(os.ReadFile(path))(t)
		for _, i := range []int{0, len(before) / 2, len(before) - 1} {
			changed := append([]byte(nil), before...)
			changed[i] ^= 2
			must.Do(t, os.WriteFile(path, changed, 0o600))
			if _, _, err := verifySigned(dir, key); err == nil || !strings.Contains(err.Error(), entry.Name()) {
				t.Fatalf("%s with another byte %d: got %v", entry.Name(), i, err)
			}
		}
		must.Do(t, os.WriteFile(path, before, 0o600))
	}
}

// TestOtherFilesAreRefused: one file more, one less, or somebody else's.
func TestOtherFilesAreRefused(t *testing.T) {
	dir, key := signedRelease(t, parametersOfTest)
	expect := func(key, want string) {
		t.Helper()
		if _, _, err := verifySigned(dir, key); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	more := filepath.Join(dir, "more")
	must.Do(t, os.WriteFile(more, nil, 0o600))
	expect(key, "more is not in SHA256SUMS: nobody signed it")
	must.Do(t, os.Remove(more))
	_, other := signedRelease(t, parametersOfTest)
	expect(other, "another key signed it")
	must.Do(t, os.Remove(filepath.Join(dir, "install.yaml")))
	expect(key, "install.yaml: no such file")
}

// TestParametersThatNoReleaseHas: who signed a release may want to run something where it is verified.
func TestParametersThatNoReleaseHas(t *testing.T) {
	for _, change := range []func(*release){
		func(r *release) { r.image = "-x" },
		func(r *release) { r.haproxyImage = "a$(reboot)" },
		func(r *release) { r.url = "a\nb" },
		func(r *release) { r.platforms = []string{"../../x-y"} },
	} {
		r := parametersOfTest
		change(&r)
		dir, key := signedRelease(t, r)
		if _, _, err := verifySigned(dir, key); err == nil || !strings.Contains(err.Error(), "has parameters that no release has") {
			t.Errorf("%+v: got %v", r, err)
		}
	}
}

func TestCompare(t *testing.T) {
	release := map[string]string{"a": "1", "b": "2", "x.sig.oci.tar": "3"}
	if err := compare(release, map[string]string{"a": "1", "b": "2"}); err != nil {
		t.Error(err)
	}
	err := compare(release, map[string]string{"a": "1", "b": "4", "c": "5"})
	want := "b: the release has the digest \"2\", a build of the sources here \"4\"\nc: the release has the digest \"\", a build of the sources here \"5\""
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
