package resources

import (
	"math"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/policy"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
)

const (
	// proxyUser is the user and group of all containers: haproxy's in its official image. The same fsGroup lets the agent
	// write what HAProxy reads, and both use the sockets.
	proxyUser = 99

	// endSeconds is how long a pod has to end once its connections have been closed.
	endSeconds = 15

	// oldRevisions is how many rollouts can be inspected afterwards. Nothing rolls back to them: the operator would undo
	// it.
	oldRevisions = 2
)

// Options are the operator's own settings that children depend on.
type Options struct {
	// AgentImage is the image that holds /gateway-agent, /gateway-keys, /gateway-login and /gateway-waf.
	AgentImage string
	// HAProxyImage is the image whose PATH holds haproxy.
	HAProxyImage string
	// JSONLogs reports whether what runs beside HAProxy logs JSON.
	JSONLogs bool
	// Policy is what Gateways may ask for.
	Policy policy.Policy
	// KeyServer is the HOST:PORT where pods get Secrets and ConfigMaps; "": kubelet mounts them. KeyServerCA are the
	// certificates (PEM) that its own is verified with.
	KeyServer, KeyServerCA string
}

// DesiredDeployment is the Deployment of the proxy pods. Any change other than of the number of replicas replaces every
// pod. So the template contains only what cannot be changed in a running pod.
func DesiredDeployment(gateway *appv1.Gateway, options Options) *appsv1ac.DeploymentApplyConfiguration {
	spec := appsv1ac.DeploymentSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(proxypod.SelectorLabels(gateway.Name))).
		WithRevisionHistoryLimit(oldRevisions).
		// A rollout first adds pods and waits until they are ready: there are never fewer than asked for.
		WithStrategy(appsv1ac.DeploymentStrategy().
			WithType(k8sappsv1.RollingUpdateDeploymentStrategyType).
			WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
				WithMaxUnavailable(intstr.FromInt32(0)).
				WithMaxSurge(intstr.FromString("25%")))).
		WithTemplate(podTemplate(gateway, options))
	if gateway.Spec.Replicas != nil {
		spec.WithReplicas(*gateway.Spec.Replicas)
	}
	return appsv1ac.Deployment(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(inheritedLabels(gateway)).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithSpec(spec)
}

// DesiredDaemonSet is the DaemonSet of the proxy pods, for a Gateway that asks for one in place of a Deployment.
func DesiredDaemonSet(gateway *appv1.Gateway, options Options) *appsv1ac.DaemonSetApplyConfiguration {
	// As in a Deployment, the new pod of a node is ready before the old one ends.
	unavailable, surge := intstr.FromInt32(0), intstr.FromInt32(1)
	if gateway.Spec.Pods.HostPorts { // two pods on a node cannot have the same port
		unavailable, surge = surge, unavailable
	}
	return appsv1ac.DaemonSet(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(inheritedLabels(gateway)).
		WithLabels(childLabels(gateway.Name)).
		WithOwnerReferences(ownerReference(gateway)).
		WithSpec(appsv1ac.DaemonSetSpec().
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(proxypod.SelectorLabels(gateway.Name))).
			WithRevisionHistoryLimit(oldRevisions).
			WithUpdateStrategy(appsv1ac.DaemonSetUpdateStrategy().
				WithType(k8sappsv1.RollingUpdateDaemonSetStrategyType).
				WithRollingUpdate(appsv1ac.RollingUpdateDaemonSet().
					WithMaxUnavailable(unavailable).
					WithMaxSurge(surge))).
			WithTemplate(podTemplate(gateway, options)))
}

func podTemplate(gateway *appv1.Gateway, options Options) *corev1ac.PodTemplateSpecApplyConfiguration {
	template := corev1ac.PodTemplateSpec().
		WithLabels(inheritedLabels(gateway)).
		WithLabels(gateway.Spec.Pods.Labels).
		WithLabels(childLabels(gateway.Name)).
		WithAnnotations(gateway.Spec.Pods.Annotations).
		WithSpec(podSpec(gateway, options))
	if options.KeyServer != "" {
		template.WithAnnotations(map[string]string{proxypod.AnnotationKeyServerCA: options.KeyServerCA})
	}
	return template
}

func podSpec(gateway *appv1.Gateway, options Options) *corev1ac.PodSpecApplyConfiguration {
	mounted := contentOf(gateway, options)
	spec := corev1ac.PodSpec().
		WithServiceAccountName(proxypod.ChildName(gateway.Name)).
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(terminationGrace(gateway)).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).
			WithRunAsUser(proxyUser).
			WithRunAsGroup(proxyUser).
			WithFSGroup(proxyUser).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault)).
			// Lets HAProxy, which is not root, bind ports like 80. A "safe" sysctl: it is the pod's own.
			WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))).
		WithInitContainers(keeper(mounted, options)...).
		WithInitContainers(login(mounted, options)...).
		WithInitContainers(firewall(mounted, options)...).
		WithInitContainers(agent(gateway, mounted, options)).
		WithContainers(haproxy(gateway, mounted, options.HAProxyImage)).
		WithVolumes(
			corev1ac.Volume().WithName(configVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()),
			inMemory(runVolume),
			corev1ac.Volume().WithName(tokenVolume).WithProjected(tokenSources()),
		).
		WithVolumes(tlsVolumes(mounted)...)
	place(spec, gateway)
	return spec
}

// terminationGrace is in seconds. A pod without connections ends after the stopDelay.
func terminationGrace(gateway *appv1.Gateway) int64 {
	return stopDelay(gateway) + seconds(source.DrainTimeout(&gateway.Spec)) + endSeconds
}

// stopDelay is in seconds.
func stopDelay(gateway *appv1.Gateway) int64 { return seconds(source.StopDelay(&gateway.Spec)) }

func seconds(d time.Duration) int64 { return int64(math.Ceil(d.Seconds())) }

// tokenSources are what kubelet would mount into every container by default.
func tokenSources() *corev1ac.ProjectedVolumeSourceApplyConfiguration {
	return corev1ac.ProjectedVolumeSource().WithSources(
		corev1ac.VolumeProjection().WithServiceAccountToken(corev1ac.ServiceAccountTokenProjection().
			WithPath("token").
			WithExpirationSeconds(3607)),
		corev1ac.VolumeProjection().WithConfigMap(corev1ac.ConfigMapProjection().
			WithName("kube-root-ca.crt").
			WithItems(corev1ac.KeyToPath().WithKey("ca.crt").WithPath("ca.crt"))),
		corev1ac.VolumeProjection().WithDownwardAPI(corev1ac.DownwardAPIProjection().
			WithItems(corev1ac.DownwardAPIVolumeFile().
				WithPath("namespace").
				WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath("metadata.namespace")))),
	)
}
