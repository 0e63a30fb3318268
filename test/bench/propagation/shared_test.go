package propagation

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testbuild"
	"gateway/test/internal/peers"
	"gateway/test/internal/testenv"
)

const (
	// olderShared is the build with which this one is compared.
	olderShared = "18240870"
	// agentUser is who the agents of the shared Gateway are to the API server.
	agentUser = "system:serviceaccount:shared:web-gateway"
	// long bounds what takes an older build minutes.
	long = 20 * time.Minute
	// seldom is the time between two questions whose answers are large.
	seldom = 500 * time.Millisecond
)

// shared is a Gateway that many namespaces share, with several pods.
type shared struct {
	*world
	// b is the benchmark with whose end the pods end.
	b          *testing.B
	pods       []*pod
	namespaces int
	// mayRefuse says that the API server may answer this build with 429: Too Many Requests.
	mayRefuse bool
	// watchesOfOthers is how many watches there are without pods, idleShare what the API server takes of a core when
	// nothing changes.
	watchesOfOthers, idleShare float64
}

// BenchmarkShared measures what a Gateway costs that many namespaces share, as NAMESPACES says, each with ROUTES
// HTTPRoutes, and with as many pods as PODS says, one number after the other. Its builds are this one, which watches
// each namespace or the cluster, and an older one, which hack/bench.sh builds. Each wants an API server of its own:
// name one by -bench. This build fails if the API server refuses a request because there are too many.
func BenchmarkShared(b *testing.B) {
	for _, build := range []string{olderShared, "by-namespace", "cluster-wide"} {
		b.Run(build, func(b *testing.B) {
			s := newShared(b, build)
			b.Run(fmt.Sprintf("namespaces=%d/attached", s.namespaces), s.attach)
			for number := range strings.SplitSeq(cmp.Or(os.Getenv("PODS"), "1,3"), ",") {
				b.Run(fmt.Sprintf("namespaces=%d/pods=%s/floor", s.namespaces, number), func(b *testing.B) {
					b.Helper()
					s.floor(b, numberOf(b, number))
				})
				var added []*pod
				for range numberOf(b, number) - len(s.pods) {
					added = append(added, s.newPod())
				}
				run := func(name string, scenario func(b *testing.B)) {
					b.Run(fmt.Sprintf("namespaces=%d/pods=%s/%s", s.namespaces, number, name), scenario)
				}
				run("started-together", func(b *testing.B) {
					b.Helper()
					s.start(b, added)
				})
				run("idle", s.idle)
				run("edits", func(b *testing.B) {
					b.Helper()
					s.edits(b, false)
				})
				run("edits-with-churn", func(b *testing.B) {
					b.Helper()
					s.edits(b, true)
				})
				run("replaced-with-churn", s.replace)
				run("API-server-killed", s.killServer)
			}
		})
	}
}

// parameter is a number in the environment.
func parameter(b *testing.B, name, otherwise string) int {
	b.Helper()
	return numberOf(b, cmp.Or(os.Getenv(name), otherwise))
}

func numberOf(b *testing.B, text string) int {
	b.Helper()
	number, err := strconv.Atoi(text)
	must(b, err)
	return number
}

// newShared returns one without routes and pods. flags are more of the operator's.
func newShared(b *testing.B, build string, flags ...string) *shared {
	b.Helper()
	server.InstallGatewayAPI(b)
	w := newWorld(b, "shared")
	s := &shared{world: w, b: b, namespaces: parameter(b, "NAMESPACES", "20"), mayRefuse: build == olderShared}
	api, err := routesclient.NewForConfig(server.Unlimited())
	must(b, err)
	w.api = api
	switch build {
	case olderShared:
		w.build = peers.Program(build)
		peers.ApplyCRDs(b, server, filepath.Join(w.build, "artifacts", "crd"))
	case "cluster-wide":
		server.Kubectl(b, "apply", "--server-side", "-f", filepath.Join(testbuild.MustRoot(b), "artifacts", "cluster-watch"))
		flags = append(flags, "-cluster-watch-namespaces="+w.namespace)
	}
	s.program(b, "./cmd/gateway-agent") // it is not built while the time is taken
	w.startOperator(b, flags...)
	w.createGateway(b, string(gatewayapi.ControllerName))
	if build == "cluster-wide" {
		s.watchCluster()
	}
	w.createService(b, "zero", 0)
	w.createService(b, "one", 1)
	atOnce(s.namespaces, func(i int) { w.in(b, i, "team").createService(b, "zero", 0) })
	return s
}

// attach measures how long it takes until the agents may read all namespaces, and what it costs. Meanwhile, there is
// another Gateway, of one namespace.
func (s *shared) attach(b *testing.B) {
	b.Helper()
	routes := s.namespaces * parameter(b, "ROUTES", "1")
	begin, cpu, operator := time.Now(), server.CPU(b), testenv.CPU(s.operator.PID())
	s.createRoute(b, "probe", probeHost, "/", backendRef("probe", 1))
	s.createRoute(b, "split", splitHost, "/", backendRef("zero", 1), backendRef("one", 0))
	s.createRoute(b, "rule", ruleHost, "/rule-0", backendRef("zero", 1))
	s.createRoute(b, "churn", "churn.example.com", "/", backendRef("zero", 1))
	atOnce(routes, func(i int) {
		at := *s.world
		at.namespace = fmt.Sprintf("team-%d", i%s.namespaces)
		at.createRouteOf(b, s.namespace, fmt.Sprintf("r%d", i), fmt.Sprintf("host-%d.example.com", i), "/", backendRef("zero", 1))
	})
	created := time.Now()
	other := s.in(b, 0, "other")
	other.createService(b, "zero", 0)
	other.createSharedGateway(b, s.namespace)
	other.createRoute(b, "r", "other.example.com", "/", backendRef("zero", 1))
	awaitAttached(b, other, 1)
	b.ReportMetric(time.Since(created).Seconds(), "s-another-Gateway")
	awaitAttached(b, s.world, s.namespaces+1)
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-attached")
	s.settleAccepted(b, metav1.NamespaceAll, routes+4) // and the probe's
	b.ReportMetric(time.Since(begin).Seconds(), "s-until-Accepted")
	s.rest(b)
	s.watchesOfOthers = watches(b)
	b.ReportMetric((server.CPU(b) - cpu).Seconds(), "apiserver-CPU-s")
	b.ReportMetric((testenv.CPU(s.operator.PID()) - operator).Seconds(), "operator-CPU-s")
	b.ReportMetric(float64(len(server.Writes(b, operatorUser, begin)))/float64(s.namespaces), "operator-writes/namespace")
	b.ReportMetric(memory(b, s.operator.PID()), "operator-MiB")
	b.ReportMetric(0, "ns/op")
}

// rest waits until the operator has written nothing for a while.
func (s *shared) rest(b *testing.B) {
	b.Helper()
	const still = 3 * time.Second
	testenv.Eventually(b, long, "the operator rests", func(context.Context) error {
		since := time.Now()
		time.Sleep(still)
		if writes := server.Writes(b, operatorUser, since); len(writes) > 0 {
			return fmt.Errorf("it wrote %v", writes[0])
		}
		return nil
	})
}

// awaitAttached waits until the agents of a Gateway may read as many namespaces.
func awaitAttached(b *testing.B, w *world, namespaces int) {
	b.Helper()
	testenv.Eventually(b, long, "all namespaces are attached", func(ctx context.Context) error {
		attached, err := w.attached(ctx)
		if err == nil && attached < namespaces {
			time.Sleep(seldom)
			err = fmt.Errorf("%d of %d are", attached, namespaces)
		}
		return err
	})
}

// attached counts the namespaces that the agents may read. An older build lists them in the Gateway's status.
func (w *world) attached(ctx context.Context) (int, error) {
	own, err := server.App.AppV1().Gateways(w.namespace).Get(ctx, gatewayName, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if own.Status.Attachments != nil {
		return len(own.Status.Attachments.Namespaces), nil
	}
	all, err := server.App.AppV1().GatewayAttachments(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	bound := 0
	for i := range all.Items {
		if meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, appv1.ConditionBound) {
			bound++
		}
	}
	return bound, nil
}

// watchCluster lets a GatewayConfig say that the pods watch the cluster.
func (s *shared) watchCluster() {
	b := s.b
	b.Helper()
	config := &appv1.GatewayConfig{ObjectMeta: metav1.ObjectMeta{Name: "cluster-wide"}}
	config.Spec.Watch = appv1.WatchCluster
	_, err := server.App.AppV1().GatewayConfigs(s.namespace).Create(b.Context(), config, metav1.CreateOptions{})
	must(b, err)
	_, err = s.api.GatewayV1().GatewayClasses().Patch(b.Context(), s.namespace, types.MergePatchType, fmt.Appendf(nil,
		`{"spec": {"parametersRef": {"group": %q, "kind": "GatewayConfig", "namespace": %q, "name": %q}}}`,
		appv1.GroupName, s.namespace, config.Name), metav1.PatchOptions{})
	must(b, err)
	testenv.Eventually(b, soon, "the pods may watch the cluster", func(ctx context.Context) error {
		own, err := server.App.AppV1().Gateways(s.namespace).Get(ctx, gatewayName, metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionTrue(own.Status.Conditions, appv1.ConditionClusterWatch) {
			err = fmt.Errorf("the conditions are %+v", own.Status.Conditions)
		}
		return err
	})
}
