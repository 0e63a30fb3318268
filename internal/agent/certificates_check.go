package agent

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/haproxy/render"
	"gateway/internal/inventory"
	"gateway/internal/jwks"
	"gateway/internal/keystream"
	"gateway/internal/login"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
)

const (
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
	kindURL       = "URL"

	// maxNamesTold is how many names of a certificate a message lists.
	maxNamesTold = 5
)

// certificateFile is the certificate of a Secret, as far as known.
type certificateFile struct {
	// problem is why it cannot be used for anything; "" if it can.
	problem string
	inventory.Certificate
	// outdated is why what the Secret holds by now is not used; "" if this is what it holds.
	outdated string
}

// namesWithin returns the server names for which a listener uses a certificate, and whether it can use it at all.
func namesWithin(hostname string, names []string) ([]string, bool) {
	if hostname == "" {
		return names, true
	}
	if suffix, ok := strings.CutPrefix(hostname, "*"); ok {
		var within []string
		for _, name := range names {
			if strings.HasSuffix(name, suffix) {
				within = append(within, name)
			}
		}
		return within, len(within) > 0
	}
	_, parent, _ := strings.Cut(hostname, ".")
	if slices.Contains(names, hostname) || slices.Contains(names, "*."+parent) {
		return []string{hostname}, true
	}
	return nil, false
}

// mounted is the known state of Secrets and ConfigMaps, by their names.
type mounted struct {
	// only are the mounted objects, whether they exist or not; nil: all known ones.
	only *Mounts
	// versions are other numbers for other entries of a Secret, and plain are listeners as they were found; nil: that is
	// not kept.
	versions map[string]int
	plain    map[string]*plain
	// unknown is since when what is wanted has been unknown, by its key in the inventory; nil: it never becomes known.
	unknown      map[string]time.Time
	certificates map[string]certificateFile
	authorities  map[string]authorityFile
	keySets      map[string]keySetFile
	bundles      *bundles
	// hasKeys reports whether gateway-keys runs beside.
	hasKeys bool
	// fetched are the keys of tokens at URLs.
	fetched map[routing.KeySource]jwks.Set
	// users are the files of a Secret with users, with their problems; "": nothing.
	users map[string]map[string]string
	// issuers are the providers that secrets of clients are for, by Secret.
	issuers map[string][]byte
	// ruleSets tell why the rules of a ConfigMap cannot be used; "": they can.
	ruleSets map[string]string
	// mayTake reports whether what may take a reload is taken in for a namespace; nil: it is.
	mayTake func(namespace string) bool
}

// certificate returns the known state of the certificate of a Secret; false: it is unknown.
func (m *mounted) certificate(secret string) (file certificateFile, ok bool) {
	file, ok = m.certificates[secret]
	if m.only == nil {
		return file, ok
	}
	if !ok {
		file.problem = missing(certificates.CertificateFile)
	}
	return file, slices.Contains(m.only.Secrets, secret)
}

// usersOf returns the problems of a file of a Secret with users; false: nothing is known of it.
func (m *mounted) usersOf(file model.SecretFile) (problem string, ok bool) {
	files, ok := m.users[file.Secret]
	if m.only != nil {
		ok = slices.Contains(m.only.Users, file.Secret)
	}
	problem, has := files[file.File]
	if !has {
		problem = missing(file.File)
	}
	return problem, ok
}

// material are the certificates, CAs and key sets of a table that can be used, and the problems of the rest.
type material struct {
	// certificates are by HTTPS listener, authorities by ConfigMap.
	certificates map[string][]render.Certificate
	authorities  map[string][]byte
	// keySets are the keys of tokens that rules name the source of.
	keySets map[routing.KeySource][]routing.JWTKey
	// backendCertificate reports whether that for backends can be used.
	backendCertificate bool
	// problems are what cannot be used, and why, sorted.
	problems []appv1.ProxyProblem
	// unmounted names something that is not mounted in this pod; "" if everything is.
	unmounted string
	// awaits reports whether a ClusterTrustBundle is not known yet: what is wanted waits for it.
	awaits bool
	// from is when this was found, by the wall clock, which may be put back, and until is when time alone may change any
	// of it; zero: never.
	from, until time.Time
	// listeners are those that it is of; nil: all are to be looked at next. changed are the names of those that may have
	// other certificates than in the material before; nil: all.
	listeners []routing.Listener
	changed   []string
	keys      keyTypes
}

// isOutdated reports whether time alone may have changed any of it.
func (m *material) isOutdated(now time.Time) bool {
	return now.Before(m.from) || !m.until.IsZero() && !now.Before(m.until)
}

// collect returns the material of a table at some time. before is what was collected last, of the same files.
func collect(table *routing.Table, files mounted, namespace string, now time.Time, before *material) material {
	c := collector{files: files, namespace: namespace, now: now, before: before}
	c.from, c.keySets = now.Round(0), map[routing.KeySource][]routing.JWTKey{}
	if before.listeners == nil || before.unmounted != "" || before.awaits || before.isOutdated(now) || !c.changedListeners(table, before) {
		c.allListeners(table)
	}
	c.listeners = table.Listeners
	if secret := table.BackendCertificate; secret != "" {
		c.certificateForBackends(secret)
	}
	for of, backend := range table.Policies {
		if backend.TLS != nil {
			for _, configMap := range backend.TLS.CAs {
				c.authority("", configMap)
				c.awaitTurnOf(configMap, of.Namespace)
			}
			if backend.TLS.HasNames() && !c.files.hasKeys {
				c.unmounted = cmp.Or(c.unmounted, "what the container "+proxypod.KeysContainer+" shares with HAProxy")
			}
		}
	}
	for file := range table.Uses.SecretFiles.Values() {
		c.users(file)
	}
	for rules := range table.Uses.Keys.Values() {
		c.keySet(rules)
	}
	for name := range table.Uses.RuleSets.Values() {
		c.ruleSet(name)
	}
	slices.SortFunc(c.problems, compareProblems)
	c.problems = slices.Compact(c.problems)
	return c.material
}

// allListeners collects what all listeners have.
func (c *collector) allListeners(table *routing.Table) {
	c.material = material{certificates: make(map[string][]render.Certificate, len(table.Listeners)), authorities: map[string][]byte{}, keySets: c.keySets, from: c.from}
	if len(c.files.plain) > 2*len(table.Listeners)+100 {
		clear(c.files.plain) // most of them are gone
	}
	for i := range table.Listeners {
		if listener := &table.Listeners[i]; listener.TLS != nil {
			c.listener(listener)
		}
	}
	c.limitExceptions(table)
}

// changedListeners collects what those have that are others than before, and takes the rest from before. It returns
// false if others may have something else because of that.
func (c *collector) changedListeners(table *routing.Table, before *material) bool {
	others := map[string]*routing.Listener{} // nil: it is gone
	gone, fresh := routing.Differing(before.listeners, table.Listeners)
	was := make(map[string]*routing.Listener, len(gone))
	for _, listener := range gone {
		was[listener.Name], others[listener.Name] = listener, nil
	}
	for _, listener := range fresh {
		if earlier := was[listener.Name]; earlier != nil && earlier.Hostname == listener.Hostname && earlier.TLS == listener.TLS {
			delete(others, listener.Name)
		} else {
			others[listener.Name] = listener
		}
	}
	c.certificates, c.authorities, c.keys, c.until, c.changed = before.certificates, maps.Clone(before.authorities), before.keys, before.until, []string{}
	if len(others) > 0 {
		c.certificates, c.changed = maps.Clone(before.certificates), slices.Sorted(maps.Keys(others))
	}
	for _, problem := range before.problems {
		if _, isOther := others[problem.Listener]; !isOther && problem.Listener != "" {
			c.problems = append(c.problems, problem)
		}
	}
	for _, name := range c.changed {
		delete(c.certificates, name)
		if listener := others[name]; listener != nil && listener.TLS != nil {
			c.listener(listener)
			c.keys.add(c.certificates[name])
		}
	}
	return !c.keys.mayBeExcepted()
}

func compareProblems(a, b appv1.ProxyProblem) int {
	return cmp.Or(-cmp.Compare(a.Origin.Kind, b.Origin.Kind), cmp.Compare(a.Listener, b.Listener),
		cmp.Compare(a.Origin.Name, b.Origin.Name), cmp.Compare(a.Message, b.Message))
}

type collector struct {
	material
	files     mounted
	namespace string
	now       time.Time
	before    *material
	// taken are the names that a listener has a certificate for.
	taken map[takenName]bool
}

type takenName struct {
	listener, name string
	kind           x509.PublicKeyAlgorithm
}

// untaken returns the names that no earlier certificate has taken. Otherwise, each renewal could change which of two
// certificates clients get.
func (c *collector) untaken(listener string, names []string, kind x509.PublicKeyAlgorithm) []string {
	var own []string
	for _, name := range names {
		if id := (takenName{listener, name, kind}); !c.taken[id] {
			c.taken[id] = true
			own = append(own, name)
		}
	}
	return own
}

func (c *collector) certificate(listener *routing.Listener, secret string) {
	file, ok := c.files.certificate(secret)
	if !ok {
		c.unknown(listener.Name, kindSecret, secret)
		return
	}
	problem := c.problemOf(&file)
	names, within := namesWithin(listener.Hostname, file.Names)
	if !within && listener.TLS.AnyNames {
		names, within = []string{listener.Hostname}, true
	}
	if problem == "" && !within {
		problem = fmt.Sprintf("the certificate is not for %s: it is for %s", listener.Hostname, cmp.Or(model.Some(file.Names, maxNamesTold), "no DNS name"))
	}
	if c.isUsable(listener.Name, secret, &file, problem) {
		certificate := render.Certificate{Secret: secret, Names: c.untaken(listener.Name, names, file.KeyType), KeyType: file.KeyType.String()}
		c.certificates[listener.Name] = append(c.certificates[listener.Name], certificate)
	}
}

// plain is a listener that was found to have good certificates, and to ask clients for none.
type plain struct {
	hostname string
	tls      *routing.TLS
	// versions are the versions of its Secrets.
	versions     []int
	certificates []render.Certificate
	// from is when that was found, and until is when time alone changes it.
	from, until time.Time
}

// listener collects what a listener has. Most have the same as before.
func (c *collector) listener(listener *routing.Listener) {
	if known := c.files.plain[listener.Name]; known != nil && c.isSame(known, listener) {
		c.certificates[listener.Name] = known.certificates
		c.changesAt(known.until)
		return
	}
	problems, unmounted, until := len(c.problems), c.unmounted, c.until
	c.until, c.unmounted, c.taken = time.Time{}, "", map[takenName]bool{}
	for _, secret := range listener.TLS.Secrets {
		c.certificate(listener, secret)
	}
	isPlain := len(c.problems) == problems && c.unmounted == "" && len(listener.TLS.ClientCAs) == 0
	for _, configMap := range listener.TLS.ClientCAs {
		if !c.authority(listener.Name, configMap) {
			// It is not served, so HAProxy does not see its certificates.
			delete(c.certificates, listener.Name)
		}
	}
	if delete(c.files.plain, listener.Name); isPlain && c.files.plain != nil {
		known := &plain{hostname: listener.Hostname, tls: listener.TLS, certificates: c.certificates[listener.Name], from: c.from, until: c.until}
		for _, secret := range listener.TLS.Secrets {
			known.versions = append(known.versions, c.files.versions[secret])
		}
		c.files.plain[listener.Name] = known
	}
	c.unmounted = cmp.Or(unmounted, c.unmounted)
	c.changesAt(until)
	if len(listener.TLS.ClientCAs) == 0 { // otherwise, it may have none because nobody may get in
		c.awaitTurn(listener)
	}
}

// isSame reports whether a listener has what it had.
func (c *collector) isSame(known *plain, listener *routing.Listener) bool {
	if known.hostname != listener.Hostname || known.tls != listener.TLS && !reflect.DeepEqual(known.tls, listener.TLS) {
		return false
	}
	if c.now.Before(known.from) || !c.now.Before(known.until) && !known.until.IsZero() {
		return false
	}
	for i, secret := range listener.TLS.Secrets {
		if known.versions[i] != c.files.versions[secret] {
			return false
		}
	}
	known.tls = listener.TLS
	return true
}

// certificateForBackends checks the client certificate for backends. It may be for any name.
func (c *collector) certificateForBackends(secret string) {
	file, ok := c.files.certificate(secret)
	if !ok {
		c.unknown("", kindSecret, secret)
		return
	}
	c.backendCertificate = c.isUsable("", secret, &file, c.problemOf(&file))
}

// problemOf returns why a certificate cannot be used now, "" if it can.
func (c *collector) problemOf(file *certificateFile) string {
	if file.problem != "" {
		return file.problem
	}
	problem, until := certificates.CheckTime(file.NotBefore, file.NotAfter, c.now)
	c.changesAt(until)
	return problem
}

// isUsable reports whether a certificate can be used, given what is wrong with it, and notes the problem.
func (c *collector) isUsable(listener, secret string, file *certificateFile, problem string) bool {
	if problem != "" {
		c.problem(listener, kindSecret, secret, cmp.Or(file.outdated, problem))
		return false
	}
	if file.outdated != "" {
		c.problem(listener, kindSecret, secret, file.outdated+"; what it held before goes on")
	}
	return true
}

// changesAt notes when something changes, unless that is never.
func (c *collector) changesAt(t time.Time) {
	if c.until.IsZero() || !t.IsZero() && t.Before(c.until) {
		c.until = t
	}
}

// users notes the problems of a file that has users, API keys or keys of sessions, and of the issuer beside it.
func (c *collector) users(file model.SecretFile) {
	issuer := file.Issuer
	file.Issuer = ""
	problem, ok := c.files.usersOf(file)
	if !ok {
		c.unknown("", kindSecret, file.Secret)
		return
	}
	problems := []string{problem}
	if issuer != "" && problem != missing(file.File) {
		problems = append(problems, login.IssuerProblem(c.files.issuers[file.Secret], issuer))
	}
	for _, problem := range problems {
		if problem != "" {
			c.problem("", kindSecret, file.Secret, problem)
			c.problems[len(c.problems)-1].Reason = appv1.ProblemInvalidUsersRef
		}
	}
}

// unknown notes that an object is unknown. That is a problem once it takes too long.
func (c *collector) unknown(listener, kind, name string) {
	if c.files.unknown != nil {
		key := keystream.Key(kind, name)
		since, ok := c.files.unknown[key]
		if !ok {
			since, c.files.unknown[key] = c.now, c.now
		}
		if until := since.Add(unknownTime); c.now.Before(until) {
			c.changesAt(until)
		} else {
			c.problem(listener, kind, name, "the key server has not told of it")
			return
		}
	}
	c.unmounted = cmp.Or(c.unmounted, kind+" "+c.namespace+"/"+name)
}

func (c *collector) problem(listener, kind, name, problem string) {
	c.problems = append(c.problems, newProblem(listener, kind, c.namespace, name, problem))
}

// newProblem makes a problem of an object.
func newProblem(listener, kind, namespace, name, problem string) appv1.ProxyProblem {
	told := appv1.ProxyProblem{
		Origin:   appv1.ProblemOrigin{Kind: kind, Namespace: namespace, Name: name},
		Listener: listener,
		Reason:   appv1.ProblemInvalidCertificateRef,
		Message:  kind + " " + namespace + "/" + name + ": " + problem,
	}
	if kind == kindConfigMap {
		told.Reason = appv1.ProblemInvalidCACertificateRef
	}
	return told
}
