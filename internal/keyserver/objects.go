package keyserver

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/certificates"
	"gateway/internal/keystream"
	"gateway/internal/proxypod"
	"gateway/internal/waf"
)

// use is what an object is for. Pods get the files for that.
type use uint8

const (
	useCertificate use = 1 << iota
	useUsers
	useLogin
	useConfigMap
)

// filesFor are the files for each use.
var filesFor = map[use][]string{
	useCertificate: {certificates.CertificateFile, certificates.KeyFile},
	useUsers:       {certificates.UsersFile, certificates.APIKeysFile, certificates.SessionKeysFile, certificates.IssuerFile},
	useLogin:       {certificates.SessionKeysFile, certificates.ClientSecretFile, certificates.IssuerFile},
	useConfigMap:   {certificates.AuthorityFile, certificates.RevocationsFile, proxypod.KeySetFile, waf.RulesFile},
}

// files returns the names of the files for several uses.
func (u use) files() []string {
	var all []string
	for one, files := range filesFor {
		if u&one != 0 {
			all = append(all, files...)
		}
	}
	return all
}

// object is a Secret or ConfigMap, with the files of it that pods may need.
type object struct {
	id
	files map[string][]byte
	// shown are what pods get, by the uses. It is filled as it is needed.
	shown map[use]*content
}

// id identifies a Secret or ConfigMap.
type id struct{ kind, namespace, name string }

// content is what pods get of an object.
type content struct {
	files  map[string][]byte
	digest string
}

// none is the content of an object that is not there, and unnamed of one that the Gateway does not name.
var none, unnamed = new(content), new(content)

// newObject returns the part that is kept of a Secret or ConfigMap.
func newObject(of metav1.Object) *object {
	o := &object{shown: map[use]*content{}}
	switch of := of.(type) {
	case *corev1.Secret:
		o.id, o.files = id{keystream.KindSecret, of.Namespace, of.Name}, of.Data
	case *corev1.ConfigMap:
		o.id, o.files = id{keystream.KindConfigMap, of.Namespace, of.Name}, of.BinaryData
	}
	return o
}

// show returns what pods get of an object for some uses.
func (o *object) show(uses use) *content {
	if o == nil {
		return none
	}
	if known := o.shown[uses]; known != nil {
		return known
	}
	c := &content{files: map[string][]byte{}}
	for _, name := range uses.files() {
		if file, ok := o.files[name]; ok {
			c.files[name] = file
		}
	}
	c.digest = keystream.Digest(c.files)
	o.shown[uses] = c
	return c
}

// strip is the transform of the caches of Secrets and ConfigMaps: it keeps the files that pods may need. Those of a
// ConfigMap are kept as bytes.
func strip(obj any) (any, error) {
	switch of := obj.(type) {
	case *corev1.Secret:
		return &corev1.Secret{ObjectMeta: metadata(of), Data: only(of.Data, useCertificate|useUsers|useLogin)}, nil
	case *corev1.ConfigMap:
		files := of.BinaryData
		for name, text := range of.Data {
			if slices.Contains(filesFor[useConfigMap], name) {
				if files == nil {
					files = map[string][]byte{}
				}
				files[name] = []byte(text)
			}
		}
		return &corev1.ConfigMap{ObjectMeta: metadata(of), BinaryData: only(files, useConfigMap)}, nil
	}
	return obj, nil // a tombstone
}

// stripBinding is the transform of the caches of RoleBindings and ClusterRoleBindings. It keeps only the name, but for
// bindings of agents.
func stripBinding(obj any) (any, error) {
	switch of := obj.(type) {
	case *rbacv1.RoleBinding:
		kept := &rbacv1.RoleBinding{ObjectMeta: metadata(of)}
		if of.RoleRef.Name == attachedRole {
			kept.RoleRef, kept.Subjects = of.RoleRef, of.Subjects
		}
		return kept, nil
	case *rbacv1.ClusterRoleBinding:
		kept := &rbacv1.ClusterRoleBinding{ObjectMeta: metadata(of)}
		if of.RoleRef.Name == attachedRole {
			kept.RoleRef, kept.Subjects = of.RoleRef, of.Subjects
		}
		return kept, nil
	}
	return obj, nil // a tombstone
}

// metadata is the part that is kept of the metadata of an object.
func metadata(of metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: of.GetNamespace(), Name: of.GetName(), UID: of.GetUID(), ResourceVersion: of.GetResourceVersion(),
	}
}

// only returns the files for some uses.
func only(files map[string][]byte, uses use) map[string][]byte {
	var kept map[string][]byte
	for _, name := range uses.files() {
		if file, ok := files[name]; ok {
			if kept == nil {
				kept = map[string][]byte{}
			}
			kept[name] = file
		}
	}
	return kept
}
