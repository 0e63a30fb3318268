package logs

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"gateway/internal/proxypod"
)

// retryAfter is the pause before a log is read on that ended: its container has not started yet, or ended and will
// start again.
const retryAfter = time.Second

// follower reads the logs of the pods that there are, and of those that come.
type follower struct {
	reader
	gateway string
	// only is the pod to follow; "": all.
	only string
	// seen is up to when the log of a pod was read before.
	seen map[string]time.Time

	lines chan line
	// failed ends it.
	failed chan error
}

// run hands over lines until ctx ends, or something cannot be read for good.
func (f *follower) run(ctx context.Context, show func(line) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var working sync.WaitGroup
	defer working.Wait()
	defer cancel()
	f.lines, f.failed = make(chan line), make(chan error, 1)
	pods := cache.NewFilteredListWatchFromClient(f.core.RESTClient(), "pods", f.namespace, func(options *metav1.ListOptions) {
		options.LabelSelector = proxypod.PodSelector(f.gateway).String()
	})
	informer := cache.NewSharedIndexInformer(pods, &corev1.Pod{}, 0, nil)
	err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		if apierrors.IsForbidden(err) {
			f.fail(fmt.Errorf("failed to watch Pods in %s: %w", f.namespace, err))
		} // what else goes wrong is tried again
	})
	if err != nil {
		return err
	}
	gone := map[string]context.CancelFunc{}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			pod := object.(*corev1.Pod)
			if f.only != "" && f.only != pod.Name {
				return
			}
			exists, cancel := context.WithCancel(ctx)
			gone[pod.Name] = cancel
			working.Go(func() { f.follow(ctx, exists, pod.Name) })
		},
		DeleteFunc: func(object any) {
			if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				if _, name, err := cache.SplitMetaNamespaceKey(key); err == nil && gone[name] != nil {
					gone[name]()
				}
			}
		},
	})
	if err != nil {
		return err
	}
	working.Go(func() { informer.RunWithContext(ctx) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-f.failed:
			return err
		case l := <-f.lines:
			if err := show(l); err != nil {
				return err
			}
		}
	}
}

// fail ends it, unless something else did.
func (f *follower) fail(err error) {
	select {
	case f.failed <- err:
	default:
	}
}

// follow hands over the lines of a pod as long as it exists; what it has logged is read to the end.
func (f *follower) follow(ctx, exists context.Context, pod string) {
	after := f.seen[pod]
	for {
		for l, err := range f.read(ctx, pod, after, corev1.PodLogOptions{Follow: true}) {
			if apierrors.IsForbidden(err) {
				f.fail(err)
			}
			if err != nil {
				break
			}
			select {
			case f.lines <- l:
			case <-ctx.Done():
				return
			}
			if !l.time.IsZero() {
				after = l.time
			}
		}
		select {
		case <-exists.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}
