package prove

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/test/internal/testenv"
)

// rollouts is Argo Rollouts, with the pods of its Rollouts in team-0.
type rollouts struct {
	*site
	// pods are by the hash that ReplicaSets and Services have. All replicas of one are one program.
	pods map[string]pod
}

type pod struct {
	version string
	port    int32
	program *testenv.Program
}

const podHash = "rollouts-pod-template-hash"

// startRollouts starts Argo Rollouts' controller, which starts its plugin.
func startRollouts(s *site) *rollouts {
	t := s.t
	t.Helper()
	crds := filepath.Join(moduleDir(t, "argo-rollouts", "github.com/argoproj/argo-rollouts"), "manifests", "crds")
	_, err := envtest.InstallCRDs(server.Admin, envtest.CRDInstallOptions{Paths: []string{crds}, MaxTime: soon})
	must(t, err)
	s.createNamespace("argo-rollouts")
	plugin := tool(t, "argo-rollouts")
	if os.Getenv("ROLLOUTS_PLUGIN") != "" {
		plugin = tool(t, "rollouts-plugin-trafficrouter-gatewayapi")
	}
	s.apply(`
apiVersion: v1
kind: ConfigMap
metadata: {namespace: argo-rollouts, name: argo-rollouts-config}
data: {trafficRouterPlugins: '[{name: argoproj-labs/gatewayAPI, location: "file://%s"}]'}`, plugin)
	controller := testenv.Start(t, []string{"POD_NAMESPACE=argo-rollouts", "KUBECONFIG=" + server.Kubeconfig},
		"env", "--chdir="+t.TempDir(), tool(t, "rollouts-controller"), "--leader-elect=false", "--metricsPort=0", "--healthzPort=0")
	t.Cleanup(func() { // it ends its plugin
		controller.Signal(t, syscall.SIGTERM)
		controller.Exit(t, soon)
	})
	return &rollouts{s, map[string]pod{}}
}

// await waits, and is kubelet and the controllers of ReplicaSets and EndpointSlices meanwhile.
func (r *rollouts) await(what string, check func(ctx context.Context) error) {
	r.t.Helper()
	testenv.Eventually(r.t, soon, what, func(ctx context.Context) error { return errors.Join(r.runPods(ctx), check(ctx)) })
}

// runPods looks once at all ReplicaSets and Services.
func (r *rollouts) runPods(ctx context.Context) error {
	sets, err := server.Kube.AppsV1().ReplicaSets("team-0").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	stopping := maps.Clone(r.pods)
	var errs []error
	for _, set := range sets.Items {
		if hash := set.Labels[podHash]; *set.Spec.Replicas > 0 {
			if _, runs := r.pods[hash]; !runs {
				args := set.Spec.Template.Spec.Containers[0].Args
				port, program := r.startEchoProgram(args...)
				r.pods[hash] = pod{strings.TrimPrefix(args[0], "-version="), port, program}
			}
			delete(stopping, hash)
		}
		status := k8sappsv1.ReplicaSetStatus{
			ObservedGeneration: set.Generation, Replicas: *set.Spec.Replicas, FullyLabeledReplicas: *set.Spec.Replicas,
			ReadyReplicas: *set.Spec.Replicas, AvailableReplicas: *set.Spec.Replicas,
		}
		if set.Status.ObservedGeneration != status.ObservedGeneration || set.Status.AvailableReplicas != status.AvailableReplicas {
			set.Status = status
			_, err := server.Kube.AppsV1().ReplicaSets("team-0").UpdateStatus(ctx, &set, metav1.UpdateOptions{})
			errs = append(errs, err)
		}
	}
	for hash, pod := range stopping {
		pod.program.Signal(r.t, syscall.SIGTERM)
		delete(r.pods, hash)
	}
	return errors.Join(append(errs, r.setEndpoints(ctx))...)
}

// setEndpoints has the Services with a hash have its pods.
func (r *rollouts) setEndpoints(ctx context.Context) error {
	services, err := server.Kube.CoreV1().Services("team-0").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, service := range services.Items {
		hash := service.Spec.Selector[podHash]
		if hash == "" {
			continue
		}
		all := server.Kube.DiscoveryV1().EndpointSlices("team-0")
		slice, err := all.Get(ctx, service.Name, metav1.GetOptions{})
		pod, runs := r.pods[hash]
		switch {
		case apierrors.IsNotFound(err) && runs:
			err = createSlice(ctx, "team-0", service.Name, service.Name, testenv.OwnAddress(r.t), discoveryv1.EndpointPort{Name: ptr.To(""), Port: &pod.port})
		case err == nil && !runs && len(slice.Endpoints) > 0:
			slice.Endpoints = []discoveryv1.Endpoint{}
			_, err = all.Update(ctx, slice, metav1.UpdateOptions{})
		case err == nil && runs && (len(slice.Endpoints) == 0 || *slice.Ports[0].Port != pod.port):
			slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{testenv.OwnAddress(r.t)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}}}
			slice.Ports[0].Port = &pod.port
			_, err = all.Update(ctx, slice, metav1.UpdateOptions{})
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// awaitPods waits until only the pods of a version run.
func (r *rollouts) awaitPods(version string) {
	r.t.Helper()
	r.await("only pods of "+version, func(context.Context) error {
		if running := slices.Collect(maps.Values(r.pods)); len(running) != 1 || running[0].version != version {
			return fmt.Errorf("%d run", len(running))
		}
		return nil
	})
}

func rolloutObjects() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}
}

// awaitPhase waits until the Rollout has a phase, and is at one of some steps, if there are any.
func (r *rollouts) awaitPhase(phase string, steps ...int64) {
	r.t.Helper()
	r.await("the Rollout to be "+phase, func(ctx context.Context) error {
		rollout, err := server.Dynamic.Resource(rolloutObjects()).Namespace("team-0").Get(ctx, "api", metav1.GetOptions{})
		if err != nil {
			return err
		}
		got, _, _ := unstructured.NestedString(rollout.Object, "status", "phase")
		step, _, _ := unstructured.NestedInt64(rollout.Object, "status", "currentStepIndex")
		if got != phase || len(steps) > 0 && !slices.Contains(steps, step) {
			return fmt.Errorf("it is %s at step %d: %v", got, step, rollout.Object["status"])
		}
		return nil
	})
}

// promote has the Rollout go on from a pause, as `kubectl argo rollouts promote` does.
func (r *rollouts) promote(step int64) {
	r.t.Helper()
	r.awaitPhase("Paused", step)
	r.patchStatus(`{"status": {"pauseConditions": null}}`)
}

func (r *rollouts) patchStatus(patch string) {
	r.t.Helper()
	_, err := server.Dynamic.Resource(rolloutObjects()).Namespace("team-0").Patch(r.t.Context(), "api", types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	must(r.t, err)
}

func (r *rollouts) route() *gatewayv1.HTTPRoute {
	r.t.Helper()
	route, err := r.api.GatewayV1().HTTPRoutes("team-0").Get(r.t.Context(), "api", metav1.GetOptions{})
	must(r.t, err)
	return route
}

// awaitRoute waits until the route has the weight of the canary, and the rule with a header or not; then until all
// proxies run that, and returns how long this took since the last look that saw another route.
func (r *rollouts) awaitRoute(canary int32, header bool) time.Duration {
	r.t.Helper()
	var route *gatewayv1.HTTPRoute
	begin := time.Now()
	r.await(fmt.Sprintf("a weight of %d, and a rule with a header: %t", canary, header), func(context.Context) error {
		look := time.Now()
		route = r.route()
		refs, rules := route.Spec.Rules[0].BackendRefs, len(route.Spec.Rules)
		if *refs[0].Weight != 100-canary || *refs[1].Weight != canary || rules != map[bool]int{false: 2, true: 3}[header] {
			begin = look
			return fmt.Errorf("stable has %d, canary %d, with %d rules", *refs[0].Weight, *refs[1].Weight, rules)
		}
		return nil
	})
	r.awaitProgrammed("api", route.Generation)
	return time.Since(begin)
}
