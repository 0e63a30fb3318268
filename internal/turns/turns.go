// Package turns shares the time of a program among clients: who asks for much waits for its own, and not others for it.
package turns

import (
	"context"
	"slices"
	"sync"
)

// Client is who takes turns. Those of a team share its turns, however many they are; "": they are of no team.
type Client struct{ Team, Name string }

// Queue lets so many go at a time, some of them of one client or team, and so many wait. Teams take turns, and in each
// its clients, however many of their own wait. Where there is no more room to wait, the last of those with most of them
// gives way.
type Queue struct {
	mu               sync.Mutex
	free, each, room int
	// going and teamGoing are how many go, waiting who waits, and teamWaiting how many of a team do.
	going                  map[Client]int
	teamGoing, teamWaiting map[string]int
	waiting                map[Client][]chan bool
	// teams are those that wait, the one whose last turn was longest ago first. order has the clients of each likewise.
	teams []string
	order map[string][]Client
}

// New returns a Queue that lets so many go at a time, so many of each client and team, and so many wait.
func New(atOnce, each, waiting int) *Queue {
	return &Queue{
		free: atOnce, each: each, room: waiting, going: map[Client]int{}, teamGoing: map[string]int{}, teamWaiting: map[string]int{},
		waiting: map[Client][]chan bool{}, order: map[string][]Client{},
	}
}

// Enter waits for a turn of a client, and reports whether it has come. If it has, Leave ends it.
func (q *Queue) Enter(ctx context.Context, client Client) bool {
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
func (q *Queue) enter(client Client) (turn chan bool, entered bool) {
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
	if q.teamWaiting[client.Team] == 0 {
		q.teams = append(q.teams, client.Team)
	}
	if len(q.waiting[client]) == 0 {
		q.order[client.Team] = append(q.order[client.Team], client)
	}
	q.waiting[client] = append(q.waiting[client], turn)
	q.teamWaiting[client.Team]++
	q.room--
	return turn, false
}

// makeRoom removes a waiting client for a new one. It takes the last place of the team with most of them, unless that
// team would then have fewer than the new one's. Of that team, it takes the client with most.
func (q *Queue) makeRoom(client Client) bool {
	team := client.Team
	for _, other := range q.teams {
		if q.teamWaiting[other] > q.teamWaiting[team] {
			team = other
		}
	}
	isOwn := q.teamWaiting[team] < q.teamWaiting[client.Team]+2
	most := client
	if isOwn {
		team = client.Team
	}
	for _, other := range q.order[team] {
		if len(q.waiting[other]) >= len(q.waiting[most]) || most.Team != team {
			most = other
		}
	}
	places := q.waiting[most]
	if isOwn && len(places) < len(q.waiting[client])+2 {
		return false
	}
	last := places[len(places)-1]
	q.remove(most, last)
	last <- false
	return true
}

// remove takes a place back.
func (q *Queue) remove(client Client, turn chan bool) {
	places := q.waiting[client]
	q.waiting[client] = slices.DeleteFunc(places, func(one chan bool) bool { return one == turn })
	q.room++
	if len(places) == 1 {
		delete(q.waiting, client)
		q.order[client.Team] = slices.DeleteFunc(q.order[client.Team], func(one Client) bool { return one == client })
	}
	if q.teamWaiting[client.Team]--; q.teamWaiting[client.Team] == 0 {
		delete(q.teamWaiting, client.Team)
		delete(q.order, client.Team)
		q.teams = slices.DeleteFunc(q.teams, func(one string) bool { return one == client.Team })
	}
}

// Leave ends a turn of a client.
func (q *Queue) Leave(client Client) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(client)
}

func (q *Queue) mayGo(client Client) bool {
	return q.free > 0 && q.going[client] < q.each && (client.Team == "" || q.teamGoing[client.Team] < q.each)
}

func (q *Queue) begin(client Client) {
	q.free--
	q.going[client]++
	q.teamGoing[client.Team]++
}

// end ends a turn of a client, and begins the turn of the first in order that may go.
func (q *Queue) end(client Client) {
	q.free++
	if q.going[client]--; q.going[client] == 0 {
		delete(q.going, client)
	}
	if q.teamGoing[client.Team]--; q.teamGoing[client.Team] == 0 {
		delete(q.teamGoing, client.Team)
	}
	for i, team := range q.teams {
		j := slices.IndexFunc(q.order[team], q.mayGo)
		if j < 0 {
			continue
		}
		next := q.order[team][j]
		turn := q.waiting[next][0]
		q.remove(next, turn)
		if len(q.waiting[next]) > 0 {
			q.order[team] = append(slices.Delete(q.order[team], j, j+1), next)
		}
		if q.teamWaiting[team] > 0 {
			q.teams = append(slices.Delete(q.teams, i, i+1), team)
		}
		q.begin(next)
		turn <- true
		return
	}
}
