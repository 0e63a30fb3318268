package lease

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// answering is a transport that takes every request.
var answering = roundTripper(func(*http.Request) (*http.Response, error) { return &http.Response{}, nil })

// newElector returns what elects this process, with renewals that stop when cut is true.
func newElector(t *testing.T, cut *atomic.Bool) *leaderelection.LeaderElector {
	t.Helper()
	kube := kubefake.NewClientset()
	kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		return cut.Load(), nil, errors.New("no connection")
	})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: "test"}, Client: kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 14 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return elector
}

func send(t *testing.T, transport http.RoundTripper, method string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = transport.RoundTrip(request) //nolint:bodyclose // there is none
	return err
}

func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fence := &Fence{Margin: 5 * time.Second}
		transport := fence.Wrap(answering)
		expect := func(when string, want error) {
			t.Helper()
			if err := send(t, transport, http.MethodPatch); !errors.Is(err, want) {
				t.Errorf("%s: PATCH: got %v, want %v", when, err, want)
			}
			if err := send(t, transport, http.MethodGet); err != nil {
				t.Errorf("%s: GET: %v", when, err)
			}
		}
		expect("before there is an election", ErrNotHeld)
		var cut atomic.Bool
		elector := newElector(t, &cut)
		fence.Guard(elector)
		expect("before the lease is held", ErrNotHeld)
		ctx, stop := context.WithCancel(t.Context())
		go elector.Run(ctx)
		synctest.Wait()
		expect("while the lease is held", nil)
		time.Sleep(5 * time.Minute)
		expect("while the lease is renewed", nil)
		cut.Store(true)
		time.Sleep(7 * time.Second)
		expect("while nobody else may take the lease", nil)
		time.Sleep(6 * time.Second)
		expect("when others may be about to take the lease", ErrNotHeld)
		stop()
		synctest.Wait()
	})
}
