package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"gateway/generated/app/clientset/versioned"
	"gateway/generated/app/informers/externalversions"
	"gateway/internal/reconnect"
)

const (
	// agentNamespace has the Gateway of all agents, and Services with the EndpointSlices that they watch.
	agentNamespace, agentGateway = "agents", "shop"
	agentServices                = 10
	endpointsPerService          = 5
	// agentWindow is how long the API server's processor time is looked at, without changes and with.
	agentWindow       = 5 * time.Second
	endpointChanges   = 20 // a second
	watchesOfAnAgent  = 3
	settleAfterAgents = 2 * time.Second
)

// watchLoad measures what the watches of agents cost an API server of its own.
func (b *bench) watchLoad(ctx context.Context) (err error) {
	if len(b.agents) == 0 {
		return nil
	}
	server, err := startServer(b.root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	if err := server.prepareAgents(ctx); err != nil {
		return err
	}
	one := column{title: "1 agent, the real one"}
	if err := server.countRequests(ctx, &one, b.built("./cmd/gateway-agent"), b.dir); err != nil {
		return err
	}
	results := table{one}
	defer func() { results.print(os.Stdout) }()
	for _, n := range b.agents {
		c := column{title: fmt.Sprintf("%d agents", n)}
		if err := server.measureAgents(ctx, &c, n); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %d rows\n", c.title, len(c.rows))
		results = append(results, c)
	}
	return nil
}

// prepareAgents makes the namespace as the agents of one Gateway see it.
func (s *server) prepareAgents(ctx context.Context) error {
	_, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: agentNamespace}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := s.App.AppV1().Gateways(agentNamespace).Create(ctx, newGateway(agentNamespace, agentGateway, "app-0"), metav1.CreateOptions{}); err != nil {
		return err
	}
	return inParallel(agentServices, func(i int) error {
		name := fmt.Sprintf("app-%d", i)
		_, err := s.Kube.CoreV1().Services(agentNamespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: servicePorts(false)},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To(int32(8080))}},
		}
		for e := range endpointsPerService {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.%d.%d", i, e+1)}})
		}
		_, err = s.Kube.DiscoveryV1().EndpointSlices(agentNamespace).Create(ctx, slice, metav1.CreateOptions{})
		return err
	})
}

// countRequests runs the agent as built, without a HAProxy, until it watches all it has to.
func (s *server) countRequests(ctx context.Context, results *column, agent, dir string) error {
	kubeconfig := filepath.Join(dir, "agent-admin")
	if err := os.WriteFile(kubeconfig, s.env.KubeConfig, 0o600); err != nil {
		return err
	}
	before, err := s.metrics(ctx)
	if err != nil {
		return err
	}
	for name, value := range map[string]string{"POD_NAME": "pod", "POD_NAMESPACE": agentNamespace, "POD_UID": "uid"} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	c, err := startController(agent, "-gateway="+agentGateway, "-kubeconfig="+kubeconfig, "-health-address=127.0.0.1:0", "-logtostderr",
		"-config-dir="+dir, "-run-dir="+dir)
	if err != nil {
		return err
	}
	_, err = s.awaitWatches(ctx, func(now metrics) bool { return now.minus(before).watchCount("") >= watchesOfAnAgent })
	time.Sleep(settleAfterAgents) // if there are more watches than were waited for, they are seen, too
	after, metricsErr := s.metrics(ctx)
	if err == nil {
		err = metricsErr
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, c.printed())
	}
	results.set("watches of Gateways, Services, EndpointSlices", "%s", watches(after.minus(before)))
	return c.stop()
}

// awaitWatches waits until the API server's metrics are as they should be.
func (s *server) awaitWatches(ctx context.Context, enough func(metrics) bool) (now metrics, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = poll(ctx, 200*time.Millisecond, func(ctx context.Context) (bool, error) {
		now, err = s.metrics(ctx)
		return err == nil && enough(now), err
	})
	return now, err
}

// watchCount is how many watches of a resource, or of all that agents watch, there are in the whole cluster.
func (m metrics) watchCount(resource string) float64 {
	total := 0.0
	for _, watched := range []string{"gateways", "services", "endpointslices"} {
		if resource == "" || resource == watched {
			total += m.sum("apiserver_longrunning_requests", `verb="WATCH"`, `resource="`+watched+`"`)
		}
	}
	return total
}

func watches(m metrics) string {
	return fmt.Sprintf("%.0f, %.0f, %.0f", m.watchCount("gateways"), m.watchCount("services"), m.watchCount("endpointslices"))
}

// measureAgents watches as so many agents do, each with connections of its own.
func (s *server) measureAgents(ctx context.Context, results *column, n int) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	before, err := s.heap(ctx)
	if err != nil {
		return err
	}
	used, start := s.process.cpu(), time.Now()
	if err := inParallel(n, func(int) error { return watchAsAgent(watching, s.config) }); err != nil {
		return err
	}
	took := time.Since(start)
	after, err := s.heap(ctx)
	if err != nil {
		return err
	}
	change := after.minus(before)
	results.set("watches of Gateways, Services, EndpointSlices", "%s", watches(change))
	results.set("start: all caches full; CPU of the API server, per agent", "%.1f s; %.1f ms", took.Seconds(), ms(s.process.cpu()-used)/float64(n))
	results.set("memory of the API server, more than before: live heap; stacks", "%.1f MiB; %.1f MiB",
		change["go_memstats_heap_alloc_bytes"]/(1<<20), change["go_memstats_stack_inuse_bytes"]/(1<<20))
	results.set("memory of the API server: resident", "%.0f MiB", s.process.memory("VmRSS")/(1<<20))
	idle, err := s.cpuWhile(ctx, func(context.Context, int) error { return nil })
	if err != nil {
		return err
	}
	busy, err := s.cpuWhile(ctx, s.changeEndpoints)
	if err != nil {
		return err
	}
	results.set("CPU of the API server, of a core: idle; with 20 endpoint changes a second", "%.1f%%; %.1f%%", idle, busy)
	stop()
	_, err = s.awaitWatches(ctx, func(now metrics) bool { return now.minus(before).watchCount("") < watchesOfAnAgent })
	return err
}

// heap are the API server's metrics after a garbage collection.
func (s *server) heap(ctx context.Context) (metrics, error) {
	client := s.Kube.(*kubernetes.Clientset).RESTClient()
	if err := client.Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error(); err != nil {
		return nil, fmt.Errorf("failed to have the API server collect garbage: %w", err)
	}
	return s.metrics(ctx)
}

// watchAsAgent starts the informers that an agent has, until ctx ends, and waits until they are filled.
func watchAsAgent(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	reconnect.Configure(config) // with it, no two clients share a connection
	app, err := versioned.NewForConfig(config)
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	gateways := externalversions.NewSharedInformerFactoryWithOptions(app, 0, externalversions.WithNamespace(agentNamespace),
		externalversions.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermEqualSelector("metadata.name", agentGateway).String()
		}))
	gateways.App().V1().Gateways().Informer()
	others := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(agentNamespace))
	others.Core().V1().Services().Informer()
	others.Discovery().V1().EndpointSlices().Informer()
	gateways.StartWithContext(ctx)
	others.StartWithContext(ctx)
	gateways.WaitForCacheSync(ctx.Done())
	others.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// cpuWhile is the share of a core that the API server uses while something is done so many times a second.
func (s *server) cpuWhile(ctx context.Context, do func(ctx context.Context, i int) error) (float64, error) {
	used, start := s.process.cpu(), time.Now()
	ticker := time.NewTicker(time.Second / endpointChanges)
	defer ticker.Stop()
	for i := 0; time.Since(start) < agentWindow; i++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if err := do(ctx, i); err != nil {
			return 0, err
		}
	}
	return 100 * float64(s.process.cpu()-used) / float64(time.Since(start)), nil
}

// changeEndpoints changes one of the EndpointSlices.
func (s *server) changeEndpoints(ctx context.Context, i int) error {
	patch := fmt.Sprintf(`[{"op":"replace","path":"/endpoints/0/addresses/0","value":"10.1.%d.%d"}]`, i/250%250, i%250+1)
	_, err := s.Kube.DiscoveryV1().EndpointSlices(agentNamespace).Patch(ctx, fmt.Sprintf("app-%d", i%agentServices), types.JSONPatchType,
		[]byte(patch), metav1.PatchOptions{})
	return err
}
