package agent

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
)

const (
	kindBundle      = "ClusterTrustBundle"
	resourceBundles = "clustertrustbundles"
)

// bundles are the ClusterTrustBundles of the cluster, of which the agent reads none before it needs one.
type bundles struct {
	// read returns the certificates of a ClusterTrustBundle, or its problem; known is false before it was read. nil:
	// there is no API server.
	read func(name string) (content, problem string, known bool)
	// parsed are those that were read since one of them changed, and since is when the first one was asked for.
	parsed map[string]authorityFile
	since  time.Time
}

// newBundles returns the ClusterTrustBundles that read reads.
func newBundles(read func(name string) (content, problem string, known bool)) *bundles {
	return &bundles{read: read, parsed: map[string]authorityFile{}}
}

// forget has all of them read again.
func (b *bundles) forget() { clear(b.parsed) }

// of returns a ClusterTrustBundle. While it is unknown, due is the time from which that is a problem.
func (b *bundles) of(name string, now time.Time) (file authorityFile, due time.Time) {
	if b == nil || b.read == nil {
		return authorityFile{problem: "it is not read here"}, due
	}
	file, ok := b.parsed[name]
	if ok {
		return file, due
	}
	content, problem, known := b.read(name)
	switch {
	case known && problem != "":
		file = authorityFile{problem: problem}
	case known:
		chain, problem := certificates.ParseChain([]byte(content), "spec.trustBundle")
		if file.problem = problem; problem == "" {
			file.pem = certificates.Encode(chain)
		}
	default:
		if b.since.IsZero() {
			b.since = now
		}
		if due = b.since.Add(unknownTime); now.Before(due) {
			return file, due
		}
		return authorityFile{problem: "the API server does not list " + kindBundle + "s"}, time.Time{}
	}
	b.parsed[name] = file
	return file, due
}

// bundle adds the certificates of a ClusterTrustBundle. It returns false if there are none.
func (c *collector) bundle(listener, ca, name string) bool {
	file, ok := c.files.authorities[ca] // files may have it
	if !ok {
		var due time.Time
		if file, due = c.files.bundles.of(name, c.now); !due.IsZero() {
			c.awaits = true
			c.changesAt(due)
			return false
		}
	}
	if file.problem != "" {
		c.problems = append(c.problems, appv1.ProxyProblem{
			Origin:   appv1.ProblemOrigin{Kind: kindBundle, Namespace: c.namespace, Name: name},
			Listener: listener, Reason: appv1.ProblemInvalidCACertificateRef, Message: kindBundle + " " + name + ": " + file.problem,
		})
		return false
	}
	c.authorities[ca] = file.pem
	return true
}

// bundle is what bundles read. The first call begins to watch them.
func (w *watcher) bundle(name string) (content, problem string, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bundles == nil {
		w.bundles = w.watchOf(resourceBundles, "", "")
	}
	switch of := w.bundles; {
	case of.isListed: // as with other resources, the last seen state counts
	case of.isMissing:
		return "", "the API server has no " + kindBundle + "s of certificates.k8s.io/v1", true
	case of.refusals >= manyRefusals:
		return "", "the API server lets the pod read no " + kindBundle + "s: it needs the ClusterRole system:cluster-trust-bundle-discovery", true
	default:
		return "", "", false
	}
	bundle, ok := w.bundles.objects[""][name].(*certificatesv1.ClusterTrustBundle)
	switch {
	case !ok:
		return "", "it does not exist", true
	case bundle.Spec.TrustBundle == "":
		return "", "it has no certificates", true
	}
	return bundle.Spec.TrustBundle, "", true
}

// takeBundles reports whether ClusterTrustBundles changed since the last call.
func (w *watcher) takeBundles() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	isOther := w.otherBundles
	w.otherBundles = false
	return isOther
}
