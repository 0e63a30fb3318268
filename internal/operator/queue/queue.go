// Package queue is client-go's rate limited work queue for names of objects, with two priorities: what somebody has
// just changed overtakes what only has to be looked at again, such as all Gateways after a start and at a resync.
// client-go's queue has no priorities, but lets its storage be replaced.
package queue

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// Priority decides which names go first.
type Priority bool

// The priorities.
const (
	Low  Priority = false
	High Priority = true
)

// Queue is client-go's queue with priorities. Names added without one have priority Low.
type Queue struct {
	workqueue.TypedRateLimitingInterface[cache.ObjectName]
	storage *storage
}

// New returns a Queue with the name in its metrics. A name that failed is retried after firstRetry, and then ever more
// slowly, but at least every lastRetry.
func New(name string, firstRetry, lastRetry time.Duration) *Queue {
	storage := &storage{raised: map[cache.ObjectName]bool{}}
	return &Queue{
		storage: storage,
		TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](firstRetry, lastRetry),
			workqueue.TypedRateLimitingQueueConfig[cache.ObjectName]{
				Name: name,
				DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[cache.ObjectName]{
					Name:  name,
					Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{Name: name, Queue: storage}),
				}),
			}),
	}
}

// AddWithPriority adds a name. A name that waits already keeps its place, except one with priority Low that is added
// with High.
func (q *Queue) AddWithPriority(name cache.ObjectName, priority Priority) {
	if priority == High {
		q.storage.raise(name)
	}
	q.Add(name)
}

// storage keeps the names that wait, in order. client-go's queue keeps them unique, and calls all methods but raise
// with its lock held.
type storage struct {
	mu        sync.Mutex
	high, low []cache.ObjectName
	// raised are the names that wait in high, or will when they are pushed: those that are being worked on wait only
	// afterwards.
	raised map[cache.ObjectName]bool
}

func (s *storage) raise(name cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.raised[name] = true
}

// Push adds a name that does not wait.
func (s *storage) Push(name cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.raised[name] {
		s.high = append(s.high, name)
	} else {
		s.low = append(s.low, name)
	}
}

// Touch is called instead of Push for a name that waits.
func (s *storage) Touch(name cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.raised[name] {
		return
	}
	if i := slices.Index(s.low, name); i >= 0 {
		s.low = slices.Delete(s.low, i, i+1)
		s.high = append(s.high, name)
	}
}

// Len is how many names wait.
func (s *storage) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.high) + len(s.low)
}

// Pop takes the next name. There is one.
func (s *storage) Pop() cache.ObjectName {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := &s.low
	if len(s.high) > 0 {
		from = &s.high
	}
	name := (*from)[0]
	*from = (*from)[1:]
	if from == &s.high {
		delete(s.raised, name)
	}
	return name
}
