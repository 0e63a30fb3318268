// Package leader has one of several operators work at a time: the one that holds a lease.
package leader

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	// A leader that cannot renew its lease for RenewDeadline ends; leaseDuration after the last renewal another one
	// takes over. A leader that stops in order gives the lease up at once.
	leaseDuration = 15 * time.Second
	// RenewDeadline has to be more than the timeout of a client's requests.
	RenewDeadline = 10 * time.Second
	retryPeriod   = time.Second
)

// ErrLost must end the process: work may still go on in it, while another operator may have begun.
var ErrLost = errors.New("lost the lease: another operator takes over")

// Lease is what the operators compete for.
type Lease struct {
	// Client writes it.
	Client coordinationv1client.LeasesGetter
	// Namespace and Name are the Lease's.
	Namespace, Name string
	// Watchdog finds a leader that should have ended.
	Watchdog *leaderelection.HealthzAdaptor
}

// Run calls work once this process holds the lease. It returns when ctx is cancelled and work has returned, whereupon
// the lease is given up, or with ErrLost, without waiting for work.
func Run(ctx context.Context, lease Lease, work func(context.Context)) error {
	working, stopWorking := context.WithCancel(ctx)
	defer stopWorking()
	// Not from ctx: client-go asks that work has ended before the lease is given up.
	electing, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	var begun atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !begun.Load() {
			release()
		}
	})()

	hostname, _ := os.Hostname() // only for people: what follows is unique
	leaderelection.RunOrDie(electing, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name},
			Client:     lease.Client,
			LockConfig: resourcelock.ResourceLockConfig{Identity: hostname + "_" + string(uuid.NewUUID())},
		},
		LeaseDuration:   leaseDuration,
		RenewDeadline:   RenewDeadline,
		RetryPeriod:     retryPeriod,
		ReleaseOnCancel: true,
		Name:            lease.Name,
		WatchDog:        lease.Watchdog,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				begun.Store(true)
				work(working)
				release()
			},
			OnStoppedLeading: func() {},
		},
	})
	if electing.Err() == nil {
		return ErrLost
	}
	return nil
}
