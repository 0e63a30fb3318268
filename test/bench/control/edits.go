package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// The Gateways that are edited have nothing to do with all the others.
const (
	editedNamespace = "edited"
	edited          = 20
)

func editedName(i int) string { return fmt.Sprintf("shop-%d", i) }

// editor edits Gateways and sees when their children have what was asked for.
type editor struct {
	server *server
	edits  int

	mu sync.Mutex
	// ports and replicas are those of the children, by their names; news is closed when there is something new.
	ports, replicas map[string]int32
	news            chan struct{}
}

func newEditor(ctx context.Context, s *server) (*editor, error) {
	e := &editor{server: s, ports: map[string]int32{}, replicas: map[string]int32{}, news: make(chan struct{})}
	watches := informers.NewSharedInformerFactoryWithOptions(s.Kube, 0, informers.WithNamespace(editedNamespace))
	see := cache.ResourceEventHandlerFuncs{AddFunc: e.see, UpdateFunc: func(_, updated any) { e.see(updated) }}
	for _, informer := range []cache.SharedIndexInformer{watches.Core().V1().Services().Informer(), watches.Apps().V1().Deployments().Informer()} {
		if _, err := informer.AddEventHandler(see); err != nil {
			return nil, fmt.Errorf("failed to watch: %w", err)
		}
	}
	watches.StartWithContext(ctx)
	return e, nil
}

// see notes what a child has.
func (e *editor) see(child any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch object := child.(type) {
	case *corev1.Service:
		e.ports[object.Name] = object.Spec.Ports[0].Port
	case *k8sappsv1.Deployment:
		e.replicas[object.Name] = *object.Spec.Replicas
	}
	close(e.news)
	e.news = make(chan struct{})
}

// edit changes the port and the replicas of one of the Gateways and returns how long it took until its Service and its
// Deployment had them, counted from before the request.
func (e *editor) edit(ctx context.Context) (time.Duration, error) {
	name := editedName(e.edits % edited)
	e.edits++
	port, replicas := int32(1024+e.edits), int32(1+e.edits%50)
	patch := fmt.Sprintf(`{"spec":{"replicas":%d,"listeners":[{"name":"http","port":%d,"protocol":"HTTP"}]}}`, replicas, port)
	start := time.Now()
	_, err := e.server.App.AppV1().Gateways(editedNamespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		return 0, fmt.Errorf("failed to edit Gateway %s/%s: %w", editedNamespace, name, err)
	}
	for child := name + "-gateway"; ; {
		e.mu.Lock()
		done, news := e.ports[child] == port && e.replicas[child] == replicas, e.news
		e.mu.Unlock()
		if done {
			return time.Since(start), nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return 0, fmt.Errorf("edit of Gateway %s/%s had no effect: %w", editedNamespace, name, ctx.Err())
		}
	}
}

// pause is between two edits: what the operator does after one is not to be in the way of the next.
const pause = 50 * time.Millisecond

// editWhile makes edits, at least so many, until done says that it is enough. They are sorted by how long they took.
func (e *editor) editWhile(ctx context.Context, least int, done func() bool) ([]time.Duration, error) {
	var took []time.Duration
	for len(took) < least || !done() {
		one, err := e.edit(ctx)
		if err != nil {
			return nil, err
		}
		took = append(took, one)
		time.Sleep(pause)
	}
	slices.Sort(took)
	return took, nil
}

// quantiles are the median and the 99th percentile of what is sorted, for people.
func quantiles(sorted []time.Duration) string {
	at := func(q float64) float64 {
		return float64(sorted[min(len(sorted)-1, int(q*float64(len(sorted))))].Microseconds()) / 1000
	}
	return fmt.Sprintf("%.0f ms, %.0f ms (%d edits)", at(0.5), at(0.99), len(sorted))
}
