package agent

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/inventory"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// sharedRig is a passRig whose Gateway has routes of two other namespaces, "red" and "blue", by a clock of the test.
type sharedRig struct {
	*passRig
	clock *clocktesting.FakeClock
	// versions is how many versions of objects there were.
	versions int
}

func newSharedRig(t *testing.T) *sharedRig {
	t.Helper()
	r := &sharedRig{passRig: newPassRig(t, 1), clock: clocktesting.NewFakeClock(time.Now()), versions: 100}
	r.agent.reloads.clock = r.clock
	r.gatewaySeen.Spec.Routes = nil
	for i := range r.gatewaySeen.Spec.Listeners {
		r.gatewaySeen.Spec.Listeners[i].AllowedRoutes = &appv1.AllowedRoutes{Namespaces: appv1.RouteNamespaces{From: appv1.NamespacesFromAll}}
	}
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	for _, team := range []string{"red", "blue"} {
		r.put(r.agent.watch.attachments, newAttachment(r.gatewaySeen, team, "1"))
	}
	r.agent.pass(t.Context())
	r.eventually("the HTTPRoutes are synced", func() error { return r.locked(r.agent.watch.isSettled) })
	r.edit("red", "/first")
	r.edit("blue", "/first")
	r.passes()
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.awaitOldWorker()
	r.passes()
	r.expectRun("at first", "red", "/first")
	return r
}

// edit has a team replace its route: by one for a path, and for requests with a header if it is named.
func (r *sharedRig) edit(team, path string, headers ...string) {
	r.versions++
	match := gatewayv1.HTTPRouteMatch{Path: &gatewayv1.HTTPPathMatch{Value: &path}}
	for _, name := range headers {
		match.Headers = append(match.Headers, gatewayv1.HTTPHeaderMatch{Name: gatewayv1.HTTPHeaderName(name), Value: "1"})
	}
	r.put(r.agent.watch.share(team, testRoutes).of, &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: team, Name: team, UID: types.UID(team), Generation: int64(r.versions), ResourceVersion: strconv.Itoa(r.versions)},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
				Group: ptr.To[gatewayv1.Group](appv1.GroupName), Namespace: ptr.To[gatewayv1.Namespace](namespace), Name: gatewayN,
			}}},
			Hostnames: []gatewayv1.Hostname{gatewayv1.Hostname(team + ".example.com")},
			Rules:     []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{match}}},
		},
	})
}

// passes has the agent come round until nothing wakes it.
func (r *sharedRig) passes() {
	for range 20 {
		r.agent.pass(r.t.Context())
		select {
		case <-r.agent.wake:
		default:
			return
		}
	}
	r.t.Error("the agent does not come to rest")
}

// expectRun compares the path of the route of a team that HAProxy runs.
func (r *sharedRig) expectRun(what, team, want string) {
	r.t.Helper()
	got := "none"
	for key, route := range r.agent.state.sure().routes.All() {
		if strings.Contains(key, "/"+team+"/") || route.Origin.Namespace == team {
			got = route.Rules[0].Matches[0].Path
		}
	}
	if strings.TrimSuffix(got, "/") != want {
		r.t.Errorf("%s, HAProxy runs %s of team %s, want %s", what, got, team, want)
	}
}

// reloads is how often HAProxy was reloaded.
func (r *sharedRig) reloads() int {
	for line := range strings.Lines(r.haproxy.Master("show proc")) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "master" {
			n, _ := strconv.Atoi(fields[2])
			return n
		}
	}
	r.t.Error("HAProxy's master does not tell")
	return 0
}

// expectWaits compares the namespaces whose edits the report says to wait.
func (r *sharedRig) expectWaits(what string, want ...string) {
	r.t.Helper()
	var got []string
	r.agent.report.mu.Lock()
	defer r.agent.report.mu.Unlock()
	for _, problem := range r.agent.report.wanted.Problems {
		if problem.Reason == appv1.ProblemAwaitingReload {
			got = append(got, problem.Origin.Name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.t.Errorf("%s, edits of %q wait, want %q", what, got, want)
	}
}

// newTestBudget returns a budget, its clock, and what takes in edits and charges for a reload that is due.
func newTestBudget(t *testing.T, crowded *bool) (*reloadBudget, *clocktesting.FakeClock, func(what, due, want string, namespaces ...string)) {
	t.Helper()
	clock := clocktesting.NewFakeClock(time.Now())
	b := newReloadBudget("infra")
	b.clock = clock
	return b, clock, func(what, due, want string, namespaces ...string) {
		t.Helper()
		b.begin(func() bool { return *crowded })
		got := ""
		for _, namespace := range namespaces {
			if b.take(namespace) {
				got += namespace + " "
			}
		}
		if b.charge(due); got != want {
			t.Errorf("%s: %q are taken in, want %q", what, got, want)
		}
	}
}

// TestSharedReload: where several namespaces may have caused a reload, only one that causes the next one, too, is
// charged, for both.
func TestSharedReload(t *testing.T) {
	t.Parallel()
	b, clock, pass := newTestBudget(t, new(bool))
	pass("a reload that any may have caused", "1", "red blue infra ", "red", "blue", "infra")
	if len(b.limits) > 0 {
		t.Errorf("%v are charged", b.limits)
	}
	pass("one of them", "1", "red ", "red", "blue")
	pass("the other one", "1", "blue ", "blue", "infra")
	pass("one causes the next one, too", "2", "red ", "red")
	if left := b.limits["red"].TokensAt(clock.Now()); len(b.limits) > 1 || left != reloadBurst-2 {
		t.Errorf("%v are charged, and %v is left", b.limits, left)
	}
	clock.Step(2 * reloadInterval)
	pass("a while later", "2", "red blue infra ", "red", "blue", "infra")
}

// TestReloadBudget: who caused a reload lately comes by itself, waits while reloads are spaced out, and is charged for
// each that is due. Nobody is charged for an edit that takes none, or for waiting.
func TestReloadBudget(t *testing.T) {
	t.Parallel()
	crowded := false
	b, clock, pass := newTestBudget(t, &crowded)
	pass("at first", "", "red blue infra ", "red", "blue", "infra")
	pass("the first reload", "1", "red ", "red")
	for range 2 * reloadBurst {
		pass("a reload that is still due", "1", "blue ", "blue")
	}
	for range 2 * reloadBurst {
		pass("edits without any", "", "red ", "red")
	}
	pass("one is alone", "", "red ", "red", "blue", "infra")
	if !b.postponed {
		t.Error("the others do not come next")
	}
	pass("others are first", "", "blue infra ", "blue", "infra", "red")
	crowded = true
	pass("many old workers", "", "blue ", "red", "blue")
	crowded = false
	for i := range reloadBurst - 1 {
		pass("more reloads", fmt.Sprint("more-", i), "red ", "red")
	}
	pass("too many", "", "blue ", "red", "blue")
	if got := b.problems(); len(got) != 1 || got[0].Origin.Name != "red" {
		t.Errorf("the problems are %v", got)
	}
	for i := range 2 * reloadBurst {
		pass("the owner", fmt.Sprint("owner-", i), "infra ", "infra")
	}
	clock.Step(reloadInterval)
	pass("one more", "late", "red ", "red")
	pass("too many again", "", "", "red")
	b.begin(func() bool { return false })
	before := b.take("red")
	if clock.Step(reloadInterval); before || b.take("red") {
		t.Error("a part of the edits is taken in, and another one waits")
	}
	clock.Step(reloadBurst * reloadInterval)
	if pass("after a while", "", "blue red ", "blue", "red"); len(b.limits) > 0 {
		t.Errorf("%d namespaces are remembered", len(b.limits))
	}
}

// TestReloadsOfANamespace: one namespace causes only so many reloads. What it wants beyond waits, and is reported.
// Edits of another namespace are live at once, with and without a reload.
func TestReloadsOfANamespace(t *testing.T) {
	t.Parallel()
	r := newSharedRig(t)
	before := r.reloads()
	for i := range 2 * reloadBurst {
		r.edit("red", fmt.Sprint("/red-", i), fmt.Sprint("x-red-", i))
		r.edit("blue", fmt.Sprint("/blue-", i))
		r.passes()
		r.expectRun(fmt.Sprint("after edit ", i), "blue", fmt.Sprint("/blue-", i))
		r.expectRun(fmt.Sprint("after edit ", i), "red", fmt.Sprint("/red-", min(i, reloadBurst-1)))
	}
	if got := r.reloads() - before; got != reloadBurst {
		t.Errorf("one namespace caused %d reloads, want %d", got, reloadBurst)
	}
	r.expectWaits("beyond the bound", "red")

	r.edit("blue", "/new-name", "x-blue")
	r.passes()
	r.expectRun("with a name of its own", "blue", "/new-name")
	r.expectWaits("when another namespace has a name", "red")
	r.put(r.agent.watch.share("red", testServices).of, newService("late", func(service *corev1.Service) { service.Namespace = "red" }))
	r.passes()
	if r.agent.watch.service("red", "late") != nil {
		t.Error("a Service does not wait")
	}

	r.clock.Step(reloadInterval)
	r.passes()
	r.expectRun("once there is room", "red", fmt.Sprint("/red-", 2*reloadBurst-1))
	r.expectWaits("once there is room")
	if got := r.reloads() - before; got != reloadBurst+2 {
		t.Errorf("there were %d reloads, want %d", got, reloadBurst+2)
	}
	r.edit("red", "/no-name")
	r.passes()
	r.expectWaits("right after", "red")
	r.clock.Step(reloadBurst * reloadInterval)
	r.passes()
	r.expectRun("after a while", "red", "/no-name")
	if len(r.agent.reloads.limits) > 1 {
		t.Errorf("%d namespaces are remembered", len(r.agent.reloads.limits))
	}
}

// TestMaterialAwaitsReloads: new keys of tokens, other CA certificates, and the first or last certificate of a listener
// wait for the namespace of the route, Service or listener. A key that goes takes no reload, and does not wait.
func TestMaterialAwaitsReloads(t *testing.T) {
	t.Parallel()
	now, waiting := time.Now(), map[string]bool{}
	good := certificateFile{Certificate: inventory.Certificate{NotAfter: now.Add(time.Hour), Names: []string{"red.example.com"}}}
	files := mounted{certificates: map[string]certificateFile{"pair": good}, hasKeys: true, mayTake: func(namespace string) bool { return !waiting[namespace] }}
	put := func(authority, certificate string, keys ...string) {
		files.authorities = map[string]authorityFile{"ca": {pem: []byte(authority)}}
		files.keySets = map[string]keySetFile{"staff": {}}
		for _, key := range keys {
			files.keySets["staff"] = keySetFile{keys: append(files.keySets["staff"].keys, routing.JWTKey{ID: key})}
		}
		file := good
		file.problem = certificate
		files.certificates["pair"] = file
	}
	table := tableOf(t, "red")
	var last material
	expect := func(what, want string, isLater bool) {
		t.Helper()
		last.listeners = nil // as if a file were new
		last = collect(&table, files, "shop", now, &last)
		got := fmt.Sprint(last.certificates, string(last.authorities["ca"]))
		for _, key := range last.keySets[routing.KeySource{ConfigMap: "staff"}] {
			got += " " + key.ID
		}
		if got != want || isLater != last.until.Equal(now.Add(checkInterval)) {
			t.Errorf("%s: got %s until %v, want %s", what, got, last.until.Sub(now), want)
		}
	}
	const certified = "map[tls:[{pair [red.example.com] 0}]]"
	put("one", "", "a", "b")
	expect("at first", certified+"one a b", false)
	waiting["red"] = true
	put("two", "it is bad", "a", "b", "c")
	expect("while it waits", certified+"one a b", true)
	put("one", "", "b")
	expect("when a key goes meanwhile", certified+"one b", false)
	put("two", "it is bad", "c")
	expect("while it waits again", certified+"one b", true)
	delete(waiting, "red")
	expect("once it is its turn", "map[]two c", false)
	waiting["red"], waiting["blue"] = true, true
	put("two", "", "c")
	expect("when a certificate comes back", "map[]two c", true)
}

// TestBundlesAwaitNoNamespace: what changes in a ClusterTrustBundle, which is of no namespace, counts at once for all.
func TestBundlesAwaitNoNamespace(t *testing.T) {
	t.Parallel()
	asked := 0
	files := mounted{mayTake: func(string) bool { asked++; return false }}
	ca := model.TrustBundle("staff")
	table := tableOf(t, "red")
	table.Policies = map[model.Backend]model.BackendPolicy{}
	for _, team := range []string{"red", "blue"} {
		table.Policies[model.Backend{Namespace: team, Service: "api", Port: 443}] = model.BackendPolicy{TLS: &model.BackendTLS{CAs: []string{ca}}}
	}
	var last material
	for _, content := range []string{"one", "two", ""} {
		files.authorities = map[string]authorityFile{}
		if files.authorities[ca] = (authorityFile{pem: []byte(content)}); content == "" {
			files.authorities[ca] = authorityFile{problem: "it does not exist"}
		}
		if last = collect(&table, files, "shop", time.Now(), &last); string(last.authorities[ca]) != content {
			t.Errorf("got %q, want %q", last.authorities[ca], content)
		}
	}
	if asked > 0 {
		t.Error("a namespace is charged")
	}
}

// tableOf returns a table with a route, a Service with TLS and a listener of a team.
func tableOf(t *testing.T, team string) routing.Table {
	t.Helper()
	gateway := &model.Gateway{
		Listeners: []model.Listener{
			{Name: "http", Port: 80, Protocol: model.ProtocolHTTP},
			{
				Name: "tls", Port: 443, Protocol: model.ProtocolHTTPS, Hostname: team + ".example.com",
				Origin: model.Origin{Namespace: team}, TLS: &model.ListenerTLS{Secrets: []string{"pair"}},
			},
		},
		Routes: model.Ordered(model.Route{
			Kind: "HTTPRoute", Name: team + "/api", Listeners: []string{"http"}, Hostnames: []string{""},
			Rules: []model.Rule{{
				Matches: []model.Match{{Path: "/", PathType: model.Prefix}},
				Action:  &model.Action{JWT: &model.JWT{Issuers: []model.Issuer{{KeysFrom: routing.KeySource{ConfigMap: "staff"}}}}},
			}},
		}),
	}
	table, _ := routing.Compile(gateway, filters.Problem)
	table.Policies = map[model.Backend]model.BackendPolicy{{Namespace: team, Service: "api", Port: 443}: {TLS: &model.BackendTLS{CAs: []string{"ca"}}}}
	return table
}

// TestAttachmentsAreNoWayAround: a namespace's GatewayAttachment changes at once for the agent, and the namespace's
// edits still wait.
func TestAttachmentsAreNoWayAround(t *testing.T) {
	t.Parallel()
	r := newSharedRig(t)
	before := r.reloads()
	for i := range 2 * reloadBurst {
		attachment := newAttachment(r.gatewaySeen, "red", strconv.Itoa(2+i))
		if i%2 == 0 {
			attachment.Spec.Resources = append(attachment.Spec.Resources, "grpcroutes")
		}
		r.put(r.agent.watch.attachments, attachment)
		r.edit("red", fmt.Sprint("/red-", i), fmt.Sprint("x-red-", i))
		r.edit("blue", fmt.Sprint("/blue-", i))
		r.passes()
		r.expectRun(fmt.Sprint("after edit ", i), "blue", fmt.Sprint("/blue-", i))
	}
	if got := r.reloads() - before; got != reloadBurst {
		t.Errorf("one namespace caused %d reloads, want %d", got, reloadBurst)
	}
	if limit := r.agent.reloads.limits["blue"]; limit != nil && limit.TokensAt(r.clock.Now()) < reloadBurst-1 {
		t.Error("another namespace was charged for them")
	}
	if r.agent.watch.share("red", "grpcroutes") == nil {
		t.Error("what the routes of before may need goes before they do")
	}
	edits := r.agent.watch.edits
	if r.passes(); r.agent.watch.edits != edits {
		t.Error("each pass is reported")
	}
	r.clock.Step(reloadInterval)
	r.passes()
	r.expectRun("once there is room", "red", fmt.Sprint("/red-", 2*reloadBurst-1))
	if r.agent.watch.share("red", "grpcroutes") != nil {
		t.Error("what no route needs any more stays")
	}
}
