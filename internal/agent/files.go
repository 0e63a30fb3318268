package agent

import (
	"maps"
	"slices"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/render"
	"gateway/internal/inventory"
	"gateway/internal/login"
	"gateway/internal/passwords"
	"gateway/internal/routing"
	"gateway/internal/waf"
)

// Files are the files of Secrets or ConfigMaps, by the names of both.
type Files = map[string]map[string][]byte

// Usable has the certificates, CAs and key sets of a table that the proxies can use.
type Usable struct {
	// Certificates are by HTTPS listener, Authorities by ConfigMap.
	Certificates map[string][]render.Certificate
	Authorities  map[string][]byte
	// BackendCertificate reports whether that for backends can be used.
	BackendCertificate bool
	// Problems are what cannot be used, and why, sorted.
	Problems []appv1.ProxyProblem
}

// AssumedAuthority stands in for CA certificates that are not known.
const AssumedAuthority = "# the content of the ConfigMap\n"

// CheckFiles returns what proxies can use of Secrets and ConfigMaps, as gateway-keys and an agent would. Secrets that
// are not given are not reported. ConfigMaps that are not given count as usable.
func CheckFiles(table *routing.Table, namespace string, secrets, configMaps Files, now time.Time) Usable {
	files := mounted{hasKeys: true, certificates: map[string]certificateFile{}, authorities: map[string]authorityFile{}, users: map[string]map[string]string{}, issuers: map[string][]byte{}}
	for name, content := range secrets {
		files.certificates[name] = pairIn(content)
		files.users[name] = map[string]string{}
		for file, parse := range parsers {
			if users, ok := content[file]; ok {
				files.users[name][file] = parse(users)
			}
		}
		files.issuers[name] = content[certificates.IssuerFile]
	}
	for name, content := range configMaps {
		files.authorities[name] = authorityIn(content)
	}
	files.ruleSets = ruleSetProblems(slices.Collect(maps.Keys(configMaps)), func(name string) ([]byte, string) {
		if content, ok := configMaps[name][waf.RulesFile]; ok {
			return content, ""
		}
		return nil, missing(waf.RulesFile)
	})
	assume := func(names []string) {
		for _, name := range names {
			if _, ok := files.authorities[name]; !ok {
				files.authorities[name] = authorityFile{pem: []byte(AssumedAuthority)}
			}
		}
	}
	for i := range table.Listeners {
		if tls := table.Listeners[i].TLS; tls != nil {
			assume(tls.ClientCAs)
		}
	}
	for _, policy := range table.Policies {
		if policy.TLS != nil {
			assume(policy.TLS.CAs)
		}
	}
	found := collect(table, files, namespace, now, &material{})
	return Usable{found.certificates, found.authorities, found.backendCertificate, found.problems}
}

func missing(key string) string { return "it does not exist or has no " + key }

func pairIn(files map[string][]byte) certificateFile {
	certificate, ok := files[certificates.CertificateFile]
	if !ok {
		return certificateFile{problem: missing(certificates.CertificateFile)}
	}
	pair, problem := certificates.Join(certificate, files[certificates.KeyFile])
	if problem != "" {
		return certificateFile{problem: problem}
	}
	return certificateFile{Certificate: *inventory.Describe(pair.Leaf)}
}

// parsers are how files with users or clients are read. They return the problems of a file.
var parsers = map[string]func([]byte) string{
	certificates.UsersFile: func(content []byte) string {
		_, problem := passwords.Parse(content)
		return problem
	},
	certificates.APIKeysFile: func(content []byte) string {
		_, problem := passwords.ParseKeys(content)
		return problem
	},
	certificates.SessionKeysFile: func(content []byte) string {
		_, problem := login.ParseKeys(content)
		return problem
	},
}

func authorityIn(files map[string][]byte) authorityFile {
	content, ok := files[certificates.AuthorityFile]
	if !ok {
		return authorityFile{problem: missing(certificates.AuthorityFile)}
	}
	return parseAuthority(content, files[certificates.RevocationsFile])
}
