package leader

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection"

	"gateway/internal/must"
)

// newLeader starts Run with a lease on kube, and work that runs until its context is cancelled and then for as long as
// takes says. The channels tell that work has begun, and what Run returned.
func newLeader(ctx context.Context, kube *kubefake.Clientset, takes time.Duration) (begun chan struct{}, ended chan error) {
	begun, ended = make(chan struct{}), make(chan error, 1)
	lease := Lease{
		Client: kube.CoordinationV1(), Namespace: "system", Name: "test", Watchdog: leaderelection.NewLeaderHealthzAdaptor(0),
	}
	go func() {
		ended <- Run(ctx, lease, func(ctx context.Context) {
			close(begun)
			<-ctx.Done()
			time.Sleep(takes)
		})
	}()
	return begun, ended
}

func TestLeaseIsGivenUpAfterTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		first, stopFirst := context.WithCancel(t.Context())
		begun, ended := newLeader(first, kube, 5*time.Second)
		<-begun
		second, stopSecond := context.WithCancel(t.Context())
		begunToo, endedToo := newLeader(second, kube, 0)

		stopFirst()
		time.Sleep(4 * time.Second)
		if isClosed(begunToo) {
			t.Error("the second has begun while the first was still at work")
		}
		start := time.Now()
		<-begunToo
		if took := time.Since(start); took > 4*retryPeriod {
			t.Errorf("the second has begun %v after the first, want at most two tries: the lease was not given up", took)
		}
		if err := <-ended; err != nil {
			t.Errorf("the first ended with %v, want no error", err)
		}
		stopSecond()
		if err := <-endedToo; err != nil {
			t.Errorf("the second ended with %v, want no error", err)
		}
	})
}

func TestWaitingForTheLeaseCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		first, stopFirst := context.WithCancel(t.Context())
		begun, ended := newLeader(first, kube, 0)
		<-begun
		second, stopSecond := context.WithCancel(t.Context())
		begunToo, endedToo := newLeader(second, kube, 0)
		synctest.Wait()
		stopSecond()
		if err := <-endedToo; err != nil || isClosed(begunToo) {
			t.Errorf("the second ended with %v, having begun: %v; want no error and no work", err, isClosed(begunToo))
		}
		stopFirst()
		must.Do(t, <-ended)
	})
}

func TestLostLeaseEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		var changed atomic.Bool
		kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return changed.Load(), nil, apierrors.NewConflict(schema.GroupResource{Resource: "leases"}, "test", errors.New("it has changed"))
		})
		begun, ended := newLeader(t.Context(), kube, time.Hour)
		<-begun
		synctest.Wait() // it renews the lease at once
		taken := must.Get(kube.CoordinationV1().Leases("system").Get(t.Context(), "test", metav1.GetOptions{}))(t)
		taken.Spec.HolderIdentity = new("another")
		must.Get(kube.CoordinationV1().Leases("system").Update(t.Context(), taken, metav1.UpdateOptions{}))(t)
		changed.Store(true)
		start := time.Now()
		if err := <-ended; !errors.Is(err, ErrLost) {
			t.Errorf("it ended with %v, want %v, though the work is not done", err, ErrLost)
		}
		if took := time.Since(start); took > RenewDeadline+2*retryPeriod {
			t.Errorf("it ended after %v, longer than it may try to renew", took)
		}
		time.Sleep(time.Hour) // for the work, which a process would not wait for
	})
}

// TestAnOutageThatOutlastsTheDeadline ends the leader, as is usual: it cannot know whether another one has taken over.
func TestAnOutageThatOutlastsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		var cut atomic.Bool
		kube.PrependReactor("*", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return cut.Load(), nil, errors.New("no connection")
		})
		begun, ended := newLeader(t.Context(), kube, 0)
		<-begun
		cut.Store(true)
		time.Sleep(RenewDeadline / 2)
		cut.Store(false)
		time.Sleep(2 * leaseDuration)
		select {
		case err := <-ended:
			t.Fatalf("after an outage that was short it ended with %v", err)
		default:
		}
		cut.Store(true)
		start := time.Now()
		if err := <-ended; !errors.Is(err, ErrLost) {
			t.Errorf("it ended with %v, want %v", err, ErrLost)
		}
		if took := time.Since(start); took < RenewDeadline-2*retryPeriod || took > RenewDeadline+2*retryPeriod {
			t.Errorf("it ended after %v, want %v", took, RenewDeadline)
		}
		synctest.Wait()
	})
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}
