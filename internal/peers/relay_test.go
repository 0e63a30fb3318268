package peers

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/must"
	"gateway/internal/routing/routingtest"
	"gateway/internal/testtier"
)

// testPod is a HAProxy with its relay, at an address of its own.
type testPod struct {
	Pod
	t       testing.TB
	relay   *Relay
	haproxy *haproxytest.Instance
	url     string
	stop    context.CancelFunc
	// within is how long sees waits.
	within time.Duration
}

// promised is when pods know each other's counts. The machine of make test has other things to do.
var promised = map[bool]time.Duration{false: 20 * time.Second, true: time.Second}[testtier.All]

// startPod starts a pod whose requests for / are limited, as a number from 1. The others listen on a port.
func startPod(t testing.TB, number, port int, limit appv1.RequestLimit, others ...appv1.RuleFilter) *testPod {
	t.Helper()
	p := &testPod{t: t, Pod: Pod{Name: fmt.Sprint("web-", number), Address: netip.MustParseAddr(fmt.Sprint("127.0.0.", number))}, within: 20 * time.Second}
	spec := &appv1.GatewaySpec{
		Listeners: []appv1.Listener{{Name: "http", Port: haproxytest.FreePort(t), Protocol: appv1.ProtocolHTTP}},
		Routes: []appv1.Route{{Name: "limited", Rules: []appv1.RouteRule{{Filters: append(others,
			appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{limit}}},
			appv1.RuleFilter{Type: appv1.RuleFilterDirectResponse, DirectResponse: &appv1.DirectResponse{}},
		)}}}},
	}
	p.url = fmt.Sprintf("http://127.0.0.1:%d/", spec.Listeners[0].Port)
	table, problems := routingtest.Compile(spec)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	paths := haproxytest.NewPaths(t)
	p.relay = New(p.Name, paths.PeersSocket(), port)
	p.relay.dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(p.Address, 0))
	ctx, stop := context.WithCancel(t.Context())
	p.stop = stop
	listener, err := net.Listen("unix", paths.PodsSocket())
	if err != nil {
		t.Fatal(err)
	}
	go p.relay.Serve(ctx, listener)
	server := httptest.NewUnstartedServer(p.relay)
	_ = server.Listener.Close()
	if server.Listener, err = net.Listen("tcp", netip.AddrPortFrom(p.Address, uint16(port)).String()); err != nil {
		t.Fatal(err)
	}
	server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	server.Start()
	t.Cleanup(func() { stop(); server.CloseClientConnections() })
	context.AfterFunc(ctx, func() { _ = server.Listener.Close() })
	files := render.Render(render.Input{
		Table: table, Paths: paths, Bind: render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)},
	}).AllFiles()
	files[ir.PodsFile] = []byte(ir.PodsKey + " " + p.relay.IDs() + "\n")
	p.haproxy = haproxytest.Start(t, paths, files)
	return p
}

// end ends a pod at once.
func (p *testPod) end() {
	p.stop()
	p.haproxy.Stop()
}

// reload reloads a pod's HAProxy, and waits for its new worker. Requests go to that one.
func (p *testPod) reload() {
	worker := func() string {
		_, pid, _ := strings.Cut(p.haproxy.Worker("show info"), "\nPid: ")
		pid, _, _ = strings.Cut(pid, "\n")
		return pid
	}
	old := worker()
	p.haproxy.Master("reload")
	for worker() == old {
		time.Sleep(time.Millisecond)
	}
	http.DefaultClient.CloseIdleConnections()
}

// meet tells pods of each other.
func meet(pods ...*testPod) {
	var all []Pod
	for _, p := range pods {
		all = append(all, p.Pod)
	}
	for _, p := range pods {
		p.relay.Update(all)
		p.haproxy.Worker("set map " + p.haproxy.Paths.Map(ir.PodsFile) + " " + ir.PodsKey + " " + p.relay.IDs())
	}
}

// learned matches what HAProxy says of its peers once it has asked them for all that they know: the last two bits are
// set. Until then, an old number of another pod may replace what a pod counted itself. If all pods start at once, that
// takes 5 s.
var learned = regexp.MustCompile(`flags=0x[0-9a-f]*[37bf] `)

// hasLearned waits until a pod has learned what the others know.
func (p *testPod) hasLearned() {
	p.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !learned.MatchString(strings.SplitN(p.haproxy.Worker("show peers"), "\n", 2)[0]) {
		if time.Now().After(deadline) {
			p.t.Fatal(p.Name, "does not learn what other pods know")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *testPod) get() int { return p.getWith(nil) }

func (p *testPod) getWith(headers http.Header) int {
	p.t.Helper()
	request := must.Get(http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url, http.NoBody))(p.t)
	request.Header = headers
	response, err := http.DefaultClient.Do(request)
	must.Do(p.t, err)
	_ = response.Body.Close()
	return response.StatusCode
}

// sees waits until a pod knows that another has let requests through.
func (p *testPod) sees(table string, other *testPod, requests int) {
	p.t.Helper()
	deadline := time.Now().Add(p.within)
	// A request adds 100 to a counter.
	entry := regexp.MustCompile(`key=` + ir.PodID(other.Name) + `\w+ .*gpc\w*_rate[^=]*=(\d+)`)
	for {
		entries := p.haproxy.Worker("show table " + ir.PodsSection + "/" + table + "_100")
		if found := entry.FindStringSubmatch(entries); found != nil {
			if n, _ := strconv.Atoi(found[1]); n >= requests*100 {
				return
			}
		}
		if table == "second" {
			other.get() // what it let through before is forgotten soon
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("%s does not know that %s has let %d requests through: %s", p.Name, other.Name, requests, entries)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestPodsCountTogether: pods come and go, and the limit is for all of them, without a reload.
func TestPodsCountTogether(t *testing.T) {
	t.Parallel()
	port := int(haproxytest.FreePort(t))
	limit := appv1.RequestLimit{Requests: 6, Unit: appv1.RateLimitHour}
	a, b, c := startPod(t, 1, port, limit), startPod(t, 2, port, limit), startPod(t, 3, port, limit)
	meet(a, b, c)
	a.hasLearned()
	expect := func(p *testPod, want int) {
		t.Helper()
		if got := p.get(); got != want {
			t.Errorf("%s: got %d, want %d", p.Name, got, want)
		}
	}
	for i, p := range []*testPod{a, b, c} {
		expect(p, http.StatusOK)
		if i > 0 {
			a.sees("hour", p, 1)
		}
	}
	for range 3 {
		expect(a, http.StatusOK)
	}
	expect(a, http.StatusTooManyRequests)
	b.sees("hour", a, 4)
	b.sees("hour", c, 1)
	expect(b, http.StatusTooManyRequests)

	// Requests that a pod has let through still count when it is gone, also for a new pod.
	c.end()
	meet(a, b)
	expect(b, http.StatusTooManyRequests)
	d := startPod(t, 4, port, limit)
	meet(a, b, d)
	d.sees("hour", a, 4)
	d.sees("hour", b, 1)
	d.sees("hour", c, 1)
	meet(a, b, d)
	expect(d, http.StatusTooManyRequests)

	// A reload hands the counts over.
	a.reload()
	meet(a, b, d)
	a.sees("hour", a, 4)
	a.sees("hour", b, 1)
	expect(a, http.StatusTooManyRequests)
}

// TestPodsMeetAtOnce: pods that learn of each other at once are connected soon, though each of two connects.
func TestPodsMeetAtOnce(t *testing.T) {
	t.Parallel()
	port := int(haproxytest.FreePort(t))
	var pods []*testPod
	for number := range 5 {
		pods = append(pods, startPod(t, number+1, port, appv1.RequestLimit{Requests: 1000, Unit: appv1.RateLimitHour}))
	}
	meet(pods...)
	for _, p := range pods {
		p.within = promised
		p.get()
		for _, other := range pods {
			other.sees("hour", p, 1)
		}
	}
}

// TestPodsMeetLate: a pod that does not know another yet refuses its connection, and takes it once it does. A reload of
// either side's HAProxy connects them again.
func TestPodsMeetLate(t *testing.T) {
	t.Parallel()
	port := int(haproxytest.FreePort(t))
	limit := appv1.RequestLimit{Requests: 1000, Unit: appv1.RateLimitHour}
	a, b := startPod(t, 1, port, limit), startPod(t, 2, port, limit)
	b.relay.Update([]Pod{a.Pod, b.Pod})
	a.within, b.within = promised, promised
	meet(a, b)
	for requests := 1; requests <= 5; requests++ {
		a.get()
		b.get()
		a.sees("hour", b, requests)
		b.sees("hour", a, requests)
		[]*testPod{a, b}[requests%2].reload()
		meet(a, b)
		a.hasLearned() // what it counted before would be replaced by what the old worker counted
		b.hasLearned()
	}
}

// TestOneConnection: of two connections between two pods, the one from the first by name is made.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	first, second := New("web-1", "/nowhere", 0), New("web-2", "/nowhere", 0)
	toSecond, toFirst := first.connect("web-2", true), second.connect("web-1", true)
	if toSecond == nil || toFirst == nil {
		t.Fatal("no connection is made")
	}
	if first.connect("web-2", false) != nil {
		t.Error("web-1 takes a connection from web-2 beside the one to it")
	}
	toFirst()
	fromFirst := second.connect("web-1", false)
	if fromFirst == nil {
		t.Fatal("web-2 does not take the connection from web-1")
	}
	if second.connect("web-1", true) != nil {
		t.Error("web-2 connects with web-1 beside the connection from it")
	}
	toSecond()
	fromFirst()
	if second.connect("web-1", true) == nil || first.connect("web-2", false) == nil {
		t.Error("web-2 cannot connect with web-1 after the end of the connection from it")
	}
}

// TestOnlyPodsOfTheGateway: nobody else can say what was counted.
func TestOnlyPodsOfTheGateway(t *testing.T) {
	t.Parallel()
	relay := New("web-1", "/nowhere", 0)
	relay.Update([]Pod{{"web-1", netip.MustParseAddr("10.0.0.1")}, {"web-2", netip.MustParseAddr("10.0.0.2")}})
	for _, test := range []struct{ address, pod, upgrade string }{
		{"10.0.0.3:1", "web-2", protocol},
		{"10.0.0.2:1", "web-1", protocol},
		{"10.0.0.1:1", "web-1", protocol},
		{"10.0.0.2:1", "", protocol},
		{"10.0.0.2:1", "web-3", protocol},
		{"10.0.0.2:1", "web-2", "websocket"},
	} {
		request := httptest.NewRequest(http.MethodGet, Path, nil)
		request.RemoteAddr = test.address
		request.Header.Set("Upgrade", test.upgrade)
		request.Header.Set(podHeader, test.pod)
		answer := httptest.NewRecorder()
		if relay.ServeHTTP(answer, request); answer.Code != http.StatusForbidden {
			t.Errorf("%+v: got %d, want 403", test, answer.Code)
		}
	}
}

// TestPodsKeepTheirNumbers: a pod keeps its number while it is there, and as long as no other needs it.
func TestPodsKeepTheirNumbers(t *testing.T) {
	t.Parallel()
	pods := func(from, to int) (pods []Pod) {
		for i := from; i <= to; i++ {
			pods = append(pods, Pod{Name: fmt.Sprint("web-", i), Address: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})})
		}
		return pods
	}
	relay := New("web-1", "/nowhere", 0)
	relay.Update(pods(1, 3))
	before := relay.IDs()
	if want := ir.PodID("web-1") + ir.PodID("web-2") + ir.PodID("web-3"); before != want {
		t.Errorf("the ids are %s, want %s", before, want)
	}
	relay.Update(pods(1, 1))
	if got := relay.IDs(); got != before {
		t.Errorf("the ids of pods that are gone are not in %s", got)
	}
	relay.Update(pods(3, 40))
	if got := relay.IDs(); len(got) != ir.MaxPods*ir.PodIDSize || got[2*ir.PodIDSize:3*ir.PodIDSize] != ir.PodID("web-3") {
		t.Errorf("the ids are %s: web-3 has another number, or there are not 16", got)
	}
	if n := relay.number("web-2", netip.MustParseAddr("10.0.0.2")); n != 0 {
		t.Errorf("a pod that is gone has the number %d", n)
	}
}
