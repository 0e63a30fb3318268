package agent

import (
	"fmt"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/model"
	"gateway/internal/systemroots"
)

// authorityFile is the content of a ConfigMap's ca.crt and ca.crl.
type authorityFile struct {
	// problem is why it cannot be used; "" if it can.
	problem string
	// pem are the certificates, then the lists of revoked ones, and nothing else.
	pem []byte
	// until is when the first list expires, zero: none does.
	until time.Time
}

// parseAuthority reads a ca.crt, and a ca.crl if there is one.
func parseAuthority(content, revocations []byte) authorityFile {
	chain, problem := certificates.ParseChain(content, certificates.AuthorityFile)
	if problem != "" {
		return authorityFile{problem: problem}
	}
	file := authorityFile{pem: certificates.Encode(chain)}
	if revocations == nil {
		return file
	}
	lists, until, problem := certificates.ParseRevocations(revocations, chain)
	if problem != "" {
		return authorityFile{problem: problem}
	}
	file.pem, file.until = append(file.pem, lists...), until
	return file
}

// authority adds the certificates of a ConfigMap, a ClusterTrustBundle or public authorities. It returns false if there
// are none.
func (c *collector) authority(listener, configMap string) (ok bool) {
	if configMap == model.SystemCAs {
		c.authorities[configMap] = systemroots.PEM()
		return true
	}
	if name, is := model.TrustBundleOf(configMap); is {
		return c.bundle(listener, configMap, name)
	}
	file, ok := c.files.authorities[configMap]
	switch {
	case !ok:
		c.unknown(listener, kindConfigMap, configMap)
		return false
	case file.problem != "":
		c.problem(listener, kindConfigMap, configMap, file.problem)
		return false
	case listener != "" && !file.until.IsZero() && !c.now.Before(file.until):
		c.problem(listener, kindConfigMap, configMap, fmt.Sprintf("a list in %s expired on %s", certificates.RevocationsFile, certificates.FormatTime(file.until)))
		return false
	}
	c.changesAt(file.until)
	c.authorities[configMap] = file.pem
	return true
}
