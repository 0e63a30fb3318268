package agent

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/logging"
	"gateway/internal/proxyconfig"
	"gateway/internal/routetrace"
	"gateway/internal/routing"
)

const (
	// traceInterval is how seldom HAProxy is asked for requests, whatever routes ask, and how seldom a namespace gets an
	// answer: the API server keeps Events for an hour.
	traceInterval = 2 * time.Second
	// tracedOfNamespace bounds the routes of a namespace whose questions wait.
	tracedOfNamespace = 5
)

// routeTraces answers questions in annotations of routes. Its methods may be called from several goroutines.
type routeTraces struct {
	own, pod string
	core     Core
	// underWay returns the requests of HAProxy's workers.
	underWay func(ctx context.Context, age time.Duration) ([]proxyconfig.Request, error)
	wake     chan struct{}

	mu sync.Mutex
	// table is what HAProxy runs; nil: it is not known yet.
	table *routing.Table
	// asked are questions without an answer.
	asked map[tracedRoute]routetrace.Question
}

// tracedRoute is a route that has a question.
type tracedRoute struct {
	kind string
	types.NamespacedName
	uid types.UID
}

// logName is how the access log calls it.
func (r tracedRoute) logName() string {
	if r.kind == "GRPCRoute" {
		return r.kind + "/" + r.String()
	}
	return r.String()
}

func newRouteTraces(options Options, h *configHandler) *routeTraces {
	return &routeTraces{
		own: options.Namespace, pod: options.Pod, core: options.Core, underWay: h.underWay,
		wake: make(chan struct{}, 1), asked: map[tracedRoute]routetrace.Question{},
	}
}

// keepTrace returns the annotations of an object that are read.
func keepTrace(annotations map[string]string) map[string]string {
	value, ok := annotations[routetrace.Annotation]
	if !ok {
		return nil
	}
	return map[string]string{routetrace.Annotation: value}
}

// note takes in an object that changed. A question that is there already is none.
func (t *routeTraces) note(before, now metav1.Object) {
	if now == nil {
		return
	}
	value := now.GetAnnotations()[routetrace.Annotation]
	if value == "" || before != nil && before.GetUID() == now.GetUID() && before.GetAnnotations()[routetrace.Annotation] == value {
		return
	}
	route := tracedRoute{NamespacedName: types.NamespacedName{Namespace: now.GetNamespace(), Name: now.GetName()}, uid: now.GetUID()}
	switch now.(type) {
	case *gatewayv1.HTTPRoute:
		route.kind = "HTTPRoute"
	case *gatewayv1.GRPCRoute:
		route.kind = "GRPCRoute"
	default:
		return
	}
	question, err := routetrace.Parse(value)
	if err != nil || !question.Counts(time.Now()) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	count := 0
	for other := range t.asked {
		if other.Namespace == route.Namespace {
			count++
		}
	}
	if _, ok := t.asked[route]; ok || count < tracedOfNamespace {
		t.asked[route] = question
		t.wakeUp()
	}
}

// update takes in what HAProxy runs, or is to.
func (t *routeTraces) update(table routing.Table) {
	if len(table.Listeners) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.table = &table
	if len(t.asked) > 0 {
		t.wakeUp()
	}
}

func (t *routeTraces) wakeUp() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// run answers until ctx ends.
func (t *routeTraces) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		}
		t.answerAll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(traceInterval):
		}
	}
}

// answerAll answers a question of each namespace, by asking HAProxy once.
func (t *routeTraces) answerAll(ctx context.Context) {
	now := time.Now()
	table, asked := t.next(now)
	if len(asked) == 0 {
		return
	}
	all, err := t.underWay(ctx, 0)
	if err != nil {
		logging.Warningf("The requests of routes are not told: %v", err)
		return
	}
	for route, question := range asked {
		old := []routetrace.Request{}
		for _, request := range routetrace.Of(*table, route.Namespace, t.own, route.logName(), all) {
			if now.Sub(request.Started) >= time.Duration(question.OlderSeconds)*time.Second {
				old = append(old, request)
			}
		}
		count := min(len(old), routetrace.MaxRequests)
		answer := routetrace.Answer{ID: question.ID, Pod: t.pod, Requests: old[:count], More: len(old) - count}
		if err := t.send(ctx, route, answer); err != nil {
			logging.Warningf("The requests of %s %s are not told: %v", route.kind, route, err)
		}
	}
}

// next takes a question of each namespace, if routes of the Gateway have some.
func (t *routeTraces) next(now time.Time) (*routing.Table, map[tracedRoute]routetrace.Question) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.table == nil {
		return nil, nil
	}
	asked, has := map[tracedRoute]routetrace.Question{}, map[string]bool{}
	for route, question := range t.asked {
		switch {
		case !question.Counts(now) || !routetrace.Has(*t.table, route.logName()): // it is of another Gateway
			delete(t.asked, route)
		case !has[route.Namespace]:
			has[route.Namespace], asked[route] = true, question
			delete(t.asked, route)
		}
	}
	if len(t.asked) > 0 {
		t.wakeUp()
	}
	return t.table, asked
}

// send makes an Event of a route.
func (t *routeTraces) send(ctx context.Context, route tracedRoute, answer routetrace.Answer) error {
	message, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	now := metav1.Now()
	_, err = t.core.CoreV1().Events(route.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: route.Namespace, GenerateName: "gateway-trace-"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: gatewayv1.GroupVersion.String(), Kind: route.kind, Namespace: route.Namespace, Name: route.Name, UID: route.uid,
		},
		Reason: routetrace.Reason, Message: string(message), Type: corev1.EventTypeNormal, Source: corev1.EventSource{Component: "gateway-agent", Host: t.pod},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	return err
}
