package resources

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/proxypod"
)

const (
	configDir = "/etc/haproxy"
	runDir    = "/run/haproxy"
	tokenDir  = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // a path, no credential

	// startupSeconds is how long the agent may take until the first configuration is on disk: it has to read its Gateway
	// and everything behind it from the API server.
	startupSeconds = 120

	// hangingSeconds is what a container has to end if it fails its liveness probe: there is nothing left to drain.
	hangingSeconds = 5
)

// sidecar is a native sidecar that runs a program of ours, which logs to standard error.
func sidecar(name, program string, options Options, args ...string) *corev1ac.ContainerApplyConfiguration {
	log := "-logtostderr"
	if options.JSONLogs {
		log = "-log-format=json"
	}
	return corev1ac.Container().
		WithName(name).
		WithImage(options.AgentImage).
		WithRestartPolicy(corev1.ContainerRestartPolicyAlways).
		WithCommand(program).
		WithArgs(args...).
		WithArgs(log).
		WithSecurityContext(restricted())
}

// keeper is the native sidecar that checks certificates and passes them on: pairs to HAProxy, what it knows of them to
// the agent. It tells HAProxy whether users may log in, and connects to endpoints whose certificates HAProxy cannot
// verify. It starts before both, holds no token of the API server, and listens to HAProxy alone.
func keeper(mounted content, options Options) []*corev1ac.ContainerApplyConfiguration {
	if !mounted.hasKeys() {
		return nil
	}
	secrets := mount(secretsVolume, secretsDir)
	if !mounted.server {
		secrets.WithReadOnly(true)
	}
	container := sidecar(proxypod.KeysContainer, "/gateway-keys", options,
		"-secrets-dir="+secretsDir, "-pairs-dir="+proxypod.HAProxyCertificatesDir, "-certificates-dir="+proxypod.CertificatesDir,
		"-config-dir="+configDir, "-haproxy-socket="+proxypod.KeysSocket, "-users-socket="+proxypod.UsersSocket, "-relay-socket="+proxypod.RelaySocket).
		WithVolumeMounts(
			secrets,
			mount(keysVolume, proxypod.HAProxyCertificatesDir),
			mount(keysRunVolume, proxypod.KeysRunDir),
			mount(certificatesVolume, proxypod.CertificatesDir),
			mount(configVolume, configDir).WithReadOnly(true),
		)
	if !mounted.server {
		return []*corev1ac.ContainerApplyConfiguration{container.WithResources(sidecarResources("1m", "8Mi", "128Mi"))}
	}
	// The files that it passes on count as its memory, which grows with the Gateway.
	return []*corev1ac.ContainerApplyConfiguration{container.WithResources(sidecarResources("1m", "16Mi", "")).
		WithArgs("-key-server="+options.KeyServer, "-key-server-token="+keyServerDir+"/token", "-key-server-ca="+keyServerDir+"/ca.crt",
			"-logins-dir="+loginsDir, "-authorities-dir="+proxypod.AuthoritiesDir).
		WithVolumeMounts(
			mount(loginsVolume, loginsDir),
			mount(authoritiesVolume, proxypod.AuthoritiesDir),
			mount(keyServerVolume, keyServerDir).WithReadOnly(true),
		)}
}

// login is the native sidecar that asks OpenID providers who users are. Only pods whose Gateway needs it have it. It
// has no token, and no way to command HAProxy: it reaches networks, and HAProxy holds keys of certificates.
func login(mounted content, options Options) []*corev1ac.ContainerApplyConfiguration {
	if !mounted.hasLogin() {
		return nil
	}
	container := sidecar(proxypod.LoginContainer, "/gateway-login", options,
		"-secrets-dir="+loginsDir, "-authorities-dir="+proxypod.AuthoritiesDir, "-socket="+proxypod.LoginSocket).
		WithResources(sidecarResources("1m", "8Mi", "128Mi")).
		WithVolumeMounts(
			mount(loginsVolume, loginsDir).WithReadOnly(true),
			mount(loginRunVolume, proxypod.LoginRunDir),
		)
	if mounted.hasConfigMaps() {
		container.WithVolumeMounts(mount(authoritiesVolume, proxypod.AuthoritiesDir).WithReadOnly(true))
	}
	return []*corev1ac.ContainerApplyConfiguration{container}
}

// firewall is the native sidecar that looks at requests. Without a key server, only pods whose Gateway needs it have
// it. It has no token, no Secret and no way to command HAProxy. HAProxy starts after it has read its rules. With a key
// server, it reads them once it is asked about a request, and takes little before: the first WAF replaces no pods.
func firewall(mounted content, options Options) []*corev1ac.ContainerApplyConfiguration {
	if !mounted.hasWAF() {
		return nil
	}
	container := sidecar(proxypod.WAFContainer, "/gateway-waf", options, "-socket="+proxypod.WAFSocket).
		WithVolumeMounts(mount(wafRunVolume, proxypod.WAFRunDir))
	if mounted.server {
		container.WithArgs("-on-demand").WithResources(sidecarResources("1m", "16Mi", "512Mi"))
	} else {
		container.WithResources(sidecarResources("10m", "64Mi", "512Mi")).
			WithStartupProbe(corev1ac.Probe().WithExec(corev1ac.ExecAction().WithCommand("/gateway-waf", "-ask", "-socket="+proxypod.WAFSocket)).
				WithPeriodSeconds(1).WithFailureThreshold(startupSeconds))
	}
	if mounted.hasConfigMaps() {
		container.WithArgs("-rules-dir=" + proxypod.AuthoritiesDir).
			WithVolumeMounts(mount(authoritiesVolume, proxypod.AuthoritiesDir).WithReadOnly(true))
	}
	return []*corev1ac.ContainerApplyConfiguration{container}
}

// agent is the native sidecar that writes HAProxy's configuration. It starts before HAProxy, which starts once
// /startupz reports a configuration, and stops after it: kubelet tells it at once that the pod is to stop. A pod stays
// ready to kubelet during the stopDelay, since kube-proxy sends connections to pods that stop and serve if a node has
// no others.
// It holds the API token, which HAProxy's container does not, and no key, which HAProxy's container does. It has no
// limit of memory, since it takes what its Gateway takes; if a LimitRange sets one, Go knows it.
func agent(gateway *appv1.Gateway, mounted content, options Options) *corev1ac.ContainerApplyConfiguration {
	return sidecar(agentContainer, "/gateway-agent", options, "-gateway="+gateway.Name).
		WithArgs(mountArgs(mounted)...).
		WithEnv(nodeAddresses(gateway)...).
		WithEnv(fromPod("POD_NAME", "metadata.name"), fromPod("POD_NAMESPACE", "metadata.namespace"), fromPod("POD_UID", "metadata.uid"),
			fromPod("NODE_NAME", "spec.nodeName"), fromPod("ZONE", "metadata.labels['"+corev1.LabelTopologyZone+"']")).
		WithEnv(corev1ac.EnvVar().WithName("STOP_DELAY").WithValue(fmt.Sprintf("%ds", stopDelay(gateway)))).
		WithEnv(corev1ac.EnvVar().WithName("GOMEMLIMIT").WithValueFrom(corev1ac.EnvVarSource().WithResourceFieldRef(
			corev1ac.ResourceFieldSelector().WithResource("limits.memory").WithDivisor(resource.MustParse("1"))))).
		WithPorts(containerPort("agent", proxypod.HealthPort)).
		WithResources(sidecarResources("10m", "32Mi", "")).
		WithStartupProbe(probe("/startupz", proxypod.HealthPort).WithPeriodSeconds(1).WithFailureThreshold(startupSeconds)).
		WithReadinessProbe(probe("/servingz", proxypod.HealthPort).WithPeriodSeconds(1).WithFailureThreshold(3)).
		WithLivenessProbe(probe("/healthz", proxypod.HealthPort).WithPeriodSeconds(10).WithFailureThreshold(3).
			WithTerminationGracePeriodSeconds(hangingSeconds)).
		WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
			WithExec(corev1ac.ExecAction().WithCommand("/gateway-agent", "-stop")))).
		WithVolumeMounts(
			mount(configVolume, configDir),
			mount(runVolume, runDir),
			mount(tokenVolume, tokenDir).WithReadOnly(true),
		).
		WithVolumeMounts(agentTLSMounts(mounted)...)
}

// nodeAddresses tell the agent where the node passes connections on to the pod. It reports the addresses, so that
// nobody has to read nodes.
func nodeAddresses(gateway *appv1.Gateway) []*corev1ac.EnvVarApplyConfiguration {
	if !gateway.Spec.Pods.HostPorts {
		return nil
	}
	return []*corev1ac.EnvVarApplyConfiguration{fromPod("HOST_IPS", "status.hostIPs"), fromPod("POD_IPS", "status.podIPs")}
}

// haproxy is the proxy itself, as master and worker. It declares only listener ports of the node: others change
// without a new pod. It holds the keys of certificates and no API token. Its CPU limit is in whole CPUs, rounded up.
// Without a limit, it is the CPUs of the node.
func haproxy(gateway *appv1.Gateway, mounted content, image string) *corev1ac.ContainerApplyConfiguration {
	container := corev1ac.Container().
		WithName(proxypod.HAProxyContainer).
		WithImage(image).
		WithCommand("haproxy", "-W", "-db", "-S", runDir+"/master.sock,mode,600",
			"-f", configDir+"/current/load.cfg", "-f", configDir+"/current/haproxy.cfg").
		WithEnv(corev1ac.EnvVar().WithName(ir.CPULimit).WithValueFrom(corev1ac.EnvVarSource().WithResourceFieldRef(
			corev1ac.ResourceFieldSelector().WithResource("limits.cpu").WithDivisor(resource.MustParse("1"))))).
		WithPorts(containerPort("metrics", metricsPort)).
		WithPorts(hostPorts(gateway)...).
		WithLivenessProbe(probe("/healthz", metricsPort).WithPeriodSeconds(10).WithFailureThreshold(3).
			WithTerminationGracePeriodSeconds(hangingSeconds)).
		WithLifecycle(corev1ac.Lifecycle().WithPreStop(corev1ac.LifecycleHandler().
			WithSleep(corev1ac.SleepAction().WithSeconds(stopDelay(gateway))))).
		WithSecurityContext(restricted()).
		WithVolumeMounts(
			mount(configVolume, configDir).WithReadOnly(true),
			mount(runVolume, runDir),
		).
		WithVolumeMounts(haproxyTLSMounts(mounted)...)
	return container.WithResources(proxyResources(gateway.Spec.Pods.Resources))
}

// hostPorts are the listeners' ports as ports of the node. The pod has a network of its own: in the node's, sysctls of
// the pod are refused, a NetworkPolicy does not hold, and ports 8404 and 8405 would be the node's.
func hostPorts(gateway *appv1.Gateway) []*corev1ac.ContainerPortApplyConfiguration {
	if !gateway.Spec.Pods.HostPorts {
		return nil
	}
	var ports []*corev1ac.ContainerPortApplyConfiguration
	open := func(number int32, protocol corev1.Protocol) {
		ports = append(ports, corev1ac.ContainerPort().WithProtocol(protocol).WithContainerPort(number).WithHostPort(number))
	}
	for _, port := range listenerPorts(gateway) {
		open(port.number, corev1.ProtocolTCP)
		if port.hasHTTP3 {
			open(port.number, corev1.ProtocolUDP)
		}
	}
	return ports
}

// The limits of HAProxy's memory by default. docs/explanation/security.md describes what needs it.
const (
	memoryLimit   = "1Gi"
	memoryRequest = "128Mi"
)

// proxyResources are the resources that the Gateway asks for, and always a limit for memory. Without a request, the
// request would equal the limit, so a default limit comes with a request.
func proxyResources(resources appv1.PodResources) *corev1ac.ResourceRequirementsApplyConfiguration {
	limits, requests := rounded(resources.Limits), rounded(resources.Requests)
	if _, ok := limits[corev1.ResourceMemory]; !ok {
		limit, request := resource.MustParse(memoryLimit), resource.MustParse(memoryRequest)
		if asked, ok := requests[corev1.ResourceMemory]; ok {
			request = asked
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		limits[corev1.ResourceMemory], requests[corev1.ResourceMemory] = limit, request
	}
	requirements := corev1ac.ResourceRequirements().WithLimits(limits)
	if len(requests) > 0 {
		requirements.WithRequests(requests)
	}
	return requirements
}

// sidecarResources are the resources of a container that users do not size.
func sidecarResources(cpu, memory, limit string) *corev1ac.ResourceRequirementsApplyConfiguration {
	resources := corev1ac.ResourceRequirements().
		WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)})
	if limit == "" {
		return resources
	}
	return resources.WithLimits(corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)})
}

// rounded are quantities as the API server stores them: rounded up to thousandths (SetDefaults_ResourceList in
// k8s.io/kubernetes). With other quantities, the Deployment would never equal the desired one.
func rounded(list corev1.ResourceList) corev1.ResourceList {
	list = maps.Clone(list)
	if list == nil {
		list = corev1.ResourceList{}
	}
	for name, quantity := range list {
		quantity.RoundUp(resource.Milli)
		list[name] = quantity
	}
	return list
}

// restricted is what the "restricted" Pod Security Standard demands of a container, and a read-only root file system.
func restricted() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().
		WithReadOnlyRootFilesystem(true).
		WithAllowPrivilegeEscalation(false).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
}

func fromPod(name, fieldPath string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().
		WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath(fieldPath)))
}

func containerPort(name string, port int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithProtocol(corev1.ProtocolTCP).WithContainerPort(port)
}

func probe(path string, port int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromInt32(port)))
}

func mount(volume, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(volume).WithMountPath(path)
}
