package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/must"
	"gateway/internal/operator/children"
	"gateway/internal/operator/options"
	"gateway/internal/operator/resources"
	"gateway/internal/proxypod"
)

var testOptions = resources.Options{AgentImage: "gateway:test", HAProxyImage: "haproxy:test"}

// fixture is a Controller on fake API servers. Its informers do not run: the caches hold what catchUp copied into them,
// so it is the test that says how far behind they are.
type fixture struct {
	t          testing.TB
	kube       *kubefake.Clientset
	gateways   *gatewayfake.Clientset
	recorder   *record.FakeRecorder
	inputs     Inputs
	controller *Controller
	// now is what the Controller takes for the time.
	now time.Time
	// versions are the resource versions of all objects that have been written; the fakes themselves have none.
	versions map[string]int
	// version is the latest of them.
	version int
}

// newFixture returns a fixture whose API servers hold the objects, and whose caches know them.
func newFixture(tb testing.TB, objects ...runtime.Object) *fixture {
	tb.Helper()
	f := &fixture{
		t: tb, recorder: record.NewFakeRecorder(100), versions: map[string]int{}, version: 1,
		now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
	}
	f.kube, f.gateways = newClients(objects...)
	for _, fake := range []struct {
		*clienttesting.Fake
		clienttesting.ObjectTracker
	}{{&f.kube.Fake, f.kube.Tracker()}, {&f.gateways.Fake, f.gateways.Tracker()}} {
		for _, verb := range []string{"create", "update", "patch", "get"} {
			fake.PrependReactor(verb, "*", f.stamp(fake.ObjectTracker))
		}
	}
	f.inputs = caches(f.kube, f.gateways, options.Options{})
	f.controller = must.Get(NewController(f.kube, f.gateways, f.inputs, f.recorder, testOptions, func() time.Time { return f.now }))(tb)
	f.controller.working.Store(true) // a fixture takes the place of Run
	f.catchUp()
	return f
}

// newClients returns fake clients for servers that hold the objects.
func newClients(objects ...runtime.Object) (*kubefake.Clientset, *gatewayfake.Clientset) {
	var kubeObjects, gatewayObjects []runtime.Object
	for _, object := range objects {
		if _, ok := object.(*appv1.Gateway); ok {
			gatewayObjects = append(gatewayObjects, object)
		} else {
			kubeObjects = append(kubeObjects, object)
		}
	}
	return kubefake.NewClientset(kubeObjects...), gatewayfake.NewClientset(gatewayObjects...)
}

// creates reports whether a request is an apply of an object that must not exist.
func creates(action clienttesting.Action) bool {
	patch, ok := action.(clienttesting.PatchAction)
	return ok && strings.Contains(string(patch.GetPatch()), `"resourceVersion":"1"`)
}

// stamp gives an object a new resource version with every write, and shows it to readers. As an API server does, it
// refuses to create what exists.
func (f *fixture) stamp(tracker clienttesting.ObjectTracker) clienttesting.ReactionFunc {
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		resource := action.GetResource().Resource
		if creates(action) {
			name := action.(clienttesting.PatchAction).GetName()
			if _, err := tracker.Get(action.GetResource(), action.GetNamespace(), name); err == nil {
				return true, nil, apierrors.NewConflict(action.GetResource().GroupResource(), name, errors.New("it exists"))
			}
		}
		handled, object, err := clienttesting.ObjectReaction(tracker)(action)
		if err != nil || object == nil {
			return handled, object, err
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			return true, nil, err
		}
		key := resource + "/" + accessor.GetNamespace() + "/" + accessor.GetName()
		if action.GetVerb() != "get" {
			f.version++
			f.versions[key] = f.version
		}
		accessor.SetResourceVersion(strconv.Itoa(f.versions[key]))
		return true, object, nil
	}
}

// catchUp makes the caches hold what the API servers hold, as the informers would: selected by label, and transformed.
func (f *fixture) catchUp() {
	f.t.Helper()
	ctx, all, ours := context.Background(), metav1.ListOptions{}, metav1.ListOptions{LabelSelector: proxypod.LabelGateway}
	labelled, kube := f.inputs.Labelled, f.kube
	fill := func(informer cache.SharedIndexInformer, resource string, transform cache.TransformFunc) func(runtime.Object, error) {
		return func(list runtime.Object, err error) {
			f.t.Helper()
			if err == nil {
				err = f.fill(informer.GetIndexer(), resource, list, transform)
			}
			if err != nil {
				f.t.Fatalf("failed to fill the cache of %s: %v", resource, err)
			}
		}
	}
	own := cache.TransformFunc(f.controller.children.Keep)
	deployments, err := kube.AppsV1().Deployments("").List(ctx, ours)
	fill(labelled.Apps().V1().Deployments().Informer(), "deployments", own)(deployments, err)
	daemonSets, err := kube.AppsV1().DaemonSets("").List(ctx, ours)
	fill(labelled.Apps().V1().DaemonSets().Informer(), "daemonsets", own)(daemonSets, err)
	accounts, err := kube.CoreV1().ServiceAccounts("").List(ctx, ours)
	fill(labelled.Core().V1().ServiceAccounts().Informer(), "serviceaccounts", own)(accounts, err)
	roles, err := kube.RbacV1().Roles("").List(ctx, ours)
	fill(labelled.Rbac().V1().Roles().Informer(), "roles", own)(roles, err)
	bindings, err := kube.RbacV1().RoleBindings("").List(ctx, ours)
	fill(labelled.Rbac().V1().RoleBindings().Informer(), "rolebindings", own)(bindings, err)
	budgets, err := kube.PolicyV1().PodDisruptionBudgets("").List(ctx, ours)
	fill(labelled.Policy().V1().PodDisruptionBudgets().Informer(), "poddisruptionbudgets", own)(budgets, err)
	slices, err := kube.DiscoveryV1().EndpointSlices("").List(ctx, ours)
	fill(labelled.Discovery().V1().EndpointSlices().Informer(), "endpointslices", children.Strip)(slices, err)
	services, err := kube.CoreV1().Services("").List(ctx, all)
	fill(f.inputs.Services.Core().V1().Services().Informer(), "services", own)(services, err)
	gateways, err := f.gateways.AppV1().Gateways("").List(ctx, all)
	fill(f.inputs.Gateways.Informer(), "gateways", children.Strip)(gateways, err)
	reports, err := f.gateways.AppV1().GatewayProxies("").List(ctx, all)
	fill(f.inputs.Proxies.Informer(), "gatewayproxies", children.Strip)(reports, err)
	attachments, err := f.gateways.AppV1().GatewayAttachments("").List(ctx, all)
	fill(f.inputs.Attachments.Informer(), "gatewayattachments", children.Strip)(attachments, err)
	f.clearActions()
}

func (f *fixture) fill(indexer cache.Indexer, resource string, list runtime.Object, transform cache.TransformFunc) error {
	items, err := meta.ExtractList(list)
	if err != nil {
		return err
	}
	transformed := make([]any, 0, len(items))
	for _, item := range items {
		accessor, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		key := resource + "/" + accessor.GetNamespace() + "/" + accessor.GetName()
		accessor.SetResourceVersion(strconv.Itoa(f.versions[key]))
		object, err := transform(item)
		if err != nil {
			return err
		}
		transformed = append(transformed, object)
	}
	return indexer.Replace(transformed, "")
}

// sync calls the Controller once for Gateway web/shop, with the caches as they are, and returns what it wrote.
func (f *fixture) sync() ([]string, error) {
	f.t.Helper()
	f.clearActions()
	err := f.controller.syncHandler(context.Background(), cache.NewObjectName("web", "shop"))
	return f.writes(), err
}

// mustSync lets the caches catch up and calls the Controller once; that must succeed. It returns what was written.
func (f *fixture) mustSync() []string {
	f.t.Helper()
	f.catchUp()
	writes, err := f.sync()
	if err != nil {
		f.t.Fatalf("failed to sync: %v", err)
	}
	return writes
}

// settle syncs until there is nothing to write, and forgets the events.
func (f *fixture) settle() {
	f.t.Helper()
	for range 3 {
		if len(f.mustSync()) == 0 {
			f.events()
			return
		}
	}
	f.t.Fatal("three syncs in a row had something to write")
}

func (f *fixture) clearActions() {
	f.kube.ClearActions()
	f.gateways.ClearActions()
}

// writes are the requests since the last sync began that ask to change something: "verb resource/subresource name".
func (f *fixture) writes() []string {
	var writes []string
	for _, action := range append(f.kube.Actions(), f.gateways.Actions()...) {
		if slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			continue
		}
		what := action.GetResource().Resource
		if action.GetSubresource() != "" {
			what += "/" + action.GetSubresource()
		}
		verb := action.GetVerb()
		if patch, ok := action.(clienttesting.PatchAction); ok {
			what += " " + patch.GetName()
		}
		if creates(action) {
			verb = "create"
		}
		writes = append(writes, verb+" "+what)
	}
	return writes
}

// events returns and forgets the events recorded so far.
func (f *fixture) events() []string {
	var events []string
	for {
		select {
		case event := <-f.recorder.Events:
			events = append(events, event)
		default:
			return events
		}
	}
}

func (f *fixture) expectWrites(got []string, want ...string) {
	f.t.Helper()
	if !slices.Equal(got, want) {
		f.t.Errorf("wrote\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func (f *fixture) expectEvents(want ...string) {
	f.t.Helper()
	if got := f.events(); !slices.Equal(got, want) {
		f.t.Errorf("recorded\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// expectCondition takes a condition of Gateway web/shop as "Type=Status Reason: Message".
func (f *fixture) expectCondition(want string) {
	f.t.Helper()
	for _, c := range f.gateway().Status.Conditions {
		if strings.HasPrefix(want, c.Type+"=") {
			if got := c.Type + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message; got != want {
				f.t.Errorf("\ngot  %s\nwant %s", got, want)
			}
			return
		}
	}
	f.t.Errorf("there is no such condition, want %s", want)
}

// gateway is Gateway web/shop as the API server has it.
func (f *fixture) gateway() *appv1.Gateway {
	f.t.Helper()
	gateway := must.Get(f.gateways.AppV1().Gateways("web").Get(context.Background(), "shop", metav1.GetOptions{}))(f.t)
	return gateway
}
