package keeper

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"gateway/internal/keystream"
	"gateway/internal/logging"
)

const (
	// firstRetry is how soon a key server is asked again that did not answer. The time doubles, up to lastRetry.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// stream are the objects of a key server.
type stream struct {
	client *keystream.Client
	wake   chan struct{}

	mu sync.Mutex
	// have are the digests of what is known. queue is what was not returned yet. synced reports whether everything has
	// arrived once.
	have   map[string]string
	queue  []object
	synced bool
}

// changes returns nothing before everything has arrived once: a pod that was away for long gets much at once.
func (s *stream) changes() (objects []object, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.synced {
		objects, s.queue = s.queue, nil
	}
	return objects, s.synced, nil
}

func (s *stream) changed() <-chan struct{} { return s.wake }

// run follows the key server until ctx ends. While it is away, everything stays as it is.
func (s *stream) run(ctx context.Context) {
	retry, isAway := firstRetry, false
	for ctx.Err() == nil {
		s.mu.Lock()
		have := maps.Clone(s.have)
		s.mu.Unlock()
		err := s.client.Watch(ctx, have, func(objects []keystream.Object, synced bool) error {
			if synced && isAway {
				logging.Infof("The key server is back")
			}
			if synced {
				retry, isAway = firstRetry, false
			}
			s.got(objects, synced)
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !isAway:
			isAway = true
			logging.Warningf("What the pod has stays as it is while the key server is away: %v", err)
		case err != nil && !errors.Is(err, context.Canceled):
			logging.V(1).Infof("The key server is still away: %v", err)
		}
		pause := retry/2 + rand.N(retry/2) //nolint:gosec // no secret
		if err == nil {
			pause = firstRetry
		} else {
			retry = min(2*retry, lastRetry)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// got notes objects.
func (s *stream) got(arrived []keystream.Object, synced bool) {
	objects := make([]object, len(arrived))
	for i := range arrived {
		objects[i] = newObject(arrived[i]) // while more arrive
	}
	s.mu.Lock()
	for i := range arrived {
		s.have[keystream.Key(arrived[i].Kind, arrived[i].Name)] = arrived[i].Digest
	}
	s.queue = append(s.queue, objects...)
	s.synced = s.synced || synced
	isNews := s.synced && (len(s.queue) > 0 || synced)
	s.mu.Unlock()
	if !isNews {
		return
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
