package gatewayapi_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"gateway/internal/source/gatewayapi"
	"gateway/internal/testtier"
)

// edits is how many random edits the index of each file gets.
var edits = 60

// TestIndex compares an index with a translation of all its objects, after each of many random edits: objects of all
// kinds, Services and labels of namespaces come and go.
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
			for n := range edits {
				what := w.edit()
				compareResults(t, fmt.Sprintf("edit %d, %s", n, what), w.index.Result(), gatewayapi.Translate(w.objects()))
				if t.Failed() {
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
	index                       *gatewayapi.Index
}

func newEdited(t *testing.T, file string, random *rand.Rand) *edited {
	t.Helper()
	w := &edited{
		Rand: random, all: read(t, file), there: map[gatewayapi.Object]metav1.Object{},
		missing: map[string]bool{}, renamed: map[string]bool{}, unlabeled: map[string]bool{},
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
	w.each(&w.all, func(kind string, object metav1.Object) bool {
		id := gatewayapi.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		w.ids, w.there[id] = append(w.ids, id), object
		return true
	})
	w.index = gatewayapi.NewIndex(w.objects())
	gatewayapi.Translate(w.objects())
	return w
}

// each keeps the objects for which f returns true.
func (w *edited) each(o *gatewayapi.Objects, f func(kind string, object metav1.Object) bool) {
	o.Classes, o.Gateways, o.Own = kept("GatewayClass", o.Classes, f), kept("Gateway", o.Gateways, f), kept("Own", o.Own, f)
	o.ListenerSets, o.Grants = kept("ListenerSet", o.ListenerSets, f), kept("ReferenceGrant", o.Grants, f)
	o.Policies, o.BackendPolicies = kept("BackendTLSPolicy", o.Policies, f), kept("BackendPolicy", o.BackendPolicies, f)
	o.Filters = kept("RouteFilter", o.Filters, f)
	o.HTTPRoutes, o.GRPCRoutes = kept("HTTPRoute", o.HTTPRoutes, f), kept("GRPCRoute", o.GRPCRoutes, f)
	o.TLSRoutes, o.TCPRoutes = kept("TLSRoute", o.TLSRoutes, f), kept("TCPRoute", o.TCPRoutes, f)
	o.UDPRoutes = kept("UDPRoute", o.UDPRoutes, f)
}

func kept[T metav1.Object](kind string, all []T, f func(kind string, object metav1.Object) bool) []T {
	var some []T
	for _, object := range all {
		if f(kind, object) {
			some = append(some, object)
		}
	}
	return some
}

// objects returns those that are there.
func (w *edited) objects() gatewayapi.Objects {
	some := w.all
	w.each(&some, func(kind string, object metav1.Object) bool {
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
		w.index.Replace(w.objects())
		return "Namespace " + name
	}
	id := w.ids[w.IntN(len(w.ids))]
	if w.there[id] != nil {
		delete(w.there, id)
	} else {
		w.each(&w.all, func(kind string, object metav1.Object) bool {
			if kind == id.Kind && object.GetNamespace() == id.Namespace && object.GetName() == id.Name {
				w.there[id] = object
			}
			return true
		})
	}
	if !w.index.Change(id, w.there[id]) || w.IntN(10) == 0 {
		w.index.Replace(w.objects())
	}
	return fmt.Sprintf("%+v is there: %t", id, w.there[id] != nil)
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
	same("copies", got.Copies(), want.Copies())
	same("idle targets", got.IdleTargets(), want.IdleTargets())
}
