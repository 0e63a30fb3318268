package keeper

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"

	"gateway/internal/certificates"
	"gateway/internal/inventory"
	"gateway/internal/keystream"
	"gateway/internal/volume"
)

// loginFiles are the files of a Secret that gateway-login needs.
var loginFiles = []string{certificates.SessionKeysFile, certificates.ClientSecretFile, certificates.IssuerFile}

// openKept reads what an earlier Keeper had of a key server. It returns the digests of what need not be sent again.
func (k *Keeper) openKept() (have map[string]string, err error) {
	if k.small, err = readKept(k.Secrets); err != nil {
		return nil, err
	}
	if k.configMaps, err = readKept(k.Authorities); err != nil {
		return nil, err
	}
	have = maps.Clone(k.passed.Values)
	maps.DeleteFunc(have, func(key, digest string) bool {
		secret, configMap := inventory.Parse(key)
		if configMap != "" {
			return keystream.Digest(k.configMaps[configMap]) != digest
		}
		entry := k.shown.Values[key]
		return (len(entry.Files) > 0 || entry.Issuer != nil) && k.small[secret] == nil
	})
	return have, k.keep(true, true)
}

// readKept returns the files of the objects in a volume.
func readKept(dir string) (map[string]files, error) {
	all := map[string]files{}
	read, err := volume.Read(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for path, content := range read {
		name, file := filepath.Split(path)
		name = filepath.Clean(name)
		if all[name] == nil {
			all[name] = files{}
		}
		all[name][file] = content
	}
	return all, nil
}

// keep writes what others read, or the next Keeper, if it came from a key server.
func (k *Keeper) keep(secrets, configMaps bool) error {
	if k.Server == nil {
		return nil
	}
	if secrets {
		all, logins := files{}, files{}
		for secret, content := range k.small {
			for file, text := range content {
				all[filepath.Join(secret, file)] = text
			}
			for _, file := range loginFiles {
				if _, isLogin := content[certificates.ClientSecretFile]; isLogin && content[file] != nil {
					logins[filepath.Join(secret, file)] = content[file]
				}
			}
		}
		if err := errors.Join(volume.Replace(k.Secrets, all), volume.Replace(k.Logins, logins)); err != nil {
			return err
		}
	}
	if !configMaps {
		return nil
	}
	all := files{}
	for configMap, content := range k.configMaps {
		for file, text := range content {
			all[filepath.Join(configMap, file)] = text
		}
	}
	return volume.Replace(k.Authorities, all)
}

// takeConfigMap notes a ConfigMap.
func (k *Keeper) takeConfigMap(object *object, c *changes) {
	if k.configMaps[object.Name] = object.Files; len(object.Files) == 0 {
		delete(k.configMaps, object.Name)
	}
	c.passed[keystream.Key(object.Kind, object.Name)] = &object.Digest
	c.entries[inventory.ConfigMapKey(object.Name)] = &inventory.Entry{Version: object.Digest}
}
