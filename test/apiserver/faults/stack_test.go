package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/proxypod"
	"gateway/internal/testbuild"
	"gateway/test/internal/faultproxy"
	"gateway/test/internal/testenv"
)

// stack is a namespace with a Gateway, its operator and one of its pods: an agent and a HAProxy. The two programs reach
// the API server through the proxy, the test does not.
type stack struct {
	namespace string
	proxy     *faultproxy.Proxy
	operator  *operator
	pod       *dataPlane
}

// dataPlane is a pod: an agent, and the HAProxy it drives.
type dataPlane struct {
	agent   *testenv.Program
	haproxy *haproxytest.Instance
	paths   ir.Paths
	// health is where the agent serves health and metrics, port where HAProxy answers.
	health string
	port   int32
	// start starts another agent like it.
	start func() *testenv.Program
}

// routes is the Gateway of most tests: Service "api" behind everything, Service "next" behind the path.
func routes(port int32, path string) appv1.GatewaySpec {
	to := func(path, service string) appv1.RouteRule {
		return appv1.RouteRule{
			Matches:     []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: path}}},
			BackendRefs: []appv1.BackendRef{{Name: service, Port: 80}},
		}
	}
	return appv1.GatewaySpec{
		Listeners: []appv1.Listener{{Name: "http", Port: port, Protocol: appv1.ProtocolHTTP}},
		Routes:    []appv1.Route{{Name: "all", Rules: []appv1.RouteRule{to("/", "api"), to(path, "next")}}},
	}
}

// startStack starts everything and waits until the Gateway is Programmed.
func startStack(t *testing.T, namespace string) *stack {
	t.Helper()
	s := setUp(t, namespace)
	s.operator = startOperator(t, s.proxy, namespace)
	s.pod = startPod(t, s, "")
	s.expectProgrammed(t, soon, 1)
	return s
}

// setUp makes the Gateway and what is behind it, and starts a proxy.
func setUp(t *testing.T, namespace string) *stack {
	t.Helper()
	s := &stack{namespace: namespace, proxy: faultproxy.Start(t, server.Admin)}
	ensureNamespace(t, namespace)
	createService(t, namespace, "api")
	createService(t, namespace, "next")
	putEndpoint(t, namespace, "api", answering(t, "api"))
	putEndpoint(t, namespace, "next", answering(t, "next"))
	createGateway(t, namespace, routes(haproxytest.FreePort(t), "/edit-1"))
	return s
}

func createGateway(t *testing.T, namespace string, spec appv1.GatewaySpec) *appv1.Gateway {
	t.Helper()
	gateway := must.Get(server.App.AppV1().Gateways(namespace).Create(t.Context(), &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	}, metav1.CreateOptions{}))(t)
	return gateway
}

// startPod starts a data plane for the Gateway, and writes down what the node and the controllers would.
func startPod(t *testing.T, s *stack, program string, env ...string) *dataPlane {
	t.Helper()
	return startPodAnd(t, s, program, nil, func(*dataPlane) {}, env...)
}

// startPodAnd is startPod with something to do before the agent starts. A wrapper starts the agent in its place, with
// the command as arguments.
func startPodAnd(t *testing.T, s *stack, program string, wrapper []string, prepare func(*dataPlane), env ...string) *dataPlane {
	t.Helper()
	gateway := must.Get(server.App.AppV1().Gateways(s.namespace).Get(t.Context(), name, metav1.GetOptions{}))(t)
	if program == "" {
		program = testbuild.Program(t, "cmd/gateway-agent")
	}
	putChild(t, gateway)
	proxyPod := server.NewPod(t, s.namespace, name, pod)
	p := &dataPlane{paths: haproxytest.NewPaths(t), port: gateway.Spec.Listeners[0].Port,
		health: fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t))}
	command := append(wrapper, program, "-gateway="+name, "-logtostderr", "-v=2",
		"-kubeconfig="+tokenKubeconfig(t, s.proxy, proxyPod.Token),
		"-config-dir="+filepath.Dir(p.paths.ConfigDir), "-run-dir="+p.paths.RunDir, "-health-address="+p.health)
	for i := range command {
		command[i] = strings.ReplaceAll(command[i], "RUNDIR", p.paths.RunDir)
	}
	env = append(env, proxyPod.Env...)
	p.start = func() *testenv.Program { return testenv.Start(t, env, command[0], command[1:]...) }
	prepare(p)
	p.agent = p.start()
	testenv.Eventually(t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(p.paths.ConfigDir, ir.ConfigFile))
		return errors.Join(err, p.agent.Running())
	})
	p.haproxy = haproxytest.Start(t, p.paths, nil)
	if s.operator != nil {
		putPod(t, s.namespace)
	}
	return p
}

// putChild makes what the agent needs to work, whether the operator has made it or not.
func putChild(t *testing.T, gateway *appv1.Gateway) {
	t.Helper()
	ctx, options, namespace := t.Context(), metav1.ApplyOptions{FieldManager: proxypod.FieldManager, Force: true}, gateway.Namespace
	must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).Apply(ctx, resources.DesiredServiceAccount(gateway), options))(t)
	must.Get(server.Kube.RbacV1().Roles(namespace).Apply(ctx, resources.DesiredRole(gateway), options))(t)
	must.Get(server.Kube.RbacV1().RoleBindings(namespace).Apply(ctx, resources.DesiredRoleBinding(gateway), options))(t)
}

// putPod says that the Gateway's Deployment has one pod and that it is ready.
func putPod(t *testing.T, namespace string) {
	t.Helper()
	testenv.Eventually(t, soon, "the Deployment", func(ctx context.Context) error {
		_, err := server.Kube.AppsV1().Deployments(namespace).Patch(ctx, proxypod.ChildName(name), types.MergePatchType,
			[]byte(`{"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}`), metav1.PatchOptions{}, "status")
		return err
	})
}

// edit replaces the path of Service "next" and returns the Gateway's new generation.
func (s *stack) edit(t *testing.T, path string) int64 {
	t.Helper()
	patch := fmt.Sprintf(`[{"op": "replace", "path": "/spec/routes/0/rules/1/matches/0/path/value", "value": %q}]`, path)
	return patchGateway(t, s.namespace, patch).Generation
}

func patchGateway(t *testing.T, namespace, patch string) *appv1.Gateway {
	t.Helper()
	gateway := must.Get(server.App.AppV1().Gateways(namespace).Patch(t.Context(), name, types.JSONPatchType, []byte(patch), metav1.PatchOptions{}))(t)
	return gateway
}

// expectProgrammed waits until all three conditions are true at the generation.
func (s *stack) expectProgrammed(t *testing.T, within time.Duration, generation int64) {
	t.Helper()
	testenv.Eventually(t, within, "the status is true", func(ctx context.Context) error {
		gateway, err := server.App.AppV1().Gateways(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if gateway.Generation != generation {
			return fmt.Errorf("generation %d is not %d", gateway.Generation, generation)
		}
		for _, kind := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs, appv1.ConditionProgrammed} {
			if c := condition(gateway, kind); c.Status != metav1.ConditionTrue || c.ObservedGeneration != generation {
				return fmt.Errorf("generation %d has %s %+v", generation, kind, c)
			}
		}
		return nil
	})
}

func condition(gateway *appv1.Gateway, kind string) metav1.Condition {
	for _, c := range gateway.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}
