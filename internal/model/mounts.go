package model

import (
	"strings"

	"gateway/internal/certificates"
)

// Mount is what the pods mount for a filter: a Secret, or ConfigMaps.
type Mount struct {
	// Filter is the type of the filter.
	Filter string
	// SecretFile is what the filter needs of a Secret; zero: it needs ConfigMaps.
	SecretFile
	ConfigMaps []string
	// Of is what proxies report problems about: the Secret or ConfigMap, or the URL that the ConfigMaps are for.
	Of string
}

// SecretFile is a file of a Secret.
type SecretFile struct {
	Secret, File string
	// Issuer is what IssuerFile beside it has to name; "": nothing.
	Issuer string
}

// Kind is the kind of what is mounted.
func (m *Mount) Kind() string {
	if m.Secret != "" {
		return "Secret"
	}
	return "ConfigMap"
}

// Names are the names of the mounted objects.
func (m *Mount) Names() []string {
	if m.Secret != "" {
		return []string{m.Secret}
	}
	return m.ConfigMaps
}

// Mounts are what the filters of the action need.
func (a *Action) Mounts() []Mount {
	var all []Mount
	secret := func(filter string, file SecretFile) {
		all = append(all, Mount{Filter: filter, SecretFile: file, Of: file.Secret})
	}
	if a.BasicAuth != nil {
		secret("BasicAuth", SecretFile{Secret: a.BasicAuth.Secret, File: certificates.UsersFile})
	}
	if a.APIKey != nil {
		secret("APIKey", SecretFile{Secret: a.APIKey.Secret, File: certificates.APIKeysFile})
	}
	if a.OIDC != nil {
		secret("OIDC", SecretFile{a.OIDC.Login.Secret, certificates.SessionKeysFile, a.OIDC.Login.Issuer})
		if authorities := a.OIDC.Login.Authorities; len(authorities) > 0 {
			all = append(all, Mount{Filter: "OIDC", ConfigMaps: authorities, Of: authorities[0]})
		}
	}
	if a.JWT != nil {
		for i := range a.JWT.Issuers {
			switch from := a.JWT.Issuers[i].KeysFrom; {
			case from.URL != "":
				all = append(all, Mount{Filter: "JWT", ConfigMaps: strings.Split(from.Authorities, ","), Of: from.URL})
			case from.ConfigMap != "":
				all = append(all, Mount{Filter: "JWT", ConfigMaps: []string{from.ConfigMap}, Of: from.ConfigMap})
			}
		}
	}
	if a.WAF != nil && a.WAF.Settings.Rules != "" {
		all = append(all, Mount{Filter: "WAF", ConfigMaps: []string{a.WAF.Settings.Rules}, Of: a.WAF.Settings.Rules})
	}
	return all
}
