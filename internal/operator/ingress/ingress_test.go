package ingress

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	gatewayfactory "gateway/generated/app/informers/externalversions"
	"gateway/internal/must"
	source "gateway/internal/source/ingress"
)

const home = "gateways"

// fixture is a Controller whose caches the test fills. The API server accepts everything that refuse has no error for,
// and that is based on what it has.
type fixture struct {
	*Controller
	t        *testing.T
	recorder *record.FakeRecorder
	refuse   func(kind, namespace, name string) error

	mu      sync.Mutex
	objects map[source.Subject]*unstructured.Unstructured
	writes  []string
	version int
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	lists := map[schema.GroupVersionResource]string{}
	for kind, resource := range resources {
		lists[resource] = kind + "List"
	}
	f := &fixture{
		t: t, recorder: record.NewFakeRecorder(100), refuse: func(string, string, string) error { return nil },
		objects: map[source.Subject]*unstructured.Unstructured{}, version: 7,
	}
	objects := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists)
	objects.PrependReactor("*", "*", f.answer)
	kube := kubefake.NewClientset()
	factory := informers.NewSharedInformerFactory(kube, 0)
	now := time.Unix(1_000_000, 0)
	f.Controller = must.Get(New(kube, objects, f.recorder, Inputs{
		Services: factory, Namespace: home, Namespaces: factory.Core().V1().Namespaces().Informer(),
		Gateways: gatewayfactory.NewSharedInformerFactory(gatewayfake.NewClientset(), 0).App().V1().Gateways(),
	}, func() time.Time { return now }))(t)
	f.add(f.classes, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: networkingv1.IngressClassSpec{Controller: source.Controller}})
	return f
}

// answer notes a write, and puts what is applied into the cache.
func (f *fixture) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	subject := source.Subject{Namespace: action.GetNamespace()}
	for kind, resource := range resources {
		if resource == action.GetResource() {
			subject.Kind = kind
		}
	}
	gone := apierrors.NewNotFound(action.GetResource().GroupResource(), "")
	conflict := apierrors.NewConflict(action.GetResource().GroupResource(), "", errors.New("it is another one"))
	switch action := action.(type) {
	case clienttesting.GetActionImpl:
		if subject.Name = action.Name; f.objects[subject] == nil {
			return true, nil, gone
		}
		return true, f.objects[subject], nil
	case clienttesting.DeleteActionImpl:
		subject.Name = action.Name
		there, base := f.objects[subject], action.DeleteOptions.Preconditions
		switch {
		case there == nil:
			return true, nil, gone
		case *base.UID != there.GetUID() || *base.ResourceVersion != there.GetResourceVersion():
			return true, nil, conflict
		}
		delete(f.objects, subject)
		f.writes = append(f.writes, fmt.Sprintf("delete %s %s/%s", subject.Kind, subject.Namespace, subject.Name))
		return true, nil, nil
	case clienttesting.PatchActionImpl:
		subject.Name = action.Name
		return f.apply(subject, action.Patch, conflict)
	}
	return true, nil, errors.New("not expected")
}

// apply applies an object, unless there is another one than its resourceVersion tells.
func (f *fixture) apply(subject source.Subject, patch []byte, conflict error) (bool, runtime.Object, error) {
	if err := f.refuse(subject.Kind, subject.Namespace, subject.Name); err != nil {
		return true, nil, err
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(patch); err != nil {
		return true, nil, err
	}
	f.version++
	there := f.objects[subject]
	switch {
	case there == nil && object.GetUID() != "", there != nil && object.GetResourceVersion() != "" && object.GetResourceVersion() != there.GetResourceVersion():
		return true, nil, conflict
	case there != nil:
		object.SetCreationTimestamp(there.GetCreationTimestamp())
		object.SetUID(there.GetUID())
		object.SetGeneration(there.GetGeneration() + 1)
	default:
		object.SetCreationTimestamp(metav1.NewTime(time.Unix(2_000_000, 0).Add(time.Duration(f.version) * time.Second)))
		object.SetUID(types.UID(fmt.Sprint(subject, f.version)))
		object.SetGeneration(1)
	}
	object.SetResourceVersion(strconv.Itoa(f.version))
	f.objects[subject] = object
	f.writes = append(f.writes, fmt.Sprintf("apply %s %s/%s", subject.Kind, subject.Namespace, subject.Name))
	kept, err := keep(object)
	f.add(f.made[subject.Kind], kept)
	return true, object, err
}

// make adds an object of the class that an earlier release has made.
func (f *fixture) make(kind, namespace, name string, spec map[string]any) {
	f.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"kind": kind, "spec": spec}}
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(map[string]string{source.LabelClass: "web"})
	object.SetUID(types.UID(name))
	object.SetResourceVersion("5")
	f.objects[source.Subject{Kind: kind, Namespace: namespace, Name: name}] = object
	kept := must.Get(keep(object))(f.t)
	f.add(f.made[kind], kept)
}

// remove deletes an object that was made, and has the cache show that.
func (f *fixture) remove(kind, namespace, name string) {
	f.t.Helper()
	delete(f.objects, source.Subject{Kind: kind, Namespace: namespace, Name: name})
	object, _, _ := f.made[kind].GetStore().GetByKey(namespace + "/" + name)
	must.Do(f.t, f.made[kind].GetStore().Delete(object))
	delete(f.applied, source.Subject{Kind: kind, Namespace: namespace, Name: name})
}

func (f *fixture) add(to cache.SharedIndexInformer, object any) {
	if err := to.GetStore().Add(object); err != nil {
		f.t.Error(err)
	}
}

// addIngress adds an Ingress with paths of one host to the caches.
func (f *fixture) addIngress(namespace, name string, annotations map[string]string, paths ...string) *networkingv1.Ingress {
	f.t.Helper()
	kind := networkingv1.PathTypeImplementationSpecific
	rules := &networkingv1.HTTPIngressRuleValue{}
	for _, path := range paths {
		rules.Paths = append(rules.Paths, networkingv1.HTTPIngressPath{Path: path, PathType: &kind, Backend: networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
		}})
	}
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), Annotations: annotations},
		Spec: networkingv1.IngressSpec{IngressClassName: new("web"), Rules: []networkingv1.IngressRule{{
			Host: name + ".test", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: rules},
		}}},
	}
	f.add(f.ingresses, ingress)
	return ingress
}

// sync syncs once, and returns what was written.
func (f *fixture) sync() []string {
	f.t.Helper()
	if err := f.Controller.sync(f.t.Context()); err != nil {
		f.t.Errorf("the sync fails: %v", err)
	}
	writes := f.writes
	f.writes = nil
	slices.Sort(writes)
	return writes
}

func (f *fixture) expectWrites(want ...string) {
	f.t.Helper()
	if got := f.sync(); !slices.Equal(got, want) {
		f.t.Errorf("it writes\n%q, want\n%q", got, want)
	}
}

// specs returns the specs of all objects, by namespace and name.
func (f *fixture) specs() map[string]string {
	all := map[string]string{}
	for subject, object := range f.objects {
		all[subject.Namespace+"/"+subject.Name] = fmt.Sprint(object.Object["spec"])
	}
	return all
}

// events are those that were recorded.
func (f *fixture) events() string {
	var all []string
	for len(f.recorder.Events) > 0 {
		all = append(all, <-f.recorder.Events)
	}
	return strings.Join(all, "\n")
}

var limit = map[string]string{source.Prefix + "denylist-source-range": "10.0.0.0/8"}

// TestWhatIsRefusedStaysClosed: routes of a namespace wait for what they refer to, and no others. What is refused is
// not tried again.
func TestWhatIsRefusedStaysClosed(t *testing.T) {
	f := newFixture(t)
	f.addIngress("a", "one", limit, "/")
	f.addIngress("b", "two", nil, "/")
	f.refuse = func(kind, namespace, name string) error {
		if kind == "RouteFilter" && namespace == "a" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, name, nil)
		}
		return nil
	}
	f.expectWrites("apply Gateway gateways/web", "apply GatewayConfig gateways/web", "apply HTTPRoute b/web-two-test")
	if events := f.events(); !strings.Contains(events, "Warning Refused RouteFilter") {
		t.Errorf("the events are\n%s", events)
	}
	f.expectWrites()
	if events := f.events(); events != "" {
		t.Errorf("it tells again\n%s", events)
	}
}

// TestWithoutGateway: without the Gateway of a class, nothing else is made of it.
func TestWithoutGateway(t *testing.T) {
	f := newFixture(t)
	f.addIngress("a", "one", limit, "/")
	f.refuse = func(kind, _, name string) error {
		if kind == "GatewayConfig" {
			return apierrors.NewInvalid(schema.GroupKind{Kind: kind}, name, nil)
		}
		return nil
	}
	f.expectWrites()
}

// TestOrderOfRoutes: of routes with rules of one host, the first has to be the oldest, also if somebody deletes it.
func TestOrderOfRoutes(t *testing.T) {
	f := newFixture(t)
	var paths []string
	for i := range 20 {
		paths = append(paths, fmt.Sprintf("/p%02d", i))
	}
	f.addIngress("a", "one", nil, paths...)
	f.expectWrites("apply Gateway gateways/web", "apply GatewayConfig gateways/web", "apply HTTPRoute a/web-one-test", "apply HTTPRoute a/web-one-test-02")
	f.expectWrites()
	f.remove("HTTPRoute", "a", "web-one-test")
	f.expectWrites("apply HTTPRoute a/web-one-test", "apply HTTPRoute a/web-one-test-02", "delete HTTPRoute a/web-one-test-02")
	f.expectWrites()
}

// TestPanics: an Ingress that makes the translation panic is found, and what was made of it stays.
func TestPanics(t *testing.T) {
	f := newFixture(t)
	one, two := f.addIngress("a", "one", nil, "/"), f.addIngress("a", "two", nil, "/")
	f.sync()
	var none *networkingv1.Ingress // it has no fields
	result, faulty := f.translateSome(source.Input{Class: "web", Name: "web", Namespace: home, Ingresses: []*networkingv1.Ingress{one, none, two}})
	if len(faulty) != 1 || faulty[0].Ingress != none || result.Ingresses != 2 {
		t.Errorf("got %+v, and %+v", result, faulty)
	}
	wanted := &evaluation{byName: map[source.Subject]*desired{}, faulty: []fault{{two, nil}}}
	must.Do(t, f.cleanUp(t.Context(), wanted))
	if want := []string{"delete HTTPRoute a/web-one-test"}; !slices.Equal(f.writes, want) {
		t.Errorf("it writes %q, want %q", f.writes, want)
	}
}

// TestUnneeded: a filter goes some time after the last route that refers to it.
func TestUnneeded(t *testing.T) {
	f := newFixture(t)
	one := f.addIngress("a", "one", limit, "/")
	f.sync()
	must.Do(t, f.ingresses.GetStore().Delete(one))
	f.expectWrites("delete HTTPRoute a/web-one-test")
	f.remove("HTTPRoute", "a", "web-one-test")
	f.expectWrites()
	later := f.now().Add(settling)
	f.now = func() time.Time { return later }
	if got := f.sync(); len(got) != 3 || !strings.HasPrefix(got[2], "delete RouteFilter a/web-one-") {
		t.Errorf("it writes %q", got)
	}
}
