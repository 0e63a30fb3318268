package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// TestSilentWatches: a watch that brings nothing, not even a bookmark, is started anew, and no other is.
func TestSilentWatches(t *testing.T) {
	r, clock := newGuardRig(), clocktesting.NewFakeClock(time.Unix(1, 0))
	r.clock = clock
	r.see(testServices)
	r.see(testSlices)
	r.add(testRoutes) // which is not listed yet
	ended := map[string]int{}
	for resource, share := range r.shares() {
		share.of.began(func() { ended[resource]++ })
	}
	expect := func(what string, services int) {
		t.Helper()
		if r.look(); ended[testServices] != services || ended[testSlices]+ended[testRoutes] > 0 {
			t.Errorf("%s, these ended: %v, want %d of services", what, ended, services)
		}
	}
	clock.Step(silence)
	r.shares()[testSlices].of.UpdateResourceVersion("2")
	expect("after three minutes", 0)
	clock.Step(silence / 2)
	r.shares()[testSlices].of.UpdateResourceVersion("3")
	expect("after more", 1)
	clock.Step(silence / 2)
	r.shares()[testSlices].of.UpdateResourceVersion("4")
	expect("soon after", 1)

	// The API server is away: whatever is asked, there is no answer.
	for range 3 {
		clock.Step(silence / 2)
		for _, resource := range []string{testServices, testSlices} {
			answered := must.Get(r.shares()[resource].of.turn(t.Context(), nil))(t)
			answered()
		}
		expect("during an outage", 1)
	}
}

// TestHungRequestsEnd: requests that the API server never answers end, too, and make way for others.
func TestHungRequestsEnd(t *testing.T) {
	r, clock := newGuardRig(), clocktesting.NewFakeClock(time.Unix(1, 0))
	r.clock = clock
	r.add(testRoutes)
	of, asked, ended := r.shares()[testRoutes].of, make(chan struct{}), make(chan error)
	hang := func(ctx context.Context) error {
		asked <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}
	list(of, hungClient{hang})
	for _, request := range []func() error{
		func() error {
			_, err := of.requests.(cache.ListerWithContext).ListWithContext(t.Context(), metav1.ListOptions{})
			return err
		},
		func() error {
			_, err := of.requests.(cache.WatcherWithContext).WatchWithContext(t.Context(), metav1.ListOptions{})
			return err
		},
	} {
		go func() { ended <- request() }()
		<-asked
		clock.Step(silence + time.Second)
		if err := <-ended; !errors.Is(err, context.Canceled) || len(of.turns) > 0 {
			t.Errorf("got %v, %d turns are taken", err, len(of.turns))
		}
	}
}

// hungClient answers nothing.
type hungClient struct {
	hang func(ctx context.Context) error
}

func (c hungClient) List(ctx context.Context, _ metav1.ListOptions) (*gatewayv1.HTTPRouteList, error) {
	return nil, c.hang(ctx)
}

func (c hungClient) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	return nil, c.hang(ctx)
}

// TestStartsTakeTurns: few requests for a resource are under way at once, and those for another one do not wait.
func TestStartsTakeTurns(t *testing.T) {
	r := newGuardRig()
	services, others := r.shares()[testServices].of, r.shares()[testSlices].of
	ended, end := context.WithCancel(t.Context())
	end()
	var answered func()
	for range startsAtOnce {
		var err error
		if answered, err = services.turn(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := services.turn(ended, end); err == nil {
		t.Error("one more request is made")
	}
	if _, err := others.turn(t.Context(), end); err != nil {
		t.Error(err)
	}
	answered()
	if _, err := services.turn(t.Context(), end); err != nil {
		t.Error(err)
	}
}

// TestWatchingTheCluster: a pod watches all namespaces once it may, and by namespace as long as it may not.
func TestWatchingTheCluster(t *testing.T) {
	r := newGuardRig()
	gateway := &appv1.Gateway{}
	gateway.Namespace, gateway.Name, gateway.UID, gateway.Generation = namespace, r.name, "uid-1", 1
	attachment := newAttachment(gateway, "team", "1")
	_ = r.gateways.Replace([]any{gateway}, "1")
	_ = r.attachments.Replace([]any{attachment}, "1")
	expect := func(what string, mode appv1.WatchMode, watches int, counts bool) {
		t.Helper()
		if _, _, versions, _ := r.look(); versions.Watch != mode && r.settled || len(r.watches) != watches || r.share("team", testRoutes).counts != counts {
			t.Errorf("%s: watches by %s, %d watches, routes count: %v", what, versions.Watch, len(r.watches), r.share("team", testRoutes).counts)
		}
	}
	at := func(resource, namespace string) *watched { return r.watches[place{resource, namespace}] }
	each := func(namespace string, do func(of *watched)) {
		for _, resource := range []string{testServices, testSlices, testRoutes} {
			do(at(resource, namespace))
		}
	}
	list := func(of *watched) { _ = of.Replace(nil, "10") }
	refuse := func(of *watched) { of.refused(forbidden(of.resource)) }
	expect("by namespace", appv1.WatchNamespaces, 7, false)
	each("team", list)
	expect("listed", appv1.WatchNamespaces, 7, true)

	gateway = gateway.DeepCopy()
	gateway.Generation, gateway.Spec.Watch = 2, appv1.WatchCluster
	_ = r.gateways.Update(gateway)
	expect("of all", appv1.WatchNamespaces, 10, true)
	each("", refuse)
	expect("refused once", appv1.WatchNamespaces, 10, true)
	each("", list)
	expect("of all, listed", appv1.WatchCluster, 5, true)
	each("", refuse)
	each("", refuse)
	expect("refused", appv1.WatchNamespaces, 10, true)
	each("team", list)
	each(namespace, func(of *watched) {
		if of != nil {
			list(of)
		}
	})
	expect("refused, and listed by namespace", appv1.WatchNamespaces, 10, true)
	each("", list)
	expect("of all again", appv1.WatchCluster, 5, true)
}

// TestARefusedNamespaceHoldsUpNoOther: a pod that may not read a namespace any more reports the others as before.
func TestARefusedNamespaceHoldsUpNoOther(t *testing.T) {
	r := newGuardRig()
	gateway := &appv1.Gateway{}
	gateway.Namespace, gateway.Name, gateway.UID, gateway.Generation = namespace, r.name, "uid-1", 1
	_ = r.gateways.Replace([]any{gateway}, "1")
	_ = r.attachments.Replace([]any{newAttachment(gateway, "one", "1"), newAttachment(gateway, "other", "1")}, "1")
	r.look()
	upTo := func(version, but string) Versions {
		for place, of := range r.watches {
			if place.namespace != but {
				_ = of.Replace([]any{}, version)
			}
		}
		_ = r.gateways.Replace([]any{gateway}, version)
		_ = r.attachments.Replace([]any{newAttachment(gateway, "one", "1"), newAttachment(gateway, "other", "1")}, version)
		_, _, versions, _ := r.look()
		return versions
	}
	if got := upTo("10", ""); got.Base != "10" || len(got.Exceptions) > 0 {
		t.Errorf("at first, it reports %+v", got)
	}
	r.share("one", testRoutes).of.refused(forbidden(testRoutes))
	got := upTo("20", "one")
	if line := got.Exceptions; got.Base != "20" || len(line) != 1 || line[0].Namespace != "one" || versionOf(line[0].ResourceVersion) > 10 {
		t.Errorf("with one that is refused, it reports %+v", got)
	}
	if got := upTo("30", ""); got.Base != "30" || len(got.Exceptions) > 0 {
		t.Errorf("at last, it reports %+v", got)
	}
}
