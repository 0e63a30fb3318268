package gatewayapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/must"
)

// fakeServer is an API server. It is three fake clientsets that also do what the Controller relies on: every write
// gives an object a resourceVersion, and a write for another version or UID is refused.
type fakeServer struct {
	t      testing.TB
	kube   *kubefake.Clientset
	own    *gatewayfake.Clientset
	routes *routesfake.Clientset
	// mu is held by a write, and while objects are listed: the fakes serve requests of several goroutines.
	mu sync.Mutex
	// stamps are what an API server would write into the metadata of the objects.
	stamps map[string]stamp
	// version is the latest resourceVersion.
	version int
}

// stamp is the metadata of one object that only the API server writes.
type stamp struct {
	uid        types.UID
	version    string
	generation int64
	spec       any
}

var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(kubescheme.AddToScheme(scheme))
	utilruntime.Must(appv1.AddToScheme(scheme))
	utilruntime.Must(gatewayv1.Install(scheme))
	utilruntime.Must(v1alpha1.Install(scheme))
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

func newServer(tb testing.TB) *fakeServer {
	tb.Helper()
	s := &fakeServer{
		t: tb, kube: kubefake.NewClientset(), own: gatewayfake.NewClientset(), routes: routesfake.NewSimpleClientset(),
		stamps: map[string]stamp{}, version: 1,
	}
	for fake, tracker := range s.trackers() {
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			fake.PrependReactor(verb, "*", s.write(tracker))
		}
	}
	return s
}

func (s *fakeServer) trackers() map[*clienttesting.Fake]clienttesting.ObjectTracker {
	return map[*clienttesting.Fake]clienttesting.ObjectTracker{
		&s.kube.Fake: s.kube.Tracker(), &s.own.Fake: s.own.Tracker(), &s.routes.Fake: s.routes.Tracker(),
	}
}

// keyOf names an object among all.
func keyOf(resource schema.GroupVersionResource, namespace, name string) string {
	return fmt.Sprintf("%s %s/%s", resource.GroupResource(), namespace, name)
}

// request is what matters of a write.
type request struct {
	name          string
	preconditions metav1.Preconditions
}

func requestOf(action clienttesting.Action) (request, error) {
	of := func(name string, uid types.UID, version string) request {
		r := request{name: name}
		if uid != "" {
			r.preconditions.UID = &uid
		}
		if version != "" {
			r.preconditions.ResourceVersion = &version
		}
		return r
	}
	switch action := action.(type) {
	case clienttesting.CreateActionImpl:
		object, err := meta.Accessor(action.Object)
		return of(object.GetName(), "", ""), err
	case clienttesting.UpdateActionImpl:
		object, err := meta.Accessor(action.Object)
		return of(object.GetName(), object.GetUID(), object.GetResourceVersion()), err
	case clienttesting.PatchActionImpl:
		var object metav1.PartialObjectMetadata
		err := json.Unmarshal(action.Patch, &object)
		return of(action.Name, object.UID, object.ResourceVersion), err
	case clienttesting.DeleteActionImpl:
		r := request{name: action.Name}
		if action.DeleteOptions.Preconditions != nil {
			r.preconditions = *action.DeleteOptions.Preconditions
		}
		return r, nil
	}
	return request{}, fmt.Errorf("unknown action %T", action)
}

// write carries out a write as an API server does.
func (s *fakeServer) write(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		r, err := requestOf(action)
		if err != nil {
			return true, nil, err
		}
		resource, key := action.GetResource(), keyOf(action.GetResource(), action.GetNamespace(), r.name)
		before, exists := s.stamps[key]
		if err := check(action, r, before, exists); err != nil {
			return true, nil, err
		}
		if patch, ok := action.(clienttesting.PatchActionImpl); ok && patch.Subresource != "" {
			// A manager owns fields of each subresource apart. The fakes know managers alone.
			patch.PatchOptions.FieldManager += "/" + patch.Subresource
			action = patch
		}
		_, object, err := clienttesting.ObjectReaction(tracker)(action)
		switch {
		case err != nil:
			return true, nil, err
		case action.GetVerb() == "delete":
			delete(s.stamps, key)
			return true, nil, nil
		}
		return true, s.stamp(resource, object), nil
	}
}

// check refuses a write whose preconditions do not hold.
func check(action clienttesting.Action, r request, before stamp, exists bool) error {
	resource := action.GetResource().GroupResource()
	wanted := r.preconditions
	switch {
	case !exists && wanted.UID == nil && action.GetVerb() == "patch" && action.GetSubresource() == "":
		return nil // an apply creates the object, whatever its resourceVersion
	case !exists && wanted.UID != nil && action.GetVerb() == "patch":
		return apierrors.NewConflict(resource, r.name, errors.New("there is no object with this UID"))
	case !exists && action.GetVerb() != "create":
		return apierrors.NewNotFound(resource, r.name)
	case exists && (ptr.Deref(wanted.UID, before.uid) != before.uid ||
		ptr.Deref(wanted.ResourceVersion, before.version) != before.version):
		return apierrors.NewConflict(resource, r.name, errors.New("it has been modified"))
	}
	return nil
}

// stamp sets in an object what an API server sets after a write, and returns it.
func (s *fakeServer) stamp(resource schema.GroupVersionResource, object runtime.Object) runtime.Object {
	s.t.Helper()
	accessor := must.Get(meta.Accessor(object))(s.t)
	key := keyOf(resource, accessor.GetNamespace(), accessor.GetName())
	content := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(object))(s.t)
	now, exists := s.stamps[key]
	if !exists {
		now.uid = types.UID(fmt.Sprintf("uid %d of %s", s.version, key))
	}
	spec := content["spec"]
	if resource.Resource == "gatewayattachments" { // it has no subresource
		spec = []any{spec, content["status"]}
	}
	if !exists || !equality.Semantic.DeepEqual(now.spec, spec) {
		now.generation++
	}
	s.version++
	now.version, now.spec = strconv.Itoa(s.version), spec
	s.stamps[key] = now
	s.show(resource, accessor)
	return object
}

// show sets the metadata of an object that was read from a tracker.
func (s *fakeServer) show(resource schema.GroupVersionResource, object metav1.Object) {
	now := s.stamps[keyOf(resource, object.GetNamespace(), object.GetName())]
	object.SetUID(now.uid)
	object.SetResourceVersion(now.version)
	object.SetGeneration(now.generation)
}

// resourceOf returns the resource of a kind, and where the objects of its group are.
func (s *fakeServer) resourceOf(
	kind schema.GroupVersionKind,
) (schema.GroupVersionResource, clienttesting.ObjectTracker) {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	if kind.Kind == "Gateway" {
		resource.Resource = "gateways" // the guess is "gatewaies"
	}
	switch kind.Group {
	case appv1.GroupName:
		return resource, s.own.Tracker()
	case gatewayv1.GroupName, v1alpha1.GroupName:
		return resource, s.routes.Tracker()
	}
	return resource, s.kube.Tracker()
}

// list returns all objects of a resource.
func (s *fakeServer) list(kind schema.GroupVersionKind) []metav1.Object {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, tracker := s.resourceOf(kind)
	list := must.Get(tracker.List(resource, kind, ""))(s.t)
	items := must.Get(meta.ExtractList(list))(s.t)
	var objects []metav1.Object
	for _, item := range items {
		accessor := must.Get(meta.Accessor(item.DeepCopyObject()))(s.t)
		s.show(resource, accessor)
		objects = append(objects, accessor)
	}
	return objects
}

// put creates or replaces objects, as anybody but the Controller does: YAML documents. An object without a status in
// its document keeps the one that it has.
func (s *fakeServer) put(documents string) {
	s.t.Helper()
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object, kind, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			s.t.Fatalf("%v in\n%s", err, document)
		}
		var given struct{ Status any }
		if must.Do(s.t, yaml.Unmarshal([]byte(document), &given)); given.Status == nil {
			s.keepStatus(*kind, object)
		}
		s.putObject(*kind, object)
	}
}

// keepStatus sets the status of an object to the API server's.
func (s *fakeServer) keepStatus(kind schema.GroupVersionKind, object runtime.Object) {
	s.t.Helper()
	resource, tracker := s.resourceOf(kind)
	accessor := must.Get(meta.Accessor(object))(s.t)
	before, err := tracker.Get(resource, accessor.GetNamespace(), accessor.GetName())
	if err != nil { // it is new
		return
	}
	old := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(before))(s.t)
	content := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(object))(s.t)
	if old["status"] != nil {
		content["status"] = old["status"]
		must.Do(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(content, object))
	}
}

func (s *fakeServer) putObject(kind schema.GroupVersionKind, object runtime.Object) {
	s.t.Helper()
	resource, tracker := s.resourceOf(kind)
	accessor := must.Get(meta.Accessor(object))(s.t)
	if _, exists := s.stamps[keyOf(resource, accessor.GetNamespace(), accessor.GetName())]; exists {
		must.Do(s.t, tracker.Update(resource, object, accessor.GetNamespace()))
	} else {
		must.Do(s.t, tracker.Create(resource, object, accessor.GetNamespace()))
	}
	s.stamp(resource, object.DeepCopyObject())
}

// remove deletes an object, as anybody but the Controller does.
func (s *fakeServer) remove(kind schema.GroupVersionKind, namespace, name string) {
	s.t.Helper()
	resource, tracker := s.resourceOf(kind)
	must.Do(s.t, tracker.Delete(resource, namespace, name))
	delete(s.stamps, keyOf(resource, namespace, name))
}
