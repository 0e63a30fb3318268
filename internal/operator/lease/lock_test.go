package lease

import (
	"context"
	"errors"
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

// TestNobodyElsesLeaseIsGivenUp: a leader that could not renew its lease until another one took it leaves it alone when it ends.
func TestNobodyElsesLeaseIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		leases := kube.CoordinationV1().Leases("system")
		var cut atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return cut.Load(), nil, errors.New("no connection")
		})
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &Lock{Interface: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Namespace: "system", Name: "test"}, Client: kube.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
			}},
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		})
		if err != nil {
			t.Fatal(err)
		}
		holder := func() string {
			lease, err := leases.Get(t.Context(), "test", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return *lease.Spec.HolderIdentity
		}
		run := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			go elector.Run(ctx)
			synctest.Wait()
			return func() {
				cancel()
				synctest.Wait()
			}
		}
		stop := run()
		stop()
		if got := holder(); got != "" {
			t.Errorf("after its end, %q holds the lease", got)
		}
		stop = run()
		cut.Store(true)
		// Between two renewals: the fake client would let one that began before the other's write replace it.
		time.Sleep(5*time.Second + 500*time.Millisecond)
		cut.Store(false)
		lease, err := leases.Get(t.Context(), "test", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		*lease.Spec.HolderIdentity = "other"
		if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		stop()
		if got := holder(); got != "other" {
			t.Errorf("%q holds the lease, want the other one", got)
		}
	})
}
