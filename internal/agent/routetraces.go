package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/logging"
	"gateway/internal/proxyconfig"
	"gateway/internal/ring"
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

	// watch has HAProxy hand over the lines of the access log about these routes, and of no others.
	watch func(ctx context.Context, routes []ir.MapEntry) error

	mu sync.Mutex
	// table is what HAProxy runs; nil: it is not known yet.
	table *routing.Table
	// asked are questions that are open, by what the access log calls the route.
	asked map[string]*routeQuestion
	// watching reports whether HAProxy may watch routes.
	watching bool
}

// routeQuestion is a question of a route.
type routeQuestion struct {
	routetrace.Question
	route tracedRoute
	// ended are lines to be told. taken is how many fit the question, and looked how many were compared with it.
	ended         []json.RawMessage
	taken, looked int
	// told reports whether there was an answer.
	told bool
}

// isOver reports whether nothing is to be added to what the question has got.
func (q *routeQuestion) isOver() bool {
	return q.Next == 0 || q.taken == q.Next || q.looked == routetrace.MaxLooked
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
		watch: func(ctx context.Context, routes []ir.MapEntry) error {
			return h.worker.ReplaceMap(ctx, ir.WatchedMap, routes)
		},
		wake: make(chan struct{}, 1), asked: map[string]*routeQuestion{}, watching: true, // by an agent before this one
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

// note takes in an object that changed. A question that was there before is not new.
func (t *routeTraces) note(before, now metav1.Object) {
	if now == nil {
		return
	}
	value := now.GetAnnotations()[routetrace.Annotation]
	had := before != nil && before.GetUID() == now.GetUID() && before.GetAnnotations()[routetrace.Annotation] != ""
	if value == "" && !had || had && before.GetAnnotations()[routetrace.Annotation] == value {
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
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.asked, route.logName()) // nobody waits for an answer to the one before
	if err != nil || !question.Counts(time.Now()) {
		return
	}
	count := 0
	for _, other := range t.asked {
		if other.route.Namespace == route.Namespace {
			count++
		}
	}
	if count < tracedOfNamespace {
		t.asked[route.logName()] = &routeQuestion{Question: question, route: route}
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
	t.wakeUp()
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
	t.watchRoutes(ctx, now)
	table, answers := t.next(now)
	var all []proxyconfig.Request
	var failure error
	if slices.ContainsFunc(answers, func(a answerTo) bool { return a.question.Next == 0 }) {
		if all, failure = t.underWay(ctx, 0); failure != nil {
			logging.Warningf("The requests of routes are not told: %v", failure)
		}
	}
	for _, a := range answers {
		switch {
		case a.question.Next > 0:
		case failure != nil:
			continue
		default:
			a.Requests, a.More = oldEnough(routetrace.Of(*table, a.route.Namespace, t.own, a.route.logName(), all), a.question.OlderSeconds, now)
		}
		if err := t.send(ctx, a.route, a.Answer); err != nil {
			logging.Warningf("The requests of %s %s are not told: %v", a.route.kind, a.route, err)
		}
	}
}

// oldEnough returns as many requests as an answer has that are as old as was asked for, and how many more there are.
func oldEnough(all []routetrace.Request, seconds int32, now time.Time) (first []routetrace.Request, more int) {
	first = []routetrace.Request{}
	for _, request := range all {
		switch {
		case now.Sub(request.Started) < time.Duration(seconds)*time.Second:
		case len(first) == routetrace.MaxRequests:
			more++
		default:
			first = append(first, request)
		}
	}
	return first, more
}

// answerTo is an answer to the question of a route.
type answerTo struct {
	routetrace.Answer
	route    tracedRoute
	question routetrace.Question
}

// next returns an answer for each namespace that has something to be told, if routes of the Gateway have questions.
func (t *routeTraces) next(now time.Time) (table *routing.Table, answers []answerTo) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.table == nil {
		return nil, nil
	}
	has := map[string]bool{}
	for name, q := range t.asked {
		switch {
		case !q.Counts(now) || !routetrace.Has(*t.table, name): // it is of another Gateway
			delete(t.asked, name)
		case has[q.route.Namespace] || q.told && len(q.ended) == 0 && !q.isOver():
		default:
			has[q.route.Namespace] = true
			a := answerTo{Answer: routetrace.Answer{ID: q.ID, Pod: t.pod, Ended: q.ended}, route: q.route, question: q.Question}
			if q.told, q.ended = true, nil; q.isOver() {
				a.Looked = q.looked
				delete(t.asked, name)
			}
			answers = append(answers, a)
		}
	}
	if len(t.asked) > 0 || t.watching {
		t.wakeUp()
	}
	return t.table, answers
}

// watchRoutes makes HAProxy watch the routes with questions for the next requests. HAProxy forgets them with a reload,
// so it gets them each time, unless it watches none and is to watch none.
func (t *routeTraces) watchRoutes(ctx context.Context, now time.Time) {
	t.mu.Lock()
	var routes []ir.MapEntry
	for name, q := range t.asked {
		if !q.isOver() && q.Counts(now) && t.table != nil && routetrace.Has(*t.table, name) {
			routes = append(routes, ir.MapEntry{Key: name, Value: "1"})
		}
	}
	isNeeded := t.watching || len(routes) > 0
	t.mu.Unlock()
	if !isNeeded {
		return
	}
	err := t.watch(ctx, routes)
	if err != nil && len(routes) > 0 {
		logging.Warningf("The next requests of routes are not told: %v", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watching = len(routes) > 0 || err != nil && !errors.Is(err, runtime.ErrNoMap)
}

// serve takes in the lines that HAProxy's workers hand over, until ctx ends.
func (t *routeTraces) serve(ctx context.Context, listener net.Listener) {
	ring.Serve(ctx, listener, "next requests of routes", func() func([]byte) { return t.take })
}

// take takes in a line about a request that has ended.
func (t *routeTraces) take(text []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.asked) == 0 || t.table == nil {
		return
	}
	var line routetrace.Line
	if json.Unmarshal(text, &line) != nil { // HAProxy's own words about itself
		return
	}
	q := t.asked[line.Route]
	if q == nil || q.isOver() {
		return
	}
	if q.looked++; !q.Takes(line) {
		return
	}
	if ended, err := routetrace.Ended(*t.table, text, line, q.route.Namespace, t.own); err == nil {
		q.taken, q.ended = q.taken+1, append(q.ended, ended)
	}
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
