package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/keystream"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
	"gateway/internal/waf"
)

const (
	// secretsDir is where kubelet puts SECRET/tls.crt and SECRET/tls.key, or SECRET/auth, SECRET/api-keys,
	// SECRET/session-keys and SECRET/issuer, for each Secret. With a key server, the keys container keeps them there.
	// loginsDir is where the login container has SECRET/session-keys, SECRET/client-secret and SECRET/issuer.
	secretsDir = "/etc/gateway/secrets"
	loginsDir  = "/etc/gateway/logins"
	// keyServerDir is where the keys container has its token for the key server, and the server's CA.
	keyServerDir = "/var/run/secrets/app.example.com/key-server"

	secretsVolume      = "secrets"
	keysVolume         = "keys"
	keysRunVolume      = "keys-run"
	loginsVolume       = "logins"
	loginRunVolume     = "login-run"
	wafRunVolume       = "waf-run"
	certificatesVolume = "certificates"
	authoritiesVolume  = "authorities"
	keyServerVolume    = "key-server"

	// keysMode lets the pod's group alone read keys.
	keysMode = 0o440
	// keyServerTokenSeconds is how long a token for the key server is valid: the least that the API server allows. kubelet
	// renews it in time.
	keyServerTokenSeconds = 600
)

// content is what pods need of Secrets and ConfigMaps. With a key server, pods get it from there, and are the same
// whatever is named.
type content struct {
	proxypod.Mounts
	server bool
}

func contentOf(gateway *appv1.Gateway, options Options) content {
	return content{source.MountsOf(gateway), options.KeyServer != ""}
}

// hasKeys, hasLogin, hasWAF and hasConfigMaps report whether pods have a keys container, a login container, a waf
// container, and ConfigMaps.
func (c content) hasKeys() bool       { return c.server || c.HasKeys() }
func (c content) hasLogin() bool      { return c.server || len(c.Logins) > 0 }
func (c content) hasWAF() bool        { return c.server || c.WAF }
func (c content) hasConfigMaps() bool { return c.server || len(c.ConfigMaps) > 0 }

// mountArgs tell the agent what is mounted. From the files alone, it cannot tell a Secret that does not exist from one
// that the Gateway names only since the pod was created.
func mountArgs(mounted content) []string {
	if mounted.server {
		return []string{"-key-server"}
	}
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
func agentTLSMounts(mounted content) []*corev1ac.VolumeMountApplyConfiguration {
	var mounts []*corev1ac.VolumeMountApplyConfiguration
	if mounted.hasKeys() {
		mounts = append(mounts, mount(certificatesVolume, proxypod.CertificatesDir).WithReadOnly(true))
	}
	if mounted.hasConfigMaps() {
		mounts = append(mounts, mount(authoritiesVolume, proxypod.AuthoritiesDir).WithReadOnly(true))
	}
	return mounts
}

func haproxyTLSMounts(mounted content) []*corev1ac.VolumeMountApplyConfiguration {
	var mounts []*corev1ac.VolumeMountApplyConfiguration
	if mounted.hasKeys() {
		mounts = append(mounts, mount(keysVolume, proxypod.HAProxyCertificatesDir).WithReadOnly(true), mount(keysRunVolume, proxypod.KeysRunDir))
	}
	if mounted.hasWAF() {
		mounts = append(mounts, mount(wafRunVolume, proxypod.WAFRunDir))
	}
	if mounted.hasLogin() {
		mounts = append(mounts, mount(loginRunVolume, proxypod.LoginRunDir))
	}
	return mounts
}

// tlsVolumes are the Secrets and ConfigMaps that the Gateway names, which kubelet mounts, so that nobody needs
// permission to read them from the API server. The keys container passes its results on in memory, so no key is written
// to a disk. With a key server, it passes on all of them.
func tlsVolumes(mounted content) []*corev1ac.VolumeApplyConfiguration {
	var volumes []*corev1ac.VolumeApplyConfiguration
	if mounted.hasKeys() {
		volumes = append(volumes, inMemory(keysVolume), inMemory(keysRunVolume), inMemory(certificatesVolume))
	}
	if mounted.hasLogin() {
		volumes = append(volumes, inMemory(loginRunVolume))
	}
	if mounted.hasWAF() {
		volumes = append(volumes, inMemory(wafRunVolume))
	}
	if mounted.server {
		return append(volumes, inMemory(secretsVolume), inMemory(loginsVolume), inMemory(authoritiesVolume),
			corev1ac.Volume().WithName(keyServerVolume).WithProjected(keyServerSources()))
	}
	return append(volumes, mountedVolumes(mounted.Mounts)...)
}

// keyServerSources are a token that the key server alone takes, and the server's CA.
func keyServerSources() *corev1ac.ProjectedVolumeSourceApplyConfiguration {
	return corev1ac.ProjectedVolumeSource().WithDefaultMode(keysMode).WithSources(
		corev1ac.VolumeProjection().WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
			WithAudience(keystream.Audience).WithPath("token").WithExpirationSeconds(keyServerTokenSeconds)),
		corev1ac.VolumeProjection().WithDownwardAPI(corev1ac.DownwardAPIProjection().WithItems(
			corev1ac.DownwardAPIVolumeFile().WithPath("ca.crt").WithFieldRef(corev1ac.ObjectFieldSelector().
				WithAPIVersion("v1").WithFieldPath("metadata.annotations['"+proxypod.AnnotationKeyServerCA+"']")))),
	)
}

// mountedVolumes are what kubelet mounts. Secrets and ConfigMaps are optional: a missing one keeps no pod from
// starting.
func mountedVolumes(mounted proxypod.Mounts) []*corev1ac.VolumeApplyConfiguration {
	var volumes []*corev1ac.VolumeApplyConfiguration
	if mounted.HasKeys() {
		secrets := corev1ac.ProjectedVolumeSource().WithDefaultMode(keysMode)
		for _, name := range mounted.Certificates {
			secrets.WithSources(filesOf(name, certificates.CertificateFile, certificates.KeyFile))
		}
		for _, name := range mounted.Users {
			secrets.WithSources(filesOf(name, certificates.UsersFile, certificates.APIKeysFile, certificates.SessionKeysFile, certificates.IssuerFile))
		}
		volumes = append(volumes, corev1ac.Volume().WithName(secretsVolume).WithProjected(secrets))
	}
	if len(mounted.Logins) > 0 {
		logins := corev1ac.ProjectedVolumeSource().WithDefaultMode(keysMode)
		for _, name := range mounted.Logins {
			logins.WithSources(filesOf(name, certificates.SessionKeysFile, certificates.ClientSecretFile, certificates.IssuerFile))
		}
		volumes = append(volumes, corev1ac.Volume().WithName(loginsVolume).WithProjected(logins))
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
