package agent

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	appv1 "gateway/api/app/v1"
	gatewayfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/proxypod"
)

// guardRig is a namespace whose watches a test tells what they have seen.
type guardRig struct{ *watcher }

// newGuardRig returns a namespace whose Services and EndpointSlices have been seen.
func newGuardRig() *guardRig {
	r := &guardRig{newWatcher(Options{Namespace: namespace, Core: kubefake.NewClientset(), Gateways: gatewayfake.NewClientset(), Routes: routesfake.NewClientset()})}
	r.see(testServices)
	r.see(testSlices)
	return r
}

// add follows resources that come at once, beside others.
func (r *guardRig) add(resources ...string) {
	wanted := map[string]string{}
	for resource := range r.shares() {
		wanted[resource] = ""
	}
	for _, resource := range resources {
		wanted[resource] = ""
	}
	r.followNamespace(namespace, wanted)
}

func (r *guardRig) shares() map[string]*share { return r.namespaces[namespace].shares }

// put has the watch of an object's kind see it.
func (r *guardRig) put(object metav1.Object) {
	resource := map[string]string{"*v1.Service": testServices, "*v1.EndpointSlice": testSlices, "*v1.HTTPRoute": testRoutes}[fmt.Sprintf("%T", object)]
	_ = r.shares()[resource].of.Add(object)
}

func (r *guardRig) see(resource string)    { _ = r.shares()[resource].of.Replace(nil, "1") }
func (r *guardRig) forbid(resource string) { r.shares()[resource].of.refused(forbidden(resource)) }
func (r *guardRig) miss(resource string)   { r.shares()[resource].of.refused(notFound(resource)) }

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no access yet"))
}

func notFound(resource string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "")
}

const (
	testRoutes   = "httproutes"
	testFilters  = proxypod.ResourceFilters
	testPolicies = resourcePolicies
	testServices = resourceServices
	testSlices   = resourceSlices
)

// guardTests are the steps in which an agent learns of a namespace.
var guardTests = map[string]struct {
	steps []func(r *guardRig)
	// counts says after each step whether the routes count.
	counts []bool
}{
	"all are seen": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes, testFilters, testPolicies) },
			func(r *guardRig) { r.see(testRoutes) },
			func(r *guardRig) { r.see(testFilters) },
			func(r *guardRig) { r.see(testPolicies) },
		},
		counts: []bool{false, false, false, true},
	},
	"Services and endpoints come late": {
		steps: []func(r *guardRig){
			func(r *guardRig) {
				r.shares()[testServices].of.isListed, r.shares()[testSlices].of.isListed = false, false
				r.add(testRoutes)
				r.see(testRoutes)
			},
			func(r *guardRig) { r.see(testServices) },
			func(r *guardRig) { r.see(testSlices) },
		},
		counts: []bool{false, false, true},
	},
	"the first lists were refused": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes, testFilters) },
			func(r *guardRig) { r.forbid(testFilters); r.forbid(testRoutes) },
			func(r *guardRig) { r.forbid(testFilters); r.forbid(testFilters) },
			func(r *guardRig) { r.see(testRoutes) },
			func(r *guardRig) { r.forbid(testFilters) },
			func(r *guardRig) { r.see(testFilters) },
		},
		counts: []bool{false, false, false, false, false, true},
	},
	"filters may not be seen": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes, testFilters) },
			func(r *guardRig) { r.see(testRoutes) },
			func(r *guardRig) { r.forbid(testFilters) },
			func(r *guardRig) { r.forbid(testFilters) },
		},
		counts: []bool{false, false, false, true},
	},
	"policies may not be seen": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes, testPolicies) },
			func(r *guardRig) { r.see(testRoutes) },
			func(r *guardRig) {
				for range 10 * manyRefusals {
					r.forbid(testPolicies)
				}
			},
			func(r *guardRig) { r.see(testPolicies) },
		},
		counts: []bool{false, false, false, true},
	},
	"neither kind is installed": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes, testFilters, testPolicies); r.see(testRoutes) },
			func(r *guardRig) { r.miss(testFilters) },
			func(r *guardRig) { r.miss(testPolicies) },
		},
		counts: []bool{false, false, true},
	},
	"policies and filters come later": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes); r.see(testRoutes) },
			func(r *guardRig) { r.add(testFilters, testPolicies) },
		},
		counts: []bool{true, true},
	},
	"policies and filters were there": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testFilters, testPolicies); r.see(testFilters) },
			func(r *guardRig) { r.add(testRoutes); r.see(testRoutes) },
			func(r *guardRig) { r.see(testPolicies) },
		},
		counts: []bool{false, false, true},
	},
	"policies go before they are seen": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes, testPolicies); r.see(testRoutes) },
			func(r *guardRig) { r.followNamespace(namespace, map[string]string{testRoutes: ""}) },
		},
		counts: []bool{false, true},
	},
	"policies go and come back": {
		steps: []func(r *guardRig){
			func(r *guardRig) { r.add(testRoutes, testPolicies); r.see(testRoutes); r.see(testPolicies) },
			func(r *guardRig) { r.followNamespace(namespace, map[string]string{testRoutes: ""}) },
			func(r *guardRig) { r.add(testPolicies) },
		},
		counts: []bool{true, true, true},
	},
}

// TestGuards: routes count once the policies, filters, Services and endpoints are seen that came with them, or there
// are none to be seen.
func TestGuards(t *testing.T) {
	for name, test := range guardTests {
		t.Run(name, func(t *testing.T) {
			r := newGuardRig()
			for i, step := range test.steps {
				if step(r); (r.shares()[testRoutes] != nil && r.shares()[testRoutes].areSeen()) != test.counts[i] {
					t.Errorf("after step %d, the routes count: %t", i, !test.counts[i])
				}
			}
		})
	}
}

// refuseLists has the API server refuse to list a resource.
func (r *passRig) refuseLists(resource string, err error) {
	r.options.Routes.(*routesfake.Clientset).PrependReactor("list", resource, func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// attach names resources of the own namespace in the status.
func (r *passRig) attach(resources ...string) {
	r.gatewaySeen = r.gatewaySeen.DeepCopy()
	r.gatewaySeen.Status.Attachments = &appv1.Attachments{Namespaces: []appv1.AttachedNamespace{{Name: namespace, Resources: resources}}}
	r.put(r.agent.watch.gateways, r.gatewaySeen)
}

// TestRefusedResourcesHoldNothingUp: what the API server does not know, as after a CRD was uninstalled, or refuses to
// list, keeps an agent from nothing else.
func TestRefusedResourcesHoldNothingUp(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]func(resource string) error{"404": notFound, "403": forbidden} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newPassRig(t, 1)
			r.refuseLists("tcproutes", refuse("tcproutes"))
			r.attach("httproutes", "tcproutes")
			r.await("the agent has the Gateway", func() bool {
				changes, ok := r.agent.watch.changes(false)
				return ok && changes.Gateway != nil
			})
		})
	}
	t.Run("500", func(t *testing.T) {
		t.Parallel()
		r := newPassRig(t, 1)
		asked := make(chan struct{}, 100)
		r.options.Routes.(*routesfake.Clientset).PrependReactor("list", "tcproutes", func(k8stesting.Action) (bool, runtime.Object, error) {
			asked <- struct{}{}
			return true, nil, apierrors.NewInternalError(errors.New("no"))
		})
		r.attach("tcproutes")
		r.agent.watch.changes(false)
		<-asked
		if changes, ok := r.agent.watch.changes(false); ok {
			t.Errorf("there is %v though some objects may be there that were not seen", changes.Gateway)
		}
	})
}

// TestWatchesEnd: what a Gateway has nothing of any more is not watched, also in a namespace that stays. It is seen
// anew when it comes back.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 1)
	routes := func(want int) {
		t.Helper()
		r.await("the routes are seen", func() bool {
			r.agent.watch.changes(false)
			got := r.agent.watch.namespaces[namespace].shares[testRoutes]
			return (got != nil || want <= 0) && (got == nil || len(got.taken) == want)
		})
	}
	create := func(name string) {
		t.Helper()
		_, err := r.options.Routes.GatewayV1().HTTPRoutes(namespace).Create(t.Context(), &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		r.must(err)
	}
	create("one")
	r.attach(testRoutes, "grpcroutes")
	routes(1)
	ended := map[string]bool{}
	for _, resource := range []string{testRoutes, "grpcroutes", testServices} {
		of := r.followed(resource)
		stop := of.stop
		of.stop = func() { ended[resource] = true; stop() }
	}
	r.attach("grpcroutes")
	routes(0)
	if !ended[testRoutes] || len(ended) > 1 {
		t.Errorf("these watches ended: %v", ended)
	}
	create("two")
	r.attach(testRoutes, "grpcroutes")
	routes(2)
}
