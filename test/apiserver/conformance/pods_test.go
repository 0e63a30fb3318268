package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/testbuild"
)

// pod is an echo program. ports maps the ports of the pod to ports of this machine.
type pod struct {
	namespace, ip string
	labels        labels.Set
	ports         map[int32]int32
	command       *exec.Cmd
	log           *podLog
}

func buildEcho(t *testing.T) string {
	t.Helper()
	return testbuild.Tool(t, "hack/tools/go.mod", "sigs.k8s.io/gateway-api/conformance/echo-basic")
}

// ports of the echo program, as the suite's manifests have them, and the variables that choose others.
var echoPorts = map[int32][]string{3000: {"HTTP_PORT", "TCP_PORT"}, 3001: {"H2C_PORT"}, 8443: {"HTTPS_PORT", "TLS_PORT"}}

// startPods starts the pods of Deployments that do not run yet, but for those that serve UDP alone. Their Secrets have
// to exist before.
func (s *cluster) startPods(ctx context.Context, state *state) error {
	var deployments []*k8sappsv1.Deployment
	if err := list(ctx, s, &k8sappsv1.DeploymentList{}, &deployments); err != nil {
		return err
	}
	var errs []error
	for _, deployment := range deployments {
		container := &deployment.Spec.Template.Spec.Containers[0]
		isUDP := slices.ContainsFunc(container.Env, func(variable corev1.EnvVar) bool { return variable.Name == "UDP_ECHO_SERVER" })
		for i := range *deployment.Spec.Replicas {
			id := fmt.Sprintf("%s-%d", deployment.UID, i)
			if s.pods[id] != nil || isUDP || !strings.Contains(container.Image, "echo") {
				continue
			}
			// The suite derives the name of the Deployment from the pod's.
			one, err := s.startPod(ctx, state, deployment, fmt.Sprintf("%s-hash-%d", deployment.Name, i))
			if errs = append(errs, err); err == nil {
				s.pods[id] = one
			}
		}
	}
	return errors.Join(errs...)
}

func (s *cluster) startPod(ctx context.Context, state *state, deployment *k8sappsv1.Deployment, name string) (*pod, error) {
	template := &deployment.Spec.Template
	dir, err := s.writeVolumes(state, deployment.Namespace, &template.Spec)
	if err != nil {
		return nil, err
	}
	s.addresses++
	p := &pod{namespace: deployment.Namespace, labels: template.Labels, ports: map[int32]int32{}, ip: fmt.Sprintf("10.200.0.%d", s.addresses), log: s.logs.add(deployment.Namespace, name)}
	environment := []string{"POD_NAME=" + name, "NAMESPACE=" + deployment.Namespace}
	for port, variables := range echoPorts {
		p.ports[port] = haproxytest.FreePort(s.t)
		for _, variable := range variables {
			environment = append(environment, variable+"="+strconv.Itoa(int(p.ports[port])))
		}
	}
	for _, variable := range template.Spec.Containers[0].Env {
		if value := variable.Value; value != "" {
			for _, mount := range template.Spec.Containers[0].VolumeMounts {
				if rest, ok := strings.CutPrefix(value, mount.MountPath); ok {
					value = filepath.Join(dir, mount.Name, rest)
				}
			}
			environment = append(environment, variable.Name+"="+value)
		}
	}
	p.command = exec.Command(s.echo)
	p.command.Env = environment
	p.command.Stdout, p.command.Stderr = p.log, p.log
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if err := awaitPort(ctx, p.ports[3000]); err != nil {
		return nil, err
	}
	return p, s.createPod(ctx, p, name, template)
}

func awaitPort(ctx context.Context, port int32) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false, nil
		}
		return true, conn.Close()
	})
}

// writeVolumes writes the Secrets and ConfigMaps that are mounted, and returns where.
func (s *cluster) writeVolumes(state *state, namespace string, spec *corev1.PodSpec) (string, error) {
	dir := s.t.TempDir()
	for _, volume := range spec.Volumes {
		var items []corev1.KeyToPath
		content := map[string][]byte{}
		switch {
		case volume.Secret != nil:
			secret := state.secrets[types.NamespacedName{Namespace: namespace, Name: volume.Secret.SecretName}]
			if secret == nil {
				return "", fmt.Errorf("Secret %s is not there yet", volume.Secret.SecretName)
			}
			items, content = volume.Secret.Items, secret.Data
		case volume.ConfigMap != nil:
			configMap := state.configMaps[types.NamespacedName{Namespace: namespace, Name: volume.ConfigMap.Name}]
			if configMap == nil {
				return "", fmt.Errorf("ConfigMap %s is not there yet", volume.ConfigMap.Name)
			}
			items = volume.ConfigMap.Items
			for key, value := range configMap.Data {
				content[key] = []byte(value)
			}
		}
		if len(items) == 0 {
			for key := range content {
				items = append(items, corev1.KeyToPath{Key: key, Path: key})
			}
		}
		for _, item := range items {
			file := filepath.Join(dir, volume.Name, path.Clean(item.Path))
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				return "", err
			}
			if err := os.WriteFile(file, content[item.Key], 0o600); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// createPod tells the API server about a pod, which is ready.
func (s *cluster) createPod(ctx context.Context, p *pod, name string, template *corev1.PodTemplateSpec) error {
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: p.labels}}
	object.Spec.Containers = []corev1.Container{{Name: "echo", Image: template.Spec.Containers[0].Image}}
	object.Spec.AutomountServiceAccountToken, object.Spec.NodeName = new(bool), "node"
	if err := s.Create(ctx, object); err != nil {
		return err
	}
	object.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	object.Status.PodIP, object.Status.PodIPs = p.ip, []corev1.PodIP{{IP: p.ip}}
	object.Status.Phase = corev1.PodRunning
	return s.Status().Update(ctx, object)
}

func (s *cluster) stopPods() {
	for _, p := range s.pods {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	}
}

// backend returns what is behind a Service port.
func (s *cluster) backend(ctx context.Context, state *state, backend model.Backend) (render.BackendState, error) {
	service := state.services[types.NamespacedName{Namespace: backend.Namespace, Name: backend.Service}]
	if service == nil || service.Spec.Type == corev1.ServiceTypeExternalName {
		return render.BackendState{}, nil
	}
	var found render.BackendState
	for _, port := range service.Spec.Ports {
		if port.Port != backend.Port || port.Protocol != corev1.ProtocolTCP {
			continue
		}
		found.Exists = true
		if port.AppProtocol != nil {
			found.AppProtocol = strings.ToLower(*port.AppProtocol)
		}
		target := port.TargetPort.IntVal
		if target == 0 {
			target = port.Port
		}
		addresses, err := s.manualAddresses(ctx, service)
		if err != nil {
			return found, err
		}
		for _, p := range s.pods {
			selected := len(service.Spec.Selector) > 0 && p.namespace == service.Namespace && labels.SelectorFromSet(service.Spec.Selector).Matches(p.labels)
			if (selected || addresses[p.ip]) && p.ports[target] != 0 {
				found.Servers = append(found.Servers, ir.Server{Address: "127.0.0.1", Port: p.ports[target]})
			}
		}
	}
	return found, nil
}

// manualAddresses returns the addresses of pods in the EndpointSlices of a Service without a selector.
func (s *cluster) manualAddresses(ctx context.Context, service *corev1.Service) (map[string]bool, error) {
	all := map[string]bool{}
	var slices discoveryv1.EndpointSliceList
	err := s.seen.List(ctx, &slices, client.InNamespace(service.Namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			for _, address := range endpoint.Addresses {
				all[address] = true
			}
		}
	}
	return all, err
}
