package agent

import (
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"
	routesscheme "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/scheme"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	ownscheme "gateway/generated/app/clientset/versioned/scheme"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/render"
	haproxyruntime "gateway/internal/haproxy/runtime"
	"gateway/internal/inventory"
	"gateway/internal/journal"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// perSet is how many hosts a ListenerSet of a site has, and setsPerTeam how many of these a namespace.
const perSet, setsPerTeam = 10, 2

// site is what an API server and gateway-keys tell a new pod of a Gateway with many HTTPS hosts: each has a
// certificate, a listener in one of many ListenerSets, and an HTTPRoute.
type site struct {
	t       testing.TB
	agent   *Agent
	options Options
	// sent are the objects of each resource as the API server sends them.
	sent map[string][][]byte
}

func newSite(t testing.TB, hosts int) *site {
	t.Helper()
	s := &site{t: t, sent: map[string][][]byte{}}
	s.makeObjects(hosts)
	dir := t.TempDir()
	shown, err := journal.Open[inventory.Entry](filepath.Join(dir, inventory.File))
	s.must(err)
	entries := map[string]*inventory.Entry{inventory.Status: {}}
	now := time.Now()
	for i := range hosts {
		entries[inventory.SecretKey(gatewayapi.LocalName(namespace, teamOf(i), hostOf(i)))] = &inventory.Entry{Certificate: &inventory.Certificate{
			Names: []string{hostOf(i) + ".example.com", "other-" + hostOf(i) + ".example.com"}, KeyType: 3, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		}}
	}
	s.must(shown.Put(entries))
	s.options = Options{
		Namespace: namespace, Gateway: gatewayN, Pod: podName, PodUID: "pod-uid", Paths: haproxytest.NewPaths(t),
		Gateways: gatewayfake.NewClientset(), Core: kubefake.NewClientset(), Routes: routesfake.NewClientset(),
		Bind:   render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: 8404},
		Mounts: Mounts{CertificatesDir: dir, AuthoritiesDir: t.TempDir(), KeyServer: true},
	}
	return s
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func hostOf(i int) string { return fmt.Sprint("h", i) }
func setOf(i int) string  { return fmt.Sprint("h-set-", i/perSet) }
func teamOf(i int) string { return fmt.Sprint("team-", i/perSet/setsPerTeam) }

// makeObjects makes what the API server sends.
func (s *site) makeObjects(hosts int) {
	own := &appv1.Gateway{ObjectMeta: s.meta("Gateway", namespace, gatewayN), Spec: appv1.GatewaySpec{
		Watch: appv1.WatchCluster, Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}, {Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS, TLS: &appv1.ListenerTLS{}}},
	}}
	own.OwnerReferences = []metav1.OwnerReference{{APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: gatewayN, Controller: ptr.To(true)}}
	s.send(resourceOwn, ownscheme.Codecs, appv1.SchemeGroupVersion, own)
	s.send(resourceGateways, routesscheme.Codecs, schema.GroupVersion(gatewayv1.GroupVersion), &gatewayv1.Gateway{
		ObjectMeta: s.meta("Gateway", namespace, gatewayN), Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "ours", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
			AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
		},
	})
	for i := range hosts {
		if i%perSet == 0 {
			s.sendSet(i, min(perSet, hosts-i))
		}
		if i%(perSet*setsPerTeam) == 0 {
			s.sendTeam(own, teamOf(i))
		}
		s.sendRoute(i)
	}
}

// meta returns the metadata of an object that several have written to.
func (s *site) meta(kind, namespace, name string) metav1.ObjectMeta {
	const written = `{"f:metadata":{"f:annotations":{"f:team":{}}},"f:spec":{"f:hostnames":{},"f:parentRefs":{},"f:rules":{}}}`
	managed := make([]metav1.ManagedFieldsEntry, 2)
	for i := range managed {
		managed[i] = metav1.ManagedFieldsEntry{Manager: fmt.Sprint("manager-", i), Operation: "Apply", APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(written)}
	}
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("%s-%s-%s", kind, namespace, name)), Generation: 1, ResourceVersion: fmt.Sprint(1000 + len(s.sent[kind])),
		CreationTimestamp: metav1.Unix(1_700_000_000, 0), Annotations: map[string]string{"team": namespace}, Labels: map[string]string{"team": namespace}, ManagedFields: managed,
	}
}

func (s *site) send(resource string, codecs kserializer.CodecFactory, version schema.GroupVersion, object kruntime.Object) {
	encoded, err := kruntime.Encode(codecs.LegacyCodec(version), object)
	s.must(err)
	s.sent[resource] = append(s.sent[resource], encoded)
}

func (s *site) sendTeam(own *appv1.Gateway, team string) {
	attachment := &appv1.GatewayAttachment{ObjectMeta: s.meta("GatewayAttachment", namespace, gatewayN+"."+team)}
	attachment.OwnerReferences = []metav1.OwnerReference{{Kind: "Gateway", Name: gatewayN, UID: own.UID, Controller: ptr.To(true)}}
	attachment.Spec = appv1.GatewayAttachmentSpec{GatewayName: gatewayN, Namespace: team, Resources: []string{"backendtlspolicies", "backendpolicies", "httproutes", "listenersets", "referencegrants", "routefilters"}}
	attachment.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionBound, Status: metav1.ConditionTrue}}
	s.send(proxypod.ResourceAttachments, ownscheme.Codecs, appv1.SchemeGroupVersion, attachment)
	service := newService("zero")
	service.ObjectMeta = s.meta("Service", team, "zero")
	s.send(resourceServices, scheme.Codecs, corev1.SchemeGroupVersion, service)
	slice := newSlice("zero", 8080, newReady("10.0.0.1"), newReady("10.0.0.2"))
	slice.Namespace = team
	s.send(resourceSlices, scheme.Codecs, discoveryv1.SchemeGroupVersion, slice)
}

func (s *site) sendSet(first, hosts int) {
	set := &gatewayv1.ListenerSet{ObjectMeta: s.meta("ListenerSet", teamOf(first), setOf(first))}
	set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: gatewayN, Namespace: ptr.To(gatewayv1.Namespace(namespace))}
	for i := first; i < first+hosts; i++ {
		set.Spec.Listeners = append(set.Spec.Listeners, gatewayv1.ListenerEntry{
			Name: gatewayv1.SectionName(hostOf(i)), Hostname: ptr.To(gatewayv1.Hostname(hostOf(i) + ".example.com")), Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
			TLS:           &gatewayv1.ListenerTLSConfig{Mode: ptr.To(gatewayv1.TLSModeTerminate), CertificateRefs: []gatewayv1.SecretObjectReference{{Group: ptr.To[gatewayv1.Group](""), Kind: ptr.To[gatewayv1.Kind]("Secret"), Name: gatewayv1.ObjectName(hostOf(i))}}},
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromSame)}},
		})
		set.Status.Listeners = append(set.Status.Listeners, gatewayv1.ListenerEntryStatus{
			Name: gatewayv1.SectionName(hostOf(i)), AttachedRoutes: 1, SupportedKinds: []gatewayv1.RouteGroupKind{{Group: ptr.To[gatewayv1.Group](gatewayv1.GroupName), Kind: "HTTPRoute"}},
			Conditions: conditions("Accepted", "Programmed", "ResolvedRefs", "Conflicted"),
		})
	}
	s.send("listenersets", routesscheme.Codecs, schema.GroupVersion(gatewayv1.GroupVersion), set)
}

func (s *site) sendRoute(i int) {
	group, set := ptr.To(gatewayv1.Group(gatewayv1.GroupName)), ptr.To(gatewayv1.Kind("ListenerSet"))
	ref := gatewayv1.ParentReference{Group: group, Kind: set, Name: gatewayv1.ObjectName(setOf(i)), SectionName: ptr.To(gatewayv1.SectionName(hostOf(i)))}
	s.send("httproutes", routesscheme.Codecs, schema.GroupVersion(gatewayv1.GroupVersion), &gatewayv1.HTTPRoute{
		ObjectMeta: s.meta("HTTPRoute", teamOf(i), hostOf(i)),
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{ref}},
			Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(hostOf(i) + ".example.com"), gatewayv1.Hostname("other-" + hostOf(i) + ".example.com")},
			Rules: []gatewayv1.HTTPRouteRule{{
				Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/")}}},
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{Weight: ptr.To[int32](1), BackendObjectReference: gatewayv1.BackendObjectReference{
					Group: ptr.To[gatewayv1.Group](""), Kind: ptr.To[gatewayv1.Kind]("Service"), Name: "zero", Port: ptr.To[gatewayv1.PortNumber](80),
				}}}},
			}},
		},
		Status: gatewayv1.HTTPRouteStatus{RouteStatus: gatewayv1.RouteStatus{Parents: []gatewayv1.RouteParentStatus{{
			ParentRef: ref, ControllerName: gatewayapi.ControllerName, Conditions: conditions("Accepted", "Programmed", "ResolvedRefs"),
		}}}},
	})
}

func conditions(types ...string) (all []metav1.Condition) {
	for _, kind := range types {
		meta.SetStatusCondition(&all, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: 1, LastTransitionTime: metav1.Unix(1_700_000_000, 0)})
	}
	return all
}

// list answers the list of a watch: as client-go does, it decodes and transforms objects one by one.
func (s *site) list(of *watched) {
	codecs := routesscheme.Codecs
	switch of.resource {
	case resourceOwn, proxypod.ResourceAttachments, proxypod.ResourceFilters, proxypod.ResourceBackendPolicies:
		codecs = ownscheme.Codecs
	case resourceServices, resourceSlices:
		codecs = scheme.Codecs
	}
	var all []any
	for _, encoded := range s.sent[of.resource] {
		object, err := kruntime.Decode(codecs.UniversalDeserializer(), encoded)
		s.must(err)
		transformed, err := of.Transformer()(object)
		s.must(err)
		all = append(all, transformed)
	}
	s.must(of.Replace(all, "100000"))
}

// start is the start of the pod, up to a configuration on the disk, with which HAProxy starts.
func (s *site) start() {
	var err error
	s.agent, err = New(s.options)
	s.must(err)
	w := s.agent.watch
	for listed := map[*watched]bool{}; ; {
		before := len(listed)
		for _, of := range w.watches {
			if !listed[of] && (of.namespace == "" || of == w.gateways || of == w.attachments || of.namespace == namespace) {
				listed[of] = true
				s.list(of)
			}
		}
		s.agent.pass(s.t.Context())
		if len(listed) == before {
			break
		}
	}
	if s.agent.state.disk.id == "" {
		s.t.Fatal("nothing is on the disk")
	}
	s.agent.state.observe(&haproxyruntime.Process{PID: 1, LoadID: s.agent.state.disk.id})
	s.agent.state.runs(haproxyruntime.Process{PID: 1, LoadID: s.agent.state.disk.id})
}

// cost is what the start of a pod takes, and keeps.
type cost struct {
	cpu           time.Duration
	kept, objects float64
	allocated     float64
}

// costOf starts a pod.
func costOf(t testing.TB, hosts int) cost {
	t.Helper()
	s := newSite(t, hosts)
	before, cpu := inUse(), used()
	s.start()
	var started runtime.MemStats
	runtime.ReadMemStats(&started)
	cpu = used() - cpu
	after := inUse()
	runtime.KeepAlive(s)
	each := func(before, after uint64) float64 { return (float64(after) - float64(before)) / float64(hosts) }
	return cost{
		cpu: cpu, kept: each(before.HeapAlloc, after.HeapAlloc), objects: each(before.HeapObjects, after.HeapObjects),
		allocated: each(before.Mallocs, started.Mallocs),
	}
}

// inUse is what is in use.
func inUse() (stats runtime.MemStats) {
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats
}

// TestMemoryOfHosts: a host with a certificate, a listener and a route takes so much of the agent's memory. The race
// detector takes 31 of the objects that are allocated.
func TestMemoryOfHosts(t *testing.T) { //nolint:paralleltest // others would allocate meanwhile
	const mostBytes, mostObjects, mostAllocated = 12_900, 132, 546
	if of := costOf(t, 2000); of.kept > mostBytes || of.objects > mostObjects || of.allocated > mostAllocated {
		t.Errorf("a host takes %.0f bytes in %.0f objects of %.0f that were allocated, want at most %d, %d and %d",
			of.kept, of.objects, of.allocated, mostBytes, mostObjects, mostAllocated)
	}
}

// BenchmarkStart measures what the agent's part of a pod's start takes, from what the API server and gateway-keys send
// to the files for HAProxy, and what memory a host has then.
func BenchmarkStart(b *testing.B) {
	for _, hosts := range []int{1000, 10_000} {
		b.Run(fmt.Sprint("hosts=", hosts), func(b *testing.B) {
			var of cost
			for b.Loop() {
				of = costOf(b, hosts)
			}
			b.ReportMetric(of.cpu.Seconds(), "cpu-s")
			b.ReportMetric(of.kept, "bytes/host")
			b.ReportMetric(of.objects, "objects/host")
			b.ReportMetric(of.allocated, "allocated/host")
			b.ReportMetric(0, "ns/op")
		})
	}
}
