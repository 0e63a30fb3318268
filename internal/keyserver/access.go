package keyserver

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"gateway/internal/logging"
)

const (
	// certainRefusal is how long the API server has to refuse to list a namespace whose RoleBindings have changed until
	// that counts. Otherwise, it is certainty.
	certainRefusal = 2 * time.Second
	// refusedInterval is how often the server tries again to list resources that it may not list.
	refusedInterval = 5 * time.Second
	// doubtInterval is how often it looks whether permissions may be lost.
	doubtInterval = time.Second
)

// asks are when the watch of a place in doubt ends. The API server asks nobody about one that has begun, and may hear
// of a RoleBinding later than this server.
var asks = []time.Duration{0, 4 * time.Second}

// doubt is since when the permission for a place may be lost, and how often its watch was ended since.
type doubt struct {
	since time.Time
	asked int
}

// requests list and watch the objects of a place that a selector selects. If that is refused, they try again: a
// Reflector would wait ever longer.
func requests[L runtime.Object](c *caches, in place, client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (apiwatch.Interface, error)
}, selector fields.Selector,
) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.FieldSelector = selector.String()
			for {
				list, err := client.List(ctx, options)
				if !c.refuse(in, err) {
					return list, err
				}
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(refusedInterval):
				}
			}
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (apiwatch.Interface, error) {
			options.FieldSelector = selector.String()
			events, err := client.Watch(ctx, options)
			if err != nil {
				return nil, err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ends[in] = events.Stop
			return events, nil
		},
	}, c.kube)
}

// doubtBy has the permissions for namespaces doubted whose RoleBindings change, or of all with ClusterRoleBindings.
// Those of agents give none.
func (c *caches) doubtBy(bindings cache.SharedInformer) error {
	_, err := bindings.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, now any) {
			if before.(metav1.Object).GetResourceVersion() != now.(metav1.Object).GetResourceVersion() {
				c.doubt(now)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			c.doubt(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("failed to watch RoleBindings: %w", err)
	}
	return nil
}

func (c *caches) doubt(binding any) {
	if of, ok := binding.(*rbacv1.RoleBinding); ok && of.RoleRef.Name == attachedRole {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, input := range c.inputs {
		in := input.place
		if of, ok := binding.(metav1.Object); ok && in.namespace != "" && (of.GetNamespace() == in.namespace || of.GetNamespace() == "") {
			c.doubts[in] = &doubt{since: c.now()}
		}
	}
}

// ask ends watches in doubt. The API server refuses the next ones if the permission is lost.
func (c *caches) ask() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for in, d := range c.doubts {
		age := c.now().Sub(d.since)
		_, isRefused := c.refused[in]
		switch {
		case isRefused:
		case age > certainty:
			delete(c.doubts, in)
		case d.asked < len(asks) && age >= asks[d.asked]:
			if d.asked++; c.ends[in] != nil {
				c.ends[in]()
			}
		}
	}
}

// refuse notes a namespace that the server may not read, if err is that. It reports whether it is.
func (c *caches) refuse(in place, err error) bool {
	if !apierrors.IsForbidden(err) || in.namespace == metav1.NamespaceAll {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.refused[in]; !known {
		c.refused[in] = c.now()
		logging.Warningf("Trying again: %v", err)
	}
	return true
}

// accept notes that the API server has listed something.
func (c *caches) accept(in place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.refused[in]; known {
		delete(c.refused, in)
		c.state.withdraw(in, false)
		logging.Infof("The %ss of namespace %s may be read again", in.kind, in.namespace)
	}
}

// withdraw treats objects that the server may not read as missing.
func (c *caches) withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for in := range c.refused {
		if c.isRefused(in) && c.state.withdraw(in, true) {
			logging.Warningf("The %ss of namespace %s may not be read", in.kind, in.namespace)
		}
	}
}

// isRefused reports whether it is certain that the server may not read a place.
func (c *caches) isRefused(in place) bool {
	since, ok := c.refused[in]
	enough := certainty
	if c.doubts[in] != nil {
		enough = certainRefusal
	}
	return ok && c.now().Sub(since) >= enough
}
