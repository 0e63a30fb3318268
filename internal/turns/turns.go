// Package turns shares the time of a program among clients: who asks for much waits for its own, and not others for it.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Queue lets so many go at a time, and so many wait. Clients take turns, however many of their own wait. Where there is
// no more room to wait, the last of the client with most of them gives way.
type Queue struct {
	mu         sync.Mutex
	free, room int
	waiting    map[string][]chan bool
	order      []string
}

// New returns a Queue that lets so many go at a time, and so many wait.
func New(atOnce, waiting int) *Queue {
	return &Queue{free: atOnce, room: waiting, waiting: map[string][]chan bool{}}
}

// Enter waits for a turn of a client, and reports whether it has come. If it has, Leave ends it.
func (q *Queue) Enter(ctx context.Context, client string) bool {
	turn, entered := q.enter(client)
	if turn == nil {
		return entered
	}
	select {
	case entered = <-turn:
		return entered
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if slices.Contains(q.waiting[client], turn) {
		q.remove(client, turn)
	} else if <-turn {
		q.next()
	}
	return false
}

// enter returns where a client learns of its turn, nil if it is known at once whether it has one.
func (q *Queue) enter(client string) (turn chan bool, entered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		return nil, true
	}
	if q.room == 0 && !q.makeRoom(client) {
		return nil, false
	}
	turn = make(chan bool, 1)
	if len(q.waiting[client]) == 0 {
		q.order = append(q.order, client)
	}
	q.waiting[client] = append(q.waiting[client], turn)
	q.room--
	return turn, false
}

// makeRoom takes the last place of the client with most of them, unless that would then have fewer than this one.
func (q *Queue) makeRoom(client string) bool {
	most := client
	for _, other := range q.order {
		if len(q.waiting[other]) > len(q.waiting[most]) {
			most = other
		}
	}
	places := q.waiting[most]
	if len(places) < len(q.waiting[client])+2 {
		return false
	}
	last := places[len(places)-1]
	q.remove(most, last)
	last <- false
	return true
}

// remove takes a place back.
func (q *Queue) remove(client string, turn chan bool) {
	places := q.waiting[client]
	q.waiting[client] = slices.DeleteFunc(places, func(one chan bool) bool { return one == turn })
	q.room++
	if len(places) == 1 {
		delete(q.waiting, client)
		q.order = slices.DeleteFunc(q.order, func(one string) bool { return one == client })
	}
}

// Leave ends a turn.
func (q *Queue) Leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next()
}

// next gives a turn to the client whose last one was longest ago.
func (q *Queue) next() {
	if len(q.order) == 0 {
		q.free++
		return
	}
	client := q.order[0]
	turn := q.waiting[client][0]
	q.remove(client, turn)
	if len(q.waiting[client]) > 0 {
		q.order = append(q.order[1:], client)
	}
	turn <- true
}
