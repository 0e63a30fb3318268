package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"gateway/internal/certificates"
	"gateway/internal/model"
	"gateway/internal/waf"
)

// Mounts describes the Secrets and ConfigMaps in the agent's container.
type Mounts struct {
	// CertificatesDir holds SECRET/tls.crt and SECRET/problem, SECRET/auth and SECRET/auth-problem, SECRET/api-keys
	// and SECRET/api-keys-problem, SECRET/issuer, AuthoritiesDir CONFIGMAP/ca.crt, CONFIGMAP/ca.crl, CONFIGMAP/jwks
	// and CONFIGMAP/rules.conf.
	CertificatesDir, AuthoritiesDir string
	// Secrets are the names of those with certificates that are mounted, ConfigMaps those with certificates, keys of
	// tokens or rules, Users those of Secrets with users or API keys, whether they exist or not.
	Secrets, ConfigMaps, Users []string
	// Keys says that gateway-keys runs in this pod, as it does wherever there are Secrets.
	Keys bool
}

// HasKeys reports whether gateway-keys runs in this pod.
func (m *Mounts) HasKeys() bool { return len(m.Secrets)+len(m.Users) > 0 || m.Keys }

// maxReads bounds how often files are read while they are being changed.
const maxReads = 3

// mountReader caches the mounted files.
type mountReader struct {
	mounts Mounts
	files  mounted
	// version is what the symlinks showed when the files were read; "" if that is not known.
	version string
}

func newMountReader(mounts Mounts) *mountReader {
	r := &mountReader{mounts: mounts}
	r.look()
	return r
}

// look reads the files if they may have changed, and reports whether they have.
func (r *mountReader) look() bool {
	version := r.links()
	if version != "" && version == r.version {
		return false
	}
	before := r.files
	for range maxReads {
		r.read(before.keySets)
		r.version = version
		// Of a file that was replaced meanwhile, the old one may be gone and the new one not seen.
		if version = r.links(); version == r.version {
			break
		}
		r.version = ""
	}
	return !reflect.DeepEqual(before, r.files)
}

// links returns the state of all non-empty volumes, "" if it cannot be read.
func (r *mountReader) links() string {
	var targets []string
	for _, volume := range []struct {
		dir     string
		isThere bool
	}{{r.mounts.CertificatesDir, r.mounts.HasKeys()}, {r.mounts.AuthoritiesDir, len(r.mounts.ConfigMaps) > 0}} {
		if !volume.isThere {
			continue
		}
		target, err := os.Readlink(filepath.Join(volume.dir, certificates.DataLink))
		if err != nil {
			return ""
		}
		targets = append(targets, target)
	}
	return strings.Join(targets, " ")
}

// read reads the files. Key sets that cannot be read keep their earlier keys.
func (r *mountReader) read(keySets map[string]keySetFile) {
	r.files = mounted{hasKeys: r.mounts.HasKeys(), certificates: map[string]certificateFile{}, users: map[model.SecretFile]string{}, issuers: map[string][]byte{}, authorities: map[string]authorityFile{}, keySets: map[string]keySetFile{}}
	for _, name := range r.mounts.Secrets {
		r.files.certificates[name] = r.certificate(name)
	}
	for _, name := range r.mounts.Users {
		for _, file := range []model.SecretFile{{Secret: name, File: certificates.UsersFile}, {Secret: name, File: certificates.APIKeysFile}, {Secret: name, File: certificates.SessionKeysFile}} {
			r.files.users[file] = r.users(file)
		}
		r.files.issuers[name], _ = readMounted(r.mounts.CertificatesDir, name, certificates.IssuerFile)
	}
	for _, name := range r.mounts.ConfigMaps {
		r.files.authorities[name] = r.authority(name)
		r.files.keySets[name] = readKeySet(r.mounts.AuthoritiesDir, name, keySets[name])
	}
	r.files.ruleSets = ruleSetProblems(r.mounts.ConfigMaps, func(name string) ([]byte, string) {
		return readMounted(r.mounts.AuthoritiesDir, name, waf.RulesFile)
	})
}

// authority reads that of a ConfigMap.
func (r *mountReader) authority(configMap string) authorityFile {
	content, problem := readMounted(r.mounts.AuthoritiesDir, configMap, certificates.AuthorityFile)
	if problem != "" {
		return authorityFile{problem: problem}
	}
	revocations, err := os.ReadFile(filepath.Join(r.mounts.AuthoritiesDir, configMap, certificates.RevocationsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return authorityFile{problem: "failed to read " + certificates.RevocationsFile + ": " + err.Error()}
	}
	return parseAuthority(content, revocations)
}

// certificate reads that of a Secret.
func (r *mountReader) certificate(secret string) certificateFile {
	wrong, nothingWrong := readMounted(r.mounts.CertificatesDir, secret, certificates.ProblemFile)
	content, missing := readMounted(r.mounts.CertificatesDir, secret, certificates.CertificateFile)
	switch {
	case missing == "":
		file := parseCertificate(content)
		file.outdated = string(wrong)
		return file
	case nothingWrong == "":
		return certificateFile{problem: string(wrong)}
	default:
		return certificateFile{problem: missing}
	}
}

// users returns what is wrong with a file that has users or API keys; "" if nothing is.
func (r *mountReader) users(file model.SecretFile) string {
	wrong, nothingWrong := readMounted(r.mounts.CertificatesDir, file.Secret, file.File+certificates.ProblemSuffix)
	_, missing := readMounted(r.mounts.CertificatesDir, file.Secret, file.File)
	if nothingWrong == "" {
		return string(wrong)
	}
	return missing
}

// isAwaited reports whether gateway-keys has not yet passed on its certificates.
func (r *mountReader) isAwaited() bool {
	if !r.mounts.HasKeys() || r.version != "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(r.mounts.CertificatesDir, certificates.DataLink))
	return errors.Is(err, fs.ErrNotExist)
}

// readMounted returns the content of a file, or what is wrong with its Secret or ConfigMap.
func readMounted(dir, name, key string) (content []byte, problem string) {
	content, err := os.ReadFile(filepath.Join(dir, name, key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "it does not exist or has no " + key
	case err != nil:
		return nil, "failed to read " + key + ": " + err.Error()
	}
	return content, ""
}
