package agent

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/routing/routingtest"
	"gateway/internal/source/gatewayapi"
)

// truth is what an API server has, and how much of it each watch has been sent.
type truth struct {
	*routingtest.Generator
	*watcher
	t       *testing.T
	version int
	all     map[place]map[string]metav1.Object
	// history has all that ever happened, and sent how much of it a watch knows, once it was listed.
	history []happened
	sent    map[*watched]int
	gateway *appv1.Gateway
	// last is what the watcher has said, and counted are the versions of what counted.
	last    Changes
	counted map[*share]map[string]uint64
	steps   []string
	// forbidden reports whether all namespaces at once may not be watched.
	forbidden bool
}

// happened is a change of an object, which has its version.
type happened struct {
	at     place
	object metav1.Object
	isGone bool
}

var randomResources = []string{testServices, testRoutes, testFilters}

func newTruth(t *testing.T) *truth {
	t.Helper()
	w := newWatcher(Options{Namespace: namespace, Gateway: gatewayN, Core: kubefake.NewClientset(), Gateways: gatewayfake.NewClientset(), Routes: routesfake.NewClientset()})
	r := &truth{Generator: routingtest.New(t), watcher: w, t: t, version: 100, all: map[place]map[string]metav1.Object{}, sent: map[*watched]int{}, counted: map[*share]map[string]uint64{}}
	r.clock = clocktesting.NewFakeClock(time.Unix(1, 0))
	r.gateway = &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN, UID: "uid-1", Generation: 1},
		Spec: appv1.GatewaySpec{Listeners: []appv1.Listener{{
			Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP, AllowedRoutes: &appv1.AllowedRoutes{Namespaces: appv1.RouteNamespaces{From: appv1.NamespacesFromAll}},
		}}},
	}
	r.putGateway()
	return r
}

// put has the API server store an object, or lets it go.
func (r *truth) put(at place, object metav1.Object, isGone bool) {
	r.version++
	object.SetResourceVersion(fmt.Sprint(r.version))
	r.history = append(r.history, happened{at, object, isGone})
	r.all[at] = r.at(at, len(r.history))
}

// at returns the objects of a place as they were after a part of the history; of a resource, if there is no namespace.
func (r *truth) at(at place, part int) map[string]metav1.Object {
	all := map[string]metav1.Object{}
	for _, one := range r.history[:part] {
		if one.at == at || at.namespace == "" && one.at.resource == at.resource {
			name := one.object.GetName()
			if at.namespace == "" {
				name = one.at.namespace + "/" + name
			}
			if delete(all, name); !one.isGone {
				all[name] = one.object
			}
		}
	}
	return all
}

func copyOf(object metav1.Object) metav1.Object {
	return object.(runtime.Object).DeepCopyObject().(metav1.Object)
}

func (r *truth) putGateway() {
	r.version++
	r.gateway = r.gateway.DeepCopy()
	r.gateway.ResourceVersion = fmt.Sprint(r.version)
	_ = r.gateways.Replace([]any{r.gateway}, r.gateway.ResourceVersion)
}

// list answers a list of a watch, from a cache that may lag, but not behind what the watch was sent.
func (r *truth) list(of *watched) {
	if of == r.gateways || of == r.attachments {
		return
	}
	if of.namespace == "" && r.forbidden {
		delete(r.sent, of)
		of.refused(forbidden(of.resource))
		return
	}
	least := max(r.sent[of], len(r.history)-5, 0)
	r.sent[of] = least + r.IntN(len(r.history)-least+1)
	version := 100
	if r.sent[of] > 0 {
		version = int(versionOf(r.history[r.sent[of]-1].object.GetResourceVersion()))
	}
	var found []any
	for _, object := range r.at(place{of.resource, of.namespace}, r.sent[of]) {
		found = append(found, copyOf(object))
	}
	_ = of.Replace(found, fmt.Sprint(version))
}

// send sends a watch the next that happened, or else a bookmark.
func (r *truth) send(of *watched) {
	if part, isListed := r.sent[of]; isListed && part < len(r.history) {
		one := r.history[part]
		version, object := one.object.GetResourceVersion(), copyOf(one.object)
		if r.sent[of]++; one.at.resource == of.resource && (of.namespace == "" || of.namespace == one.at.namespace) {
			if one.isGone {
				_ = of.Delete(object)
			} else {
				_ = of.Update(object)
			}
		}
		of.UpdateResourceVersion(version)
	}
}

// watchesNow are those that run.
func (r *truth) watchesNow() []*watched {
	maps.DeleteFunc(r.sent, func(of *watched, _ int) bool { return r.watches[place{of.resource, of.namespace}] != of })
	return slices.Collect(maps.Values(r.watches))
}

// step lets something happen, and returns what.
func (r *truth) step() string {
	namespace := []string{namespace, "a", "b", "c"}[r.IntN(4)]
	at, name := place{randomResources[r.IntN(3)], namespace}, fmt.Sprint(r.IntN(3))
	before := r.all[at][name]
	some := r.watchesNow()
	of := some[r.IntN(len(some))]
	switch n := r.IntN(20); {
	case n < 5:
		edited := r.newObject(at, name)
		r.put(at, edited, false)
		r.put(at, copyOf(edited), false) // its status
		return fmt.Sprintf("%s of %v is edited", name, at)
	case n < 7 && before != nil:
		r.put(at, copyOf(before), false)
		return fmt.Sprintf("%s of %v has another status", name, at)
	case n < 8 && before != nil:
		r.put(at, copyOf(before), true)
		return fmt.Sprintf("%s of %v goes", name, at)
	case n < 15:
		for range r.IntN(6) {
			r.send(of)
		}
		return fmt.Sprintf("an event for %s in %q", of.resource, of.namespace)
	case n < 17:
		for _, other := range some {
			if _, isSent := r.sent[other]; !isSent && r.IntN(2) == 0 {
				of = other
			}
		}
		r.list(of)
		return fmt.Sprintf("%s in %q is listed", of.resource, of.namespace)
	case n < 18:
		r.version++
		attachment := newAttachment(r.gateway, namespace, fmt.Sprint(r.version))
		attachment.Spec.Resources = randomResources[1 : 2+r.IntN(2)]
		if r.IntN(3) == 0 {
			_ = r.attachments.Delete(attachment)
		} else {
			_ = r.attachments.Update(attachment)
		}
		return "an attachment of " + namespace
	case n < 19:
		r.forbidden = r.IntN(2) == 0
		return fmt.Sprintf("watches of all are forbidden: %v", r.forbidden)
	}
	r.gateway.Generation++
	r.gateway.Spec.Watch = []appv1.WatchMode{appv1.WatchCluster, appv1.WatchNamespaces}[r.IntN(2)]
	r.putGateway()
	return string(r.gateway.Spec.Watch)
}

func (r *truth) newObject(at place, name string) metav1.Object {
	var object metav1.Object
	switch at.resource {
	case testServices:
		object = newService(name, func(s *corev1.Service) { s.Spec.Ports[0].Port = int32(1 + r.IntN(3)) })
	case testFilters:
		object = newAnswer(name, fmt.Sprint(r.version))
	default:
		route := newFiltered("HTTPRoute", name, fmt.Sprint(r.IntN(3))).(*gatewayv1.HTTPRoute)
		route.Spec.ParentRefs[0].Namespace = ptr.To[gatewayv1.Namespace](namespace)
		object = route
	}
	object.SetNamespace(at.namespace)
	object.SetUID(types.UID(name))
	object.SetGeneration(int64(r.version))
	return object
}

// settle lets all happen that is to happen.
func (r *truth) settle() {
	for range 4 {
		for _, of := range r.watchesNow() {
			if _, isSent := r.sent[of]; !isSent {
				r.list(of)
				r.list(of) // the second refusal counts
			}
			for range r.history {
				r.send(of)
			}
		}
		r.look()
		r.clock.(*clocktesting.FakeClock).Step(filterWait)
	}
}

// TestRandomEvents: whatever comes in whatever order over whichever watches, what counts goes on counting, nothing goes
// back to an earlier version, no more is reported than is taken in, and in the end all is as the API server has it.
func TestRandomEvents(t *testing.T) {
	t.Parallel()
	for range 40 {
		r := newTruth(t)
		_ = r.attachments.Replace(nil, "1")
		r.settle()
		for range 500 {
			if r.steps = append(r.steps[max(0, len(r.steps)-8):], r.step()); r.IntN(2) == 0 {
				r.look()
			}
			if t.Failed() {
				return
			}
		}
		for range 2 {
			r.settle()
		}
		r.compare()
		if t.Failed() {
			return
		}
	}
}

// look has the watcher look at what came.
func (r *truth) look() {
	if changes, ok := r.changes(false); ok && changes.Gateway != nil {
		r.last = changes
	} else if ok {
		r.last.Versions = changes.Versions
	}
	r.check()
}

// check compares what counts with what did, what is reported with what was taken in, and what was made of that with
// what is made of it from the start.
func (r *truth) check() {
	last, versions, counted, steps := r.last, r.last.Versions, r.counted, r.steps
	if last.Gateway != nil && len(r.attached) > 0 {
		fresh := gatewayapi.NewIndex(r.objects(r.gateway)).Result().For(r.gateway)
		if got, want := maps.Collect(last.Gateway.Routes.All()), maps.Collect(fresh.Routes.All()); !reflect.DeepEqual(got, want) {
			r.t.Errorf("after %q, the routes are %+v, want %+v", steps, got, want)
		}
	}
	live := func(resource, namespace, version string) bool {
		upTo := versions.Base
		for _, one := range versions.Exceptions {
			if one.Resource == resource && one.Namespace == namespace {
				upTo = one.ResourceVersion
			}
		}
		return versionOf(version) <= versionOf(upTo)
	}
	for namespace, n := range r.namespaces {
		for resource, share := range n.shares {
			before, did := counted[share]
			if did && !share.counts {
				r.t.Errorf("after %q, %s of %s do not count any more", steps, resource, namespace)
			}
			if !share.counts || share.isCore() {
				continue
			}
			now := map[string]uint64{}
			for name, object := range share.taken {
				if now[name] = versionOf(object.GetResourceVersion()); now[name] < before[name] {
					r.t.Errorf("after %q, %s %s of %s goes back from %d to %d", steps, resource, name, namespace, before[name], now[name])
				}
			}
			counted[share] = now
			for name, object := range r.all[place{resource, namespace}] {
				if live(resource, namespace, object.GetResourceVersion()) && now[name] < versionOf(object.GetResourceVersion()) {
					r.t.Errorf("after %q, %s %s of %s is reported by %+v, but has version %d", steps, resource, name, namespace, versions, now[name])
				}
			}
		}
	}
}

// compare compares what was taken in with what the API server has.
func (r *truth) compare() {
	steps := r.steps
	for namespace, n := range r.namespaces {
		for resource, share := range n.shares {
			all := r.all[place{resource, namespace}]
			got := share.taken
			if resource == testServices {
				got = share.of.objects[namespace]
			}
			if !share.counts && resource != resourceSlices || len(got) != len(all) {
				r.t.Errorf("after %q, %s of %s count: %v, %d of %d", steps, resource, namespace, share.counts, len(got), len(all))
				continue
			}
			for name, object := range all {
				if got[name].GetResourceVersion() != object.GetResourceVersion() {
					r.t.Errorf("after %q, %s %s of %s has version %s, want %s", steps, resource, name, namespace, got[name].GetResourceVersion(), object.GetResourceVersion())
				}
			}
		}
	}
	for place, of := range r.watches {
		if of != r.gateways && of != r.attachments && len(of.shares) == 0 && (place.namespace != "" || r.gateway.Spec.Watch != appv1.WatchCluster) {
			r.t.Errorf("after %q, %v is watched for nobody", steps, place)
		}
	}
}
