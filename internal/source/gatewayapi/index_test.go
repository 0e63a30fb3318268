package gatewayapi_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testtier"
)

// edits is how many random edits the index of each file gets.
var edits = 60

// TestIndex compares an index with a translation of all its objects, after each of many random edits: objects of all
// kinds, Services, labels of namespaces and what proxies report come and go.
func TestIndex(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no testdata: %v", err)
	}
	testtier.Seed(t)
	for i, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, file, rand.New(rand.NewPCG(testtier.Seed(t), uint64(i))))
			before := gatewayapi.Translate(w.objects())
			for n := range edits {
				what := fmt.Sprintf("edit %d, %s", n, w.edit())
				for range w.IntN(3) {
					what += ", and " + w.edit()
				}
				got, want := w.index.Result(), gatewayapi.Translate(w.objects())
				compareResults(t, what, got, want)
				w.compareChanges(t, what, got.Changes, before, want)
				if before = want; t.Failed() {
					return
				}
			}
		})
	}
}

// edited is the objects of a file, of which some are there.
type edited struct {
	*rand.Rand
	all   gatewayapi.Objects
	ids   []gatewayapi.Object
	there map[gatewayapi.Object]metav1.Object
	// missing are Services that are not there, renamed those whose ports have another name, and unlabeled namespaces
	// without labels.
	missing, renamed, unlabeled map[string]bool
	services                    []string
	// reported are the subjects that were asked for, and whether there is a problem.
	reported map[gatewayapi.Subject]bool
	index    *gatewayapi.Index
}

func newEdited(t *testing.T, file string, random *rand.Rand) *edited {
	t.Helper()
	w := &edited{
		Rand: random, all: read(t, file), there: map[gatewayapi.Object]metav1.Object{},
		missing: map[string]bool{}, renamed: map[string]bool{}, unlabeled: map[string]bool{}, reported: map[gatewayapi.Subject]bool{},
	}
	w.all.Reported = func(of gatewayapi.Subject) gatewayapi.Report {
		isReported := w.reported[of]
		if w.reported[of] = isReported; isReported {
			return gatewayapi.Report{Problem: "it is missing"}
		}
		return gatewayapi.Report{}
	}
	found := map[string]bool{}
	service := w.all.Service
	w.all.Service = func(namespace, name string) (*corev1.Service, bool) {
		key := namespace + "/" + name
		if !found[key] {
			found[key] = true
			w.services = append(w.services, key)
		}
		if w.missing[key] {
			return nil, true
		}
		if service == nil {
			return nil, false
		}
		is, known := service(namespace, name)
		if is != nil && w.renamed[key] {
			is = is.DeepCopy()
			for i := range is.Spec.Ports {
				is.Spec.Ports[i].Name = fmt.Sprint("other-", i)
			}
		}
		return is, known
	}
	w.all.Each(func(kind string, object metav1.Object) {
		id := gatewayapi.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		w.ids, w.there[id] = append(w.ids, id), object
	})
	w.index = gatewayapi.NewIndex(w.objects())
	w.index.Result()
	return w
}

// objects returns those that are there.
func (w *edited) objects() gatewayapi.Objects {
	some := w.all.Only(func(kind string, object metav1.Object) bool {
		return w.there[gatewayapi.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}] != nil
	})
	some.Namespaces = maps.Clone(w.all.Namespaces)
	maps.DeleteFunc(some.Namespaces, func(name string, _ labels.Set) bool { return w.unlabeled[name] })
	return some
}

// edit makes a random edit, and lets the index know.
func (w *edited) edit() string {
	switch n := w.IntN(10); {
	case n == 0 && len(w.services) > 0:
		key := w.services[w.IntN(len(w.services))]
		set := []map[string]bool{w.missing, w.renamed}[w.IntN(2)]
		set[key] = !set[key]
		namespace, name := filepath.Split(key)
		w.index.ChangeService(namespace[:len(namespace)-1], name)
		return "Service " + key
	case n == 1 && len(w.all.Namespaces) > 0:
		names := slices.Sorted(maps.Keys(w.all.Namespaces))
		name := names[w.IntN(len(names))]
		w.unlabeled[name] = !w.unlabeled[name]
		w.index.ChangeNamespace(name, w.objects().Namespaces[name])
		return "Namespace " + name
	case n == 2 && len(w.reported) > 0:
		of := slices.SortedFunc(maps.Keys(w.reported), func(a, b gatewayapi.Subject) int {
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
		})[w.IntN(len(w.reported))]
		w.reported[of] = !w.reported[of]
		w.index.ChangeReported(of.Plane.Namespace, gatewayapi.LocalName(of.Plane.Namespace, of.Namespace, of.Name))
		return fmt.Sprintf("a report of %+v", of)
	case n == 3 && len(w.all.Gateways) > 0:
		return w.editGateway(w.IntN(len(w.all.Gateways)))
	}
	var what []string
	alone := w.IntN(3) == 0
	replace := alone
	for range 1 + w.IntN(3) {
		id := w.ids[w.IntN(len(w.ids))]
		w.toggle(id)
		replace = !alone && !w.index.Change(id, w.there[id]) || replace
		what = append(what, fmt.Sprintf("%+v is there: %t", id, w.there[id] != nil))
	}
	if replace || w.IntN(10) == 0 {
		w.index.Replace(w.objects())
	}
	return fmt.Sprintf("%s, only replaced: %t", strings.Join(what, ", "), alone)
}

// editGateway changes the spec of a Gateway, whether it is there or not.
func (w *edited) editGateway(i int) string {
	gateway := w.all.Gateways[i].DeepCopy()
	gateway.Generation++
	spec, what := &gateway.Spec, ""
	listener := &spec.Listeners[w.IntN(len(spec.Listeners))]
	switch w.IntN(10) {
	case 0:
		what = "annotations"
		spec.Infrastructure = &gatewayv1.GatewayInfrastructure{Annotations: map[gatewayv1.AnnotationKey]gatewayv1.AnnotationValue{"a": gatewayv1.AnnotationValue(fmt.Sprint(w.IntN(3)))}}
	case 1:
		what = "addresses"
		spec.Addresses = []gatewayv1.GatewaySpecAddress{{Value: fmt.Sprint("192.0.2.", w.IntN(3))}}
	case 2:
		what = "a hostname"
		listener.Hostname = []*gatewayv1.Hostname{nil, ptr.To[gatewayv1.Hostname]("*.example.com"), ptr.To[gatewayv1.Hostname]("a.example.com")}[w.IntN(3)]
	case 3:
		what = "a port"
		listener.Port = []gatewayv1.PortNumber{80, 443, 8000, 8404}[w.IntN(4)]
	case 4:
		what = "namespaces and kinds"
		froms := []gatewayv1.FromNamespaces{gatewayv1.NamespacesFromAll, gatewayv1.NamespacesFromSame, gatewayv1.NamespacesFromSelector}
		listener.AllowedRoutes = &gatewayv1.AllowedRoutes{
			Namespaces: &gatewayv1.RouteNamespaces{
				From: &froms[w.IntN(3)], Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": []string{"gold", "none"}[w.IntN(2)]}},
			},
			Kinds: [][]gatewayv1.RouteGroupKind{nil, {{Kind: "GRPCRoute"}}, {{Kind: "GRPCRoute"}, {Kind: "HTTPRoute"}}}[w.IntN(3)],
		}
	case 5:
		what = "ListenerSets"
		spec.AllowedListeners = []*gatewayv1.AllowedListeners{nil, {Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}}}[w.IntN(2)]
	case 6:
		what = "the order"
		slices.Reverse(spec.Listeners)
	case 7:
		what = "a listener"
		if i := w.IntN(len(spec.Listeners)); len(spec.Listeners) > 1 && w.IntN(2) == 0 {
			spec.Listeners = slices.Delete(spec.Listeners, i, i+1)
		} else if len(spec.Listeners) < 6 {
			one := *listener
			one.Name, one.Port = gatewayv1.SectionName(fmt.Sprint("more-", w.IntN(1000))), gatewayv1.PortNumber(9000+w.IntN(2))
			spec.Listeners = slices.Insert(spec.Listeners, i, one)
		}
	case 8:
		what = "names"
		other := &spec.Listeners[w.IntN(len(spec.Listeners))]
		listener.Name, other.Name = other.Name, listener.Name
	case 9:
		what = "the certificate for backends"
		ref := &gatewayv1.SecretObjectReference{Name: "client", Namespace: []*gatewayv1.Namespace{nil, ptr.To[gatewayv1.Namespace]("elsewhere")}[w.IntN(2)]}
		spec.TLS = []*gatewayv1.GatewayTLSConfig{nil, {Backend: &gatewayv1.GatewayBackendTLS{ClientCertificateRef: ref}}}[w.IntN(2)]
	}
	w.all.Gateways[i] = gateway
	id := gatewayapi.Object{Kind: "Gateway", Namespace: gateway.Namespace, Name: gateway.Name}
	if w.there[id] != nil {
		if w.there[id] = gateway; !w.index.Change(id, gateway) {
			w.index.Replace(w.objects())
		}
	}
	return fmt.Sprintf("%s of Gateway %s/%s", what, gateway.Namespace, gateway.Name)
}

// TestRenewLosesNoEdit: a route of another generation that passes for another version is translated all the same.
func TestRenewLosesNoEdit(t *testing.T) {
	route := func(generation int64, path string) *gatewayv1.HTTPRoute {
		return &gatewayv1.HTTPRoute{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", UID: "a", Generation: generation},
			Spec: gatewayv1.HTTPRouteSpec{
				CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Group: ptr.To[gatewayv1.Group](appv1.GroupName), Name: "shop"}}},
				Rules:           []gatewayv1.HTTPRouteRule{{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &path}}}}},
			},
		}
	}
	own := &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"},
		Spec:       appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}},
	}
	objects := gatewayapi.AttachedTo(own, nil)
	objects.AddAttached(route(1, "/one"))
	index, id, edited := gatewayapi.NewIndex(objects), gatewayapi.Object{Kind: "HTTPRoute", Namespace: "web", Name: "a"}, route(2, "/two")
	index.Result()
	index.Renew(id, edited)
	index.Change(id, edited)
	for _, got := range index.Result().For(own).Routes.All() {
		if path := got.Rules[0].Matches[0].Path; path != "/two" {
			t.Errorf("the path is %s", path)
		}
	}
}

// TestWatchedKindsAreIncremental: an edit of an object that agents watch costs what it changes.
func TestWatchedKindsAreIncremental(t *testing.T) {
	index := gatewayapi.NewIndex(gatewayapi.Objects{})
	for _, resource := range gatewayapi.WatchedResources {
		id := gatewayapi.Object{Kind: gatewayapi.KindOf(resource), Namespace: "a", Name: "b"}
		if !index.Change(id, nil) {
			t.Errorf("Change takes no object of %s", resource)
		}
	}
}

// toggle removes an object, or adds it again.
func (w *edited) toggle(id gatewayapi.Object) {
	if w.there[id] != nil {
		delete(w.there, id)
		return
	}
	w.all.Each(func(kind string, object metav1.Object) {
		if kind == id.Kind && object.GetNamespace() == id.Namespace && object.GetName() == id.Name {
			w.there[id] = object
		}
	})
}

// TestReplace: an object of any kind may come or go when all objects are replaced, since another one is of a kind that
// Change does not take.
func TestReplace(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			w := newEdited(t, file, nil)
			for _, id := range w.ids {
				for range 2 {
					w.toggle(id)
					w.index.Replace(w.objects())
					compareResults(t, fmt.Sprintf("%+v is there: %t", id, w.there[id] != nil), w.index.Result(), gatewayapi.Translate(w.objects()))
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// compareResults compares all that results tell.
func compareResults(t *testing.T, what string, got, want *gatewayapi.Result) {
	t.Helper()
	same := func(kind string, got, want any) {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("after %s, the %s are\n%+v\nwant\n%+v", what, kind, got, want)
		}
	}
	same("models", got.Planes, want.Planes)
	for parent := range want.Planes {
		served := slices.Concat(gatewayapi.WatchedResources, []string{"gateways"})
		same(fmt.Sprint("attachments of ", cmp.Or(parent.Name, "none")), got.Attachments(parent, served), want.Attachments(parent, served))
	}
	same("statuses", got.Status(nil, allLive{}), want.Status(nil, allLive{}))
	same("data planes", got.DataPlanes(), want.DataPlanes())
	same("idle targets", got.IdleTargets(), want.IdleTargets())
}

// compareChanges checks that changes name all objects that are there and whose status differs from one result to the
// next one.
func (w *edited) compareChanges(t *testing.T, what string, changes gatewayapi.Changes, before, after *gatewayapi.Result) {
	t.Helper()
	was, is := before.Status(nil, allLive{}), after.Status(nil, allLive{})
	for i := range reflect.TypeOf(was).NumField() {
		a, b := reflect.ValueOf(was).Field(i), reflect.ValueOf(is).Field(i)
		for _, key := range slices.Concat(a.MapKeys(), b.MapKeys()) {
			x, y := a.MapIndex(key), b.MapIndex(key)
			if x.IsValid() && y.IsValid() && reflect.DeepEqual(x.Interface(), y.Interface()) {
				continue
			}
			if id := objectOf(reflect.TypeOf(was).Field(i).Name, key.Interface()); w.there[id] != nil && !changes.Objects[id] {
				t.Errorf("after %s, the changes do not name %+v", what, id)
			}
		}
	}
	if !changes.NewPlanes && !reflect.DeepEqual(before.DataPlanes(), after.DataPlanes()) {
		t.Errorf("after %s, the changes do not tell that the data planes are others", what)
	}
	for parent := range before.Planes {
		served := slices.Concat(gatewayapi.WatchedResources, []string{"gateways"})
		if !changes.Places && !reflect.DeepEqual(before.Attachments(parent, served), after.Attachments(parent, served)) {
			t.Errorf("after %s, the changes do not tell that the places of %+v are others", what, parent)
		}
	}
}

// objectOf returns the object that a key of a field of a status stands for.
func objectOf(field string, key any) gatewayapi.Object {
	switch key := key.(type) {
	case gatewayapi.Object:
		return key
	case string:
		return gatewayapi.Object{Kind: "GatewayClass", Name: key}
	}
	kinds := map[string]string{
		"Gateways": "Gateway", "ListenerSets": "ListenerSet", "Policies": "BackendTLSPolicy", "BackendPolicies": "BackendPolicy",
	}
	name := key.(types.NamespacedName)
	return gatewayapi.Object{Kind: kinds[field], Namespace: name.Namespace, Name: name.Name}
}
