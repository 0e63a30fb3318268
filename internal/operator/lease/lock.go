package lease

import (
	"context"
	"errors"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errNotOurs says that there is nothing to give up.
var errNotOurs = errors.New("the lease is another process's")

// Lock is a lock on a lease that its process gives up only while it holds it. client-go's election reads the lease before it gives it
// up, and then goes by what it had seen before: a process that was frozen would give up the lease of the one that took over.
type Lock struct {
	resourcelock.Interface
	// holder is who had the lease when it was read last.
	holder string
}

// Get reads the lease.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	return record, raw, err
}

// Update writes the lease, unless it would give up another process's.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && l.holder != l.Identity() {
		return errNotOurs
	}
	return l.Interface.Update(ctx, record)
}
