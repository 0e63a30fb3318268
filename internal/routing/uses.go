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
	// Route and Index name the rule.
	Route string
	Index int
}

// uses are what hosts refer to, with how often.
type uses struct {
	backends tree.Counted[Backend]
	secrets  tree.Counted[model.SecretFile]
	ruleSets tree.Counted[string]
	// keyUses are the uses of all sources, and keys the uses of each.
	keyUses tree.Counted[KeyUse]
	keys    tree.Editor[tree.Map[KeyUse]]
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
		rule.eachBackend(func(backend Backend) { u.backends.Count(backend.String(), backend, n) })
		for _, mount := range rule.Mounts() {
			if mount.Secret != "" {
				u.secrets.Count(mount.Secret+"/"+mount.File+" "+mount.Issuer, mount.SecretFile, n)
			}
		}
		if rule.WAF != nil && rule.WAF.Settings.Rules != "" {
			u.ruleSets.Count(rule.WAF.Settings.Rules, rule.WAF.Settings.Rules, n)
		}
		rule.eachKeySource(func(from KeySource) {
			u.changeKeys(fmt.Sprintf("%q", from), fmt.Sprintf("%s %06d", rule.LogName(), rule.Index), KeyUse{from, rule.Route, rule.Index}, n)
		})
	}
}

// changeKeys counts a rule that needs the keys of a source.
func (u *uses) changeKeys(source, name string, use KeyUse, n int) {
	u.keyUses.Count(source+name, use, n)
	rules, _ := u.keys.Get(source)
	if use, ok := u.keyUses.Get(source + name); ok {
		rules = rules.With(name, use)
	} else {
		rules = rules.Without(name)
	}
	if u.keys.Set(source, rules); rules.Len() == 0 {
		u.keys.Delete(source)
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
	if r.PreRouting != nil {
		f(r.PreRouting.Backend)
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
