package agent

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/source/gatewayapi"
)

// hosts are a Gateway of the Gateway API with many ListenerSets, each with four hosts that have certificates, and a
// route.
type hosts struct {
	own      *appv1.Gateway
	objects  gatewayapi.Objects
	index    *gatewayapi.Index
	compiler routing.Compiler
	renderer render.Renderer
	states   map[model.Backend]render.BackendState
	files    mounted
	material material
	now      time.Time
	config   ir.Config
	edits    int64
	spent    map[string]time.Duration
}

func newHosts(sets int) *hosts {
	h := &hosts{
		states: map[model.Backend]render.BackendState{}, compiler: routing.Compiler{Check: filters.Problem}, now: time.Now(),
		files: mounted{hasKeys: true, certificates: map[string]certificateFile{}, versions: map[string]int{}, plain: map[string]*plain{}},
		own: &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: gatewayN, Controller: ptr.To(true)},
		}}, Spec: appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}}},
		spent: map[string]time.Duration{},
	}
	objects := gatewayapi.AttachedTo(h.own, nil)
	objects.Service = func(_, name string) (*corev1.Service, bool) { return newService(name), true }
	objects.AddAttached(&gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "ours", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
		AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
	}})
	for i := range sets {
		objects.AddAttached(h.set(i, 4))
		objects.AddAttached(h.route(i))
		h.states[h.backend(i)] = render.BackendState{Exists: true, Servers: []ir.Server{{Address: "10.0.0.1", Port: 80}}}
	}
	h.objects = objects
	h.index = gatewayapi.NewIndex(objects)
	h.live()
	return h
}

func (h *hosts) backend(i int) model.Backend {
	return model.Backend{Namespace: fmt.Sprint("team-", i/5), Service: fmt.Sprint("service-", i), Port: 80}
}

// set returns a ListenerSet with some hosts.
func (h *hosts) set(i, hosts int) *gatewayv1.ListenerSet {
	h.edits++
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: fmt.Sprint("team-", i/5), Name: fmt.Sprint("site-", i), UID: types.UID(fmt.Sprint("set-", i)), Generation: h.edits,
	}}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace(namespace)), Name: gatewayN}
	for j := range hosts {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(fmt.Sprint("host-", j)), Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
			Hostname: ptr.To(gatewayv1.Hostname(fmt.Sprintf("h%d.site-%d.example.com", j, i))),
			TLS:      &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(fmt.Sprint("tls-", j))}}},
		})
	}
	return set
}

func (h *hosts) route(i int) *gatewayv1.HTTPRoute {
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", i/5), Name: fmt.Sprint("route-", i), UID: types.UID(fmt.Sprint("route-", i)), Generation: 1},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Kind: ptr.To[gatewayv1.Kind]("ListenerSet"), Name: gatewayv1.ObjectName(fmt.Sprint("site-", i))}}},
			Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
				Name: gatewayv1.ObjectName(h.backend(i).Service), Port: ptr.To[gatewayv1.PortNumber](80),
			}}}}}},
		},
	}
}

// put replaces a ListenerSet.
func (h *hosts) put(set *gatewayv1.ListenerSet) {
	if !h.index.Change(gatewayapi.Object{Kind: "ListenerSet", Namespace: set.Namespace, Name: set.Name}, set) {
		i := slices.IndexFunc(h.objects.ListenerSets, func(s *gatewayv1.ListenerSet) bool { return s.Name == set.Name })
		h.objects.ListenerSets = slices.Clone(h.objects.ListenerSets)
		h.objects.ListenerSets[i] = set
		h.index.Replace(h.objects)
	}
	h.live()
}

// live brings what changed to HAProxy's next configuration.
func (h *hosts) live() {
	lap := func(what string, begin *time.Duration) {
		now := used()
		h.spent[what] += now - *begin
		*begin = now
	}
	begin := used()
	gateway := h.index.Result().For(h.own)
	lap("translate", &begin)
	table, _ := h.compiler.Compile(gateway)
	lap("compile", &begin)
	h.issue(table)
	begin = used()
	h.material = collect(&table, h.files, namespace, h.now, &h.material)
	lap("collect", &begin)
	next := h.renderer.Render(render.Input{Table: table, Backends: h.states, Certificates: h.material.certificates, Certified: h.material.changed})
	lap("render", &begin)
	plan.Change(h.config, next, h.config, false)
	lap("plan", &begin)
	h.config = next
}

// issue makes certificates for the listeners that have none.
func (h *hosts) issue(table routing.Table) {
	for i := range table.Listeners {
		l := &table.Listeners[i]
		if l.TLS == nil {
			continue
		}
		file := h.files.certificates[l.TLS.Secrets[0]]
		if !slices.Contains(file.Names, l.Hostname) {
			file.NotAfter, file.Names = h.now.Add(time.Hour), append(file.Names, l.Hostname)
			h.files.certificates[l.TLS.Secrets[0]] = file
		}
	}
}

// used is what this process has used of the CPU.
func used() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkListener measures what one more listener among 10,000 of 2,500 ListenerSets costs an agent, from its caches
// to the plan for HAProxy.
func BenchmarkListener(b *testing.B) {
	h := newHosts(2500)
	clear(h.spent)
	n := 4
	for b.Loop() {
		n = 9 - n
		h.put(h.set(7, n))
	}
	for what, spent := range h.spent {
		b.ReportMetric(spent.Seconds()*1000/float64(b.N), what+"-ms/op")
	}
}

// TestEditOfAListenerSet: it allocates about as much among ten times as many.
func TestEditOfAListenerSet(t *testing.T) { //nolint:paralleltest // others would allocate meanwhile
	allocations := func(sets int) float64 {
		h, n := newHosts(sets), 4
		return testing.AllocsPerRun(10, func() {
			n = 9 - n
			h.put(h.set(7, n))
		})
	}
	if few, many := allocations(20), allocations(200); many > 1.5*few {
		t.Errorf("an edit allocates %.0f times among 200 ListenerSets, and %.0f times among 20", many, few)
	}
}

// TestRoutesWithoutHostnames: an edit of a route without a hostname, at the hosts of one ListenerSet, allocates about
// as much among ten times as many hosts.
func TestRoutesWithoutHostnames(t *testing.T) { //nolint:paralleltest // others would allocate meanwhile
	allocations := func(sets int) float64 {
		h := newHosts(sets)
		generation := int64(1)
		return testing.AllocsPerRun(10, func() {
			generation++
			route := h.route(7)
			route.Generation, route.Spec.Rules[0].Matches = generation, []gatewayv1.HTTPRouteMatch{
				{Path: &gatewayv1.HTTPPathMatch{Value: ptr.To(fmt.Sprint("/", generation))}},
			}
			h.index.Change(gatewayapi.Object{Kind: "HTTPRoute", Namespace: route.Namespace, Name: route.Name}, route)
			h.live()
		})
	}
	if few, many := allocations(20), allocations(200); many > 1.5*few {
		t.Errorf("an edit allocates %.0f times among 200 ListenerSets, and %.0f times among 20", many, few)
	}
}
