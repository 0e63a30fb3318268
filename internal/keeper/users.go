package keeper

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/ir"
	"gateway/internal/inventory"
	"gateway/internal/logging"
	"gateway/internal/login"
	"gateway/internal/passwords"
)

// passUsers passes on users, API keys and keys of sessions. HAProxy need not be asked about them.
func (k *Keeper) passUsers(c *changes) {
	lists := map[string]passwords.List{}
	keys := map[string][]ir.MapEntry{certificates.APIKeysMap: nil, certificates.SessionKeysMap: nil}
	for _, secret := range slices.Sorted(maps.Keys(k.small)) {
		entry := inventory.Entry{Issuer: k.small[secret][certificates.IssuerFile]}
		for file, parse := range map[string]func([]byte) (problem string){
			certificates.UsersFile: func(content []byte) (problem string) {
				lists[secret], problem = passwords.Parse(content)
				return problem
			},
			certificates.APIKeysFile: func(content []byte) string {
				found, problem := passwords.ParseKeys(content)
				keys[certificates.APIKeysMap] = append(keys[certificates.APIKeysMap], keyEntries(secret, found)...)
				return problem
			},
			certificates.SessionKeysFile: func(content []byte) string {
				found, problem := login.ParseKeys(content)
				for _, key := range found {
					keys[certificates.SessionKeysMap] = append(keys[certificates.SessionKeysMap], ir.MapEntry{Key: key.ID + "/" + secret, Value: key.HAProxyKey()})
				}
				return problem
			},
		} {
			content, ok := k.small[secret][file]
			if !ok {
				continue
			}
			if entry.Files == nil {
				entry.Files = map[string]string{}
			}
			problem := parse(content)
			if before, ok := k.shown.Values[inventory.SecretKey(secret)].Files[file]; problem != "" && (!ok || before != problem) {
				logging.Warningf("Secret %s: %s", secret, problem)
			}
			entry.Files[file] = problem
		}
		shown := k.entry(c, secret)
		shown.Files, shown.Issuer = entry.Files, entry.Issuer
	}
	k.Users.Set(lists)
	k.forgetUsers(c)
	for file, entries := range keys {
		content := mapFile(entries)
		if before, err := os.ReadFile(filepath.Join(k.Pairs, file)); err == nil && !bytes.Equal(before, content) || err != nil && len(entries) > 0 {
			c.pairs[file] = content
		}
	}
	k.keys = keys
}

// forgetUsers notes which Secrets have no users any more.
func (k *Keeper) forgetUsers(c *changes) {
	for key, entry := range k.shown.Values {
		secret, _ := inventory.Parse(key)
		if (len(entry.Files) > 0 || entry.Issuer != nil) && k.small[secret] == nil {
			shown := k.entry(c, secret)
			shown.Files, shown.Issuer = nil, nil
		}
	}
}

// keyEntries returns the entries for the API keys of a Secret: see ir.Paths.APIKeysMap.
func keyEntries(secret string, keys passwords.Keys) []ir.MapEntry {
	if len(keys) == 0 {
		return nil
	}
	entries := []ir.MapEntry{{Key: secret, Value: "1"}}
	for _, hash := range slices.Sorted(maps.Keys(keys)) {
		entries = append(entries, ir.MapEntry{Key: hash + "/" + secret, Value: keys[hash]})
	}
	return entries
}

// mapFile returns the file of a map.
func mapFile(entries []ir.MapEntry) []byte {
	var b bytes.Buffer
	for _, entry := range entries {
		b.WriteString(entry.Key + " " + entry.Value + "\n")
	}
	return b.Bytes()
}
