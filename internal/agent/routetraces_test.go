package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/proxyconfig"
	"gateway/internal/routetrace"
	"gateway/internal/routing"
)

// tracesRig is a Gateway in the namespace infra with a route of team-a and one of team-b. One request of each is under
// way for 9 seconds.
type tracesRig struct {
	*routeTraces
	t     *testing.T
	core  *kubefake.Clientset
	asked int
}

func newTracesRig(t *testing.T) *tracesRig {
	t.Helper()
	r := &tracesRig{t: t, core: kubefake.NewClientset()}
	r.core.PrependReactor("create", "events", func(action clienttesting.Action) (bool, runtime.Object, error) { // as the API server does
		event := action.(clienttesting.CreateAction).GetObject().(*corev1.Event)
		event.Name = fmt.Sprint(event.GenerateName, event.Namespace)
		return false, nil, nil
	})
	r.routeTraces = newRouteTraces(Options{Namespace: "infra", Pod: podName, Core: r.core}, &configHandler{})
	r.watch = func(context.Context, []ir.MapEntry) error { return nil }
	r.underWay = func(context.Context, time.Duration) ([]proxyconfig.Request, error) {
		r.asked++
		var all []proxyconfig.Request
		for _, team := range []string{"team-a", "team-b"} {
			all = append(all, proxyconfig.Request{
				Started: time.Now().Add(-9 * time.Second), Client: "192.0.2.1", Port: 80, Method: "GET", Path: "/" + team, Backend: team + "_web_80",
				Server: "10.0.0.1_8080", WaitsFor: proxyconfig.ForEndpoint,
			})
		}
		return all, nil
	}
	return r
}

// newTable returns the one of the Gateway.
func (r *tracesRig) newTable() routing.Table {
	var routes []model.Route
	for _, route := range []string{"team-a/web", "team-a/more", "team-b/web"} {
		team, _, _ := strings.Cut(route, "/")
		routes = append(routes, model.Route{
			Kind: "HTTPRoute", Name: route, Listeners: []string{"http"}, Hostnames: []string{strings.ReplaceAll(route, "/", "-") + ".example.com"}, Rules: []model.Rule{{
				Action:   &model.Action{},
				Matches:  []model.Match{{PathType: model.Prefix, Path: "/"}},
				Backends: []model.Target{{Backend: model.Backend{Namespace: team, Service: "web", Port: 80}, Weight: 1}},
			}},
		})
	}
	table, _ := routing.Compile(&model.Gateway{Listeners: []model.Listener{{Name: "http", Port: 80, Protocol: "HTTP"}}, Routes: model.Ordered(routes...)}, filters.Problem)
	return table
}

// newQuestion returns a route that asks for what is older than some seconds.
func newQuestion(namespace, name, id string, until time.Duration, older int32) *gatewayv1.HTTPRoute {
	value, _ := json.Marshal(routetrace.Question{ID: id, Until: time.Now().Add(until), OlderSeconds: older})
	return &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(namespace + name), Annotations: map[string]string{routetrace.Annotation: string(value)},
	}}
}

// answers returns what all Events tell, and empties the list: NAMESPACE/ROUTE ID PATHS.
func (r *tracesRig) answers() []string {
	r.t.Helper()
	r.answerAll(r.t.Context())
	events := must.Get(r.core.CoreV1().Events("").List(r.t.Context(), metav1.ListOptions{}))(r.t)
	var all []string
	for _, event := range events.Items {
		var answer routetrace.Answer
		if err := json.Unmarshal([]byte(event.Message), &answer); err != nil || event.Reason != routetrace.Reason || event.Namespace != event.InvolvedObject.Namespace {
			r.t.Errorf("%v: %+v", err, event)
		}
		var paths []string
		for _, request := range answer.Requests {
			paths = append(paths, request.Path)
		}
		for _, text := range answer.Ended {
			var line routetrace.Line
			if err := json.Unmarshal(text, &line); err != nil {
				r.t.Error(err)
			}
			paths = append(paths, line.Path)
		}
		if answer.Looked == routetrace.MaxLooked {
			paths = append(paths, fmt.Sprint("looked at ", answer.Looked))
		}
		all = append(all, fmt.Sprintf("%s/%s %s %s", event.Namespace, event.InvolvedObject.Name, answer.ID, strings.Join(paths, " ")))
		if err := r.core.CoreV1().Events(event.Namespace).Delete(r.t.Context(), event.Name, metav1.DeleteOptions{}); err != nil {
			r.t.Error(err)
		}
	}
	slices.Sort(all)
	return all
}

// TestRouteTraces: who asks by a route gets an answer in its namespace, once, with the requests of this route alone.
func TestRouteTraces(t *testing.T) {
	r := newTracesRig(t)
	expect := func(what string, asked int, want ...string) {
		t.Helper()
		r.asked = 0
		if got := r.answers(); !slices.Equal(got, want) || r.asked != asked {
			t.Errorf("%s: HAProxy was asked %d times, and the answers are %q, want %d and %q", what, r.asked, got, asked, want)
		}
	}
	question := newQuestion("team-a", "web", "1", time.Minute, 0)
	r.note(nil, question)
	r.update(routing.Table{})
	expect("before the routes are known", 0)
	r.update(r.newTable())
	expect("then", 1, "team-a/web 1 /team-a")
	expect("without a question", 0)
	edited := question.DeepCopy()
	edited.ResourceVersion = "2"
	r.note(question, edited)
	expect("the same question", 0)
	r.note(question, newQuestion("team-a", "web", "2", time.Minute, 0))
	r.note(nil, newQuestion("team-b", "web", "3", time.Minute, 5))
	expect("two questions", 1, "team-a/web 2 /team-a", "team-b/web 3 /team-b")
	r.note(nil, newQuestion("team-b", "web", "4", time.Minute, 10))
	expect("nothing is that old", 1, "team-b/web 4 ")
	r.note(nil, newQuestion("team-a", "web", "5", -time.Second, 0))
	r.note(nil, newQuestion("team-a", "web", "6", time.Hour, 0))
	r.note(nil, newQuestion("team-a", "other", "7", time.Minute, 0))
	r.note(question, nil)
	expect("too late, too early, no route of the Gateway, and none any more", 0)
	for i := range 2 * tracedOfNamespace {
		r.note(nil, newQuestion("team-a", fmt.Sprint("route-", i), "9", time.Minute, 0))
	}
	r.note(nil, newQuestion("team-b", "web", "10", time.Minute, 0))
	if len(r.routeTraces.asked) != tracedOfNamespace+1 {
		t.Errorf("%d questions wait", len(r.routeTraces.asked))
	}
	expect("a namespace that asks a lot", 1, "team-b/web 10 /team-b")
	r.note(nil, newQuestion("team-a", "web", "11", time.Minute, 0))
	r.note(nil, newQuestion("team-a", "more", "11", time.Minute, 0))
	first, second := r.answers(), r.answers()
	if all := slices.Sorted(slices.Values(append(first, second...))); len(first) != 1 || !slices.Equal(all, []string{"team-a/more 11 /team-a", "team-a/web 11 /team-a"}) {
		t.Errorf("the answers are %q, then %q", first, second)
	}
}

// TestQuestionsAreSeen: agents keep the annotation of routes, and no other.
func TestQuestionsAreSeen(t *testing.T) {
	r := newGuardRig()
	r.add(testRoutes)
	var got []string
	r.traced = func(_, now metav1.Object) { got = append(got, fmt.Sprint(now.GetAnnotations())) }
	route := newQuestion(namespace, "web", "1", time.Minute, 0)
	want := fmt.Sprint(route.Annotations)
	route.Annotations["other"] = "x"
	r.put(route)
	if !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// logLine is what HAProxy hands over about a request.
func logLine(route, path, backend string) []byte {
	return fmt.Appendf(nil, `{"client":"192.0.2.1","host":"a.example.com","path":%q,"route":%q,"backend":%q,"server":"10.0.0.1_8080"}`, path, route, backend)
}

// TestNextRequestsOfRoutes: HAProxy watches a route only while somebody waits for its next requests. The answers have
// the wanted requests, and no others.
func TestNextRequestsOfRoutes(t *testing.T) {
	r := newTracesRig(t)
	r.update(r.newTable())
	var watched []string
	calls := 0
	r.watch = func(_ context.Context, routes []ir.MapEntry) error {
		watched, calls = nil, calls+1
		for _, route := range routes {
			watched = append(watched, route.Key)
		}
		return nil
	}
	expect := func(what string, answers, watches []string) {
		t.Helper()
		if got := r.answers(); !slices.Equal(got, answers) || !slices.Equal(watched, watches) {
			t.Errorf("%s: the answers are %q, want %q, and %q are watched, want %q", what, got, answers, watched, watches)
		}
	}
	ask := func(route, id string, next int, wanted routetrace.Wanted) *gatewayv1.HTTPRoute {
		question := newQuestion("team-a", route, id, time.Minute, 0)
		value, _ := json.Marshal(routetrace.Question{ID: id, Until: time.Now().Add(time.Minute), Next: next, Wanted: wanted})
		question.Annotations[routetrace.Annotation] = string(value)
		r.note(nil, question)
		return question
	}
	expect("what an agent before this one may have left", nil, nil)
	if expect("no question", nil, nil); calls != 1 {
		t.Errorf("HAProxy was told %d times that no route is watched", calls)
	}
	ask("web", "1", 2, routetrace.Wanted{Path: "/cart"})
	web := []string{"team-a/web"}
	expect("a question", []string{"team-a/web 1 "}, web)
	expect("no request", nil, web)
	r.take(logLine("team-a/web", "/cart/1", "team-a_web_80"))
	r.take(logLine("team-a/web", "/other", "team-a_web_80"))
	r.take(logLine("team-a/more", "/cart/2", "team-a_web_80"))
	r.take(logLine("team-b/web", "/cart/3", "team-b_web_80"))
	r.take([]byte("Proxy 80 stopped"))
	expect("a request", []string{"team-a/web 1 /cart/1"}, web)
	r.take(logLine("team-a/web", "/cart/4", "team-a_web_80"))
	r.take(logLine("team-a/web", "/cart/5", "team-a_web_80"))
	expect("as many as were asked for", []string{"team-a/web 1 /cart/4"}, nil)
	expect("then", nil, nil)
	if len(r.routeTraces.asked) > 0 {
		t.Errorf("%v wait", r.routeTraces.asked)
	}

	question := ask("web", "2", 1, routetrace.Wanted{Path: "/none"})
	expect("another question", []string{"team-a/web 2 "}, web)
	answered := question.DeepCopy()
	answered.Annotations = nil
	r.note(question, answered)
	expect("nobody waits any more", nil, nil)

	ask("web", "3", 1, routetrace.Wanted{Path: "/none"})
	for range 2 * routetrace.MaxLooked {
		r.take(logLine("team-a/web", "/cart", "team-a_web_80"))
	}
	expect("a busy route", []string{fmt.Sprint("team-a/web 3 looked at ", routetrace.MaxLooked)}, nil)
	ask("other", "4", 1, routetrace.Wanted{})
	expect("a route of another Gateway", nil, nil)
}

// TestWatchedRoutes: the agent gets the lines of a route that is watched, also after a reload, and of no other.
func TestWatchedRoutes(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	traces := r.agent.traces
	expect := func() {
		t.Helper()
		q := &routeQuestion{Question: routetrace.Question{ID: "1", Until: time.Now().Add(time.Minute), Next: routetrace.MaxRequests}, route: tracedRoute{kind: "HTTPRoute"}}
		traces.mu.Lock()
		traces.asked["api"] = q
		traces.mu.Unlock()
		r.await("requests are told", func() bool {
			traces.watchRoutes(t.Context(), time.Now())
			r.expectStatus("/", http.StatusOK)
			traces.mu.Lock()
			defer traces.mu.Unlock()
			return q.taken != 0
		})
	}
	expect()
	r.expectReport(r.edit(r.reloading("api", "other")), "")
	expect()
}

// BenchmarkWatchedLine takes in a line about a request of another path than the question has.
func BenchmarkWatchedLine(b *testing.B) {
	traces := newRouteTraces(Options{}, &configHandler{})
	q := &routeQuestion{Question: routetrace.Question{Next: 1, Wanted: routetrace.Wanted{Path: "/none"}}}
	traces.asked["team-a/web"] = q
	line := []byte(`{"time":"2026-11-30T02:42:11.622Z","requestId":"57294b43-c436-4e91-95d8-d78b03b99f7e","client":"127.0.0.1","clientPort":52888,"port":"80","method":"GET","host":"web.example","path":"/cart",` +
		`"userAgent":"curl/8.0","status":200,"bytesIn":58,"bytesOut":469,"msRequest":0,"msQueue":0,"msConnect":0,"msResponse":0,"msTotal":0,"route":"team-a/web","rule":"0","listener":"http",` +
		`"backend":"team-a_web_80","filter":"-","server":"10.0.0.1_8080","retries":"0","termination":"--"}`)
	for b.Loop() {
		q.looked = 0
		traces.take(line)
	}
}
