package routing

import (
	"fmt"

	"gateway/internal/model"
	"gateway/internal/tree"
)

// Uses are what the rules of a table refer to.
type Uses struct {
	// Backends are Service ports, by their texts, without the one that stands for none.
	Backends tree.Map[Backend]
	// SecretFiles are files of Secrets, by their paths and issuers.
	SecretFiles tree.Map[model.SecretFile]
	// Keys are the rules that need keys of tokens from each source, by the text of the source and what names the rule.
	Keys tree.Map[tree.Map[KeyUse]]
	// RuleSets are the ConfigMaps with rules of WAFs, by name.
	RuleSets tree.Map[string]
}

// KeyUse is a rule that needs keys of tokens.
type KeyUse struct {
	From KeySource
	// Route and Index are those of the rule.
	Route string
	Index int
}

// uses counts how often hosts refer to something.
type uses struct {
	backends tree.Editor[Backend]
	secrets  tree.Editor[model.SecretFile]
	keys     tree.Editor[tree.Map[KeyUse]]
	ruleSets tree.Editor[string]
	counts   map[string]int
}

// now returns what hosts refer to.
func (u *uses) now() Uses {
	return Uses{u.backends.Map(), u.secrets.Map(), u.keys.Map(), u.ruleSets.Map()}
}

// change counts what a host refers to, n times.
func (u *uses) change(host *Host, n int) {
	if host == nil {
		return
	}
	var last *Rule
	for i := range host.Entries {
		rule := host.Entries[i].Rule
		if rule == last {
			continue
		}
		last = rule
		rule.eachBackend(func(backend Backend) {
			key := backend.String()
			u.count("b"+key, n, func() { u.backends.Set(key, backend) }, func() { u.backends.Delete(key) })
		})
		for _, mount := range rule.Mounts() {
			if mount.Secret == "" {
				continue
			}
			file := mount.SecretFile
			path := file.Secret + "/" + file.File + " " + file.Issuer
			u.count("s"+path, n, func() { u.secrets.Set(path, file) }, func() { u.secrets.Delete(path) })
		}
		if rule.WAF != nil && rule.WAF.Settings.Rules != "" {
			name := rule.WAF.Settings.Rules
			u.count("w"+name, n, func() { u.ruleSets.Set(name, name) }, func() { u.ruleSets.Delete(name) })
		}
		rule.eachKeySource(func(from KeySource) {
			source, name := fmt.Sprintf("%q", from), fmt.Sprintf("%s %06d", rule.LogName(), rule.Index)
			rules, _ := u.keys.Get(source)
			u.count("k"+source+name, n, func() {
				u.keys.Set(source, rules.With(name, KeyUse{from, rule.Route, rule.Index}))
			}, func() {
				if rules = rules.Without(name); rules.Len() == 0 {
					u.keys.Delete(source)
				} else {
					u.keys.Set(source, rules)
				}
			})
		})
	}
}

// count adds to a number. It calls add for what was not there before, and remove for what is not there any more.
func (u *uses) count(key string, n int, add, remove func()) {
	before := u.counts[key]
	switch now := before + n; {
	case now == 0:
		delete(u.counts, key)
		remove()
	case before == 0:
		add()
		fallthrough
	default:
		u.counts[key] = now
	}
}

// eachKeySource calls f for where the keys of tokens are that a rule needs, unless they are in the rule.
func (r *Rule) eachKeySource(f func(KeySource)) {
	if r.JWT == nil {
		return
	}
	for i := range r.JWT.Issuers {
		if from := r.JWT.Issuers[i].KeysFrom; from != (KeySource{}) {
			f(from)
		}
	}
}

// eachBackend calls f for the Service ports that a rule refers to.
func (r *Rule) eachBackend(f func(Backend)) {
	for i := range r.Targets {
		if backend := r.Targets[i].Backend; backend != (Backend{}) {
			f(backend)
		}
	}
	if r.ExternalAuth != nil {
		f(r.ExternalAuth.Backend)
	}
	for _, override := range r.Overrides {
		if override.Backend != (Backend{}) {
			f(override.Backend)
		}
	}
	for _, mirror := range r.Mirrors {
		f(mirror.Backend)
	}
}
