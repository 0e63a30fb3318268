package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"gateway/internal/certificates"
	"gateway/internal/proxypod"
	"gateway/internal/waf"
)

const (
	// secretsDir is where kubelet puts SECRET/tls.crt and SECRET/tls.key, or SECRET/auth, SECRET/api-keys,
	// SECRET/session-keys and SECRET/issuer, for each Secret. loginsDir is where the login container has
	// SECRET/session-keys, SECRET/client-secret and SECRET/issuer.
	secretsDir = "/etc/gateway/secrets"
	loginsDir  = "/etc/gateway/logins"

	secretsVolume      = "secrets"
	keysVolume         = "keys"
	keysRunVolume      = "keys-run"
	loginsVolume       = "logins"
	loginRunVolume     = "login-run"
	wafRunVolume       = "waf-run"
	certificatesVolume = "certificates"
	authoritiesVolume  = "authorities"

	// keysMode lets the pod's group alone read keys.
	keysMode = 0o440
)

// mountArgs tell the agent what is mounted. From the files alone, it cannot tell a Secret that does not exist from one
// that the Gateway names only since the pod was created.
func mountArgs(mounted proxypod.Mounts) []string {
	var args []string
	for _, name := range mounted.Certificates {
		args = append(args, "-secret="+name)
	}
	for _, name := range mounted.Users {
		args = append(args, "-users="+name)
	}
	for _, name := range mounted.ConfigMaps {
		args = append(args, "-configmap="+name)
	}
	if mounted.HasKeys() && !mounted.HasSecrets() {
		args = append(args, "-keys")
	}
	return args
}

// agentTLSMounts and haproxyTLSMounts are the mounts of tlsVolumes. The two containers share none of them: the agent,
// which holds the API token, gets no key.
func agentTLSMounts(mounted proxypod.Mounts) []*corev1ac.VolumeMountApplyConfiguration {
	var mounts []*corev1ac.VolumeMountApplyConfiguration
	if mounted.HasKeys() {
		mounts = append(mounts, mount(certificatesVolume, proxypod.CertificatesDir).WithReadOnly(true))
	}
	if len(mounted.ConfigMaps) > 0 {
		mounts = append(mounts, mount(authoritiesVolume, proxypod.AuthoritiesDir).WithReadOnly(true))
	}
	return mounts
}

func haproxyTLSMounts(mounted proxypod.Mounts) []*corev1ac.VolumeMountApplyConfiguration {
	var mounts []*corev1ac.VolumeMountApplyConfiguration
	if mounted.HasKeys() {
		mounts = append(mounts, mount(keysVolume, proxypod.HAProxyCertificatesDir).WithReadOnly(true), mount(keysRunVolume, proxypod.KeysRunDir))
	}
	if mounted.WAF {
		mounts = append(mounts, mount(wafRunVolume, proxypod.WAFRunDir))
	}
	if len(mounted.Logins) > 0 {
		mounts = append(mounts, mount(loginRunVolume, proxypod.LoginRunDir))
	}
	return mounts
}

// tlsVolumes are the Secrets and ConfigMaps that the Gateway names, which kubelet mounts, so that nobody needs
// permission to read them from the API server. The keys container passes its results on in memory, so no key is written
// to a disk. Secrets and ConfigMaps are optional: a missing one keeps no pod from starting.
func tlsVolumes(mounted proxypod.Mounts) []*corev1ac.VolumeApplyConfiguration {
	var volumes []*corev1ac.VolumeApplyConfiguration
	if mounted.HasKeys() {
		secrets := corev1ac.ProjectedVolumeSource().WithDefaultMode(keysMode)
		for _, name := range mounted.Certificates {
			secrets.WithSources(filesOf(name, certificates.CertificateFile, certificates.KeyFile))
		}
		for _, name := range mounted.Users {
			secrets.WithSources(filesOf(name, certificates.UsersFile, certificates.APIKeysFile, certificates.SessionKeysFile, certificates.IssuerFile))
		}
		volumes = append(volumes,
			corev1ac.Volume().WithName(secretsVolume).WithProjected(secrets),
			inMemory(keysVolume), inMemory(keysRunVolume), inMemory(certificatesVolume))
	}
	if len(mounted.Logins) > 0 {
		logins := corev1ac.ProjectedVolumeSource().WithDefaultMode(keysMode)
		for _, name := range mounted.Logins {
			logins.WithSources(filesOf(name, certificates.SessionKeysFile, certificates.ClientSecretFile, certificates.IssuerFile))
		}
		volumes = append(volumes, corev1ac.Volume().WithName(loginsVolume).WithProjected(logins), inMemory(loginRunVolume))
	}
	if mounted.WAF {
		volumes = append(volumes, inMemory(wafRunVolume))
	}
	if len(mounted.ConfigMaps) > 0 {
		authorities := corev1ac.ProjectedVolumeSource()
		for _, name := range mounted.ConfigMaps {
			authorities.WithSources(corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().
				WithName(name).WithOptional(true).WithItems(item(name, certificates.AuthorityFile),
				item(name, certificates.RevocationsFile), item(name, proxypod.KeySetFile), item(name, waf.RulesFile))))
		}
		volumes = append(volumes, corev1ac.Volume().WithName(authoritiesVolume).WithProjected(authorities))
	}
	return volumes
}

// filesOf are files of a Secret, where it has them.
func filesOf(secret string, files ...string) *corev1ac.VolumeProjectionApplyConfiguration {
	projection := corev1ac.SecretProjection().WithName(secret).WithOptional(true)
	for _, file := range files {
		projection.WithItems(item(secret, file))
	}
	return corev1ac.VolumeProjection().WithSecret(projection)
}

// inMemory is a volume of the pod in memory.
func inMemory(name string) *corev1ac.VolumeApplyConfiguration {
	return corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource().WithMedium(corev1.StorageMediumMemory))
}

func item(object, key string) *corev1ac.KeyToPathApplyConfiguration {
	return corev1ac.KeyToPath().WithKey(key).WithPath(object + "/" + key)
}
