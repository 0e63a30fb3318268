// Package turns shares the time of a program among clients: who asks for much waits for its own, and not others for it.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Queue lets so many go at a time, some of them of one client, and so many wait. Clients take turns, however many of
// their own wait. Where there is no more room to wait, the last of the client with most of them gives way.
type Queue struct {
	mu               sync.Mutex
	free, each, room int
	going            map[string]int
	waiting          map[string][]chan bool
	// order has the clients that wait, the one whose last turn was longest ago first.
	order []string
}

// New returns a Queue that lets so many go at a time, so many of each client, and so many wait.
func New(atOnce, each, waiting int) *Queue {
	return &Queue{free: atOnce, each: each, room: waiting, going: map[string]int{}, waiting: map[string][]chan bool{}}
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
		q.end(client)
	}
	return false
}

// enter returns where a client learns of its turn, nil if it is known at once whether it has one.
func (q *Queue) enter(client string) (turn chan bool, entered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mayGo(client) {
		q.begin(client)
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

// Leave ends a turn of a client.
func (q *Queue) Leave(client string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(client)
}

func (q *Queue) mayGo(client string) bool { return q.free > 0 && q.going[client] < q.each }

func (q *Queue) begin(client string) {
	q.free--
	q.going[client]++
}

// end ends a turn of a client, and begins that of the first client in order that may go.
func (q *Queue) end(client string) {
	q.free++
	if q.going[client]--; q.going[client] == 0 {
		delete(q.going, client)
	}
	i := slices.IndexFunc(q.order, q.mayGo)
	if i < 0 {
		return
	}
	next := q.order[i]
	turn := q.waiting[next][0]
	q.remove(next, turn)
	if len(q.waiting[next]) > 0 {
		q.order = append(slices.Delete(q.order, i, i+1), next)
	}
	q.begin(next)
	turn <- true
}
