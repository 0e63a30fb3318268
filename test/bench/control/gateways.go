package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
)

const (
	// perNamespace is how many Gateways and how many Services each namespace has.
	perNamespace, servicesPerNamespace = 100, 10
	// flapping is how many Services are changed over and over.
	flapping = 1000
	// writers is how many requests the benchmark has under way at a time.
	writers = 16
)

// poll calls condition until it is true, or an error.
func poll(ctx context.Context, every time.Duration, condition wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextCancel(ctx, every, true, condition)
}

// inParallel calls do with 0 to n-1 and returns the first error.
func inParallel(n int, do func(i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make(chan error, writers)
	for range writers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

func namespaceOf(i int) string { return fmt.Sprintf("bench-%03d", i/perNamespace) }

func newGateway(namespace, name, service string) *appv1.Gateway {
	gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appv1.GatewaySpec{
		Replicas:  ptr.To(int32(2)),
		Service:   appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
		Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}},
	}}
	if service != "" {
		gateway.Spec.Routes = []appv1.Route{{
			Name: "shop", Hostnames: []appv1.Hostname{"shop.example.com"},
			Rules: []appv1.RouteRule{{BackendRefs: []appv1.BackendRef{{Name: service, Port: 80}}}},
		}}
	}
	return gateway
}

// servicePorts are port 80, which routes use, and another one that comes and goes.
func servicePorts(flapped bool) []corev1.ServicePort {
	ports := []corev1.ServicePort{{Name: "http", Port: 80}}
	if flapped {
		ports = append(ports, corev1.ServicePort{Name: "other", Port: 81})
	}
	return ports
}

func serviceAt(i int) (namespace, name string) {
	return fmt.Sprintf("bench-%03d", i/servicesPerNamespace), fmt.Sprintf("app-%d", i%servicesPerNamespace)
}

// prepare makes the namespaces and the Services, and the Gateways that will be edited.
func (s *server) prepare(ctx context.Context, gateways int) error {
	namespaces := max(gateways/perNamespace, flapping/servicesPerNamespace)
	err := inParallel(namespaces+1, func(i int) error {
		name := namespaceOf(i * perNamespace)
		if i == namespaces {
			name = editedNamespace
		}
		_, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := inParallel(flapping, func(i int) error {
		namespace, name := serviceAt(i)
		_, err := s.Kube.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: servicePorts(false)},
		}, metav1.CreateOptions{})
		return err
	}); err != nil {
		return err
	}
	return inParallel(edited, func(i int) error {
		_, err := s.App.AppV1().Gateways(editedNamespace).Create(ctx, newGateway(editedNamespace, editedName(i), ""), metav1.CreateOptions{})
		return err
	})
}

// burst creates Gateways as fast as it can.
func (s *server) burst(ctx context.Context, gateways int) error {
	return inParallel(gateways, func(i int) error {
		namespace := namespaceOf(i)
		gateway := newGateway(namespace, fmt.Sprintf("shop-%d", i%perNamespace), fmt.Sprintf("app-%d", i%servicesPerNamespace))
		_, err := s.App.AppV1().Gateways(namespace).Create(ctx, gateway, metav1.CreateOptions{})
		return err
	})
}

// observed waits until the status of all Gateways, of which there are so many, is about their latest generation.
func (s *server) observed(ctx context.Context, gateways int) error {
	done := map[types.UID]bool{}
	for ctx.Err() == nil { // the API server may end a watch at any time
		watcher, err := s.App.AppV1().Gateways("").Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("failed to watch Gateways: %w", err)
		}
		for event := range watcher.ResultChan() {
			if gateway, ok := event.Object.(*appv1.Gateway); ok && gateway.Status.ObservedGeneration == gateway.Generation {
				done[gateway.UID] = true
			}
			if len(done) == gateways {
				watcher.Stop()
				return nil
			}
		}
	}
	return fmt.Errorf("%d of %d Gateways were observed: %w", len(done), gateways, ctx.Err())
}

// flap changes one Service after the other, so many a second, until ctx ends. It returns how many it has changed.
func (s *server) flap(ctx context.Context, perSecond int) *atomic.Int64 {
	var changed, next atomic.Int64
	ticks := make(chan struct{})
	go func() {
		defer close(ticks)
		ticker := time.NewTicker(time.Second / time.Duration(perSecond))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				ticks <- struct{}{}
			case <-ctx.Done():
				return
			}
		}
	}()
	for range writers {
		go func() {
			for range ticks {
				i := int(next.Add(1)) - 1
				namespace, name := serviceAt(i % flapping)
				patch, _ := json.Marshal(map[string]any{"spec": map[string]any{"ports": servicePorts(i/flapping%2 == 0)}})
				// One that comes too late is the end of the benchmark.
				if _, err := s.Kube.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil {
					changed.Add(1)
				}
			}
		}()
	}
	return &changed
}
