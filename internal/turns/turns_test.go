package turns

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
)

// line is a Queue with who has come to their turns, in order, and who was sent away.
type line struct {
	*Queue
	mu         sync.Mutex
	come, gone []string
}

// enter waits for a turn of a client, up to when nothing else happens.
func (l *line) enter(ctx context.Context, name, client string) {
	l.enterOf(ctx, name, Client{Name: client})
}

func (l *line) enterOf(ctx context.Context, name string, client Client) {
	go func() {
		entered := l.Enter(ctx, client)
		l.mu.Lock()
		defer l.mu.Unlock()
		if entered {
			l.come = append(l.come, name)
		} else {
			l.gone = append(l.gone, name)
		}
	}()
	synctest.Wait()
}

func (l *line) leave(client string) {
	l.leaveOf(Client{Name: client})
}

func (l *line) leaveOf(client Client) {
	l.Leave(client)
	synctest.Wait()
}

func (l *line) expect(t *testing.T, come, gone string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	text := func(names []string) (all string) {
		for _, name := range names {
			all += name + " "
		}
		return all
	}
	if text(l.come) != come || text(l.gone) != gone {
		t.Errorf("there came %q and %q were sent away, want %q and %q", text(l.come), text(l.gone), come, gone)
	}
	l.come, l.gone = nil, nil
}

// TestTurns: clients take turns, whoever came first.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{Queue: New(2, 2, 6)}
		for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "b1", "c1", "b2"} {
			l.enter(t.Context(), name, name[:1])
		}
		l.expect(t, "a1 a2 ", "")
		for _, name := range []string{"a1", "a2", "a3", "b1", "c1", "a4", "b2", "a5"} {
			l.leave(name[:1])
		}
		l.expect(t, "a3 b1 c1 a4 b2 a5 ", "")
		l.enter(t.Context(), "d1", "d")
		l.enter(t.Context(), "d2", "d")
		l.enter(t.Context(), "d3", "d")
		l.expect(t, "d1 d2 ", "")
		l.leave("d")
		l.expect(t, "d3 ", "")
	})
}

// TestTurnsAtOnce: of the turns at a time, one client has some, also where nobody else wants the others.
func TestTurnsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{Queue: New(4, 2, 6)}
		for _, name := range []string{"a1", "a2", "a3", "a4", "b1"} {
			l.enter(t.Context(), name, name[:1])
		}
		l.expect(t, "a1 a2 b1 ", "")
		l.leave("b")
		l.expect(t, "", "")
		l.enter(t.Context(), "c1", "c")
		l.leave("a")
		l.enter(t.Context(), "d1", "d")
		l.enter(t.Context(), "d2", "d")
		l.expect(t, "c1 a3 d1 ", "")
		l.leave("c")
		l.expect(t, "d2 ", "")
		for _, client := range []string{"a", "a", "d", "a", "d"} {
			l.leave(client)
		}
		l.expect(t, "a4 ", "")
		if len(l.going) > 0 || l.free != 4 || l.room != 6 {
			t.Errorf("when all have left: %+v", l.Queue)
		}
	})
}

// TestNoMoreRoom: the last of the client with most places gives way, unless it would have fewer than the one who comes.
func TestNoMoreRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{Queue: New(1, 1, 4)}
		for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "a6"} {
			l.enter(t.Context(), name, "a")
		}
		l.expect(t, "a1 ", "a6 ")
		l.enter(t.Context(), "b1", "b")
		l.enter(t.Context(), "b2", "b")
		l.enter(t.Context(), "b3", "b")
		l.expect(t, "", "a5 a4 b3 ")
		l.enter(t.Context(), "c1", "c")
		l.enter(t.Context(), "d1", "d")
		l.enter(t.Context(), "e1", "e")
		l.expect(t, "", "b2 a3 e1 ")
		for _, name := range []string{"a1", "a2", "b1", "c1", "d1"} {
			l.leave(name[:1])
		}
		l.expect(t, "a2 b1 c1 d1 ", "")
	})
}

// TestWhoLeaves: a place is free again for others, also where the turn comes at the same time.
func TestWhoLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{Queue: New(1, 1, 2)}
		l.enter(t.Context(), "a1", "a")
		ctx, cancel := context.WithCancel(t.Context())
		l.enter(ctx, "b1", "b")
		l.enter(ctx, "b2", "b")
		cancel()
		synctest.Wait()
		l.gone = nil
		l.enter(t.Context(), "c1", "c")
		l.enter(ctx, "b3", "b")
		l.expect(t, "a1 ", "b3 ")
		l.leave("a")
		l.expect(t, "c1 ", "")

		last := "c"
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			l.enter(ctx, "d", "d")
			go cancel()
			l.leave(last)
			last = "d"
			if len(l.gone) > 0 {
				l.enter(t.Context(), "d", "d")
			}
			l.gone = nil
			l.expect(t, "d ", "")
		}
	})
}

// TestTurnsOfTeams: a team shares its turns and places, however many clients it has.
func TestTurnsOfTeams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := func(name string) Client { return Client{Team: name[:1], Name: name} }
		l := &line{Queue: New(4, 2, 6)}
		for _, name := range []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8", "b1", "c1"} {
			l.enterOf(t.Context(), name, of(name))
		}
		l.expect(t, "a1 a2 b1 c1 ", "")
		for _, name := range []string{"b2", "b3", "c2", "c3"} {
			l.enterOf(t.Context(), name, of(name))
		}
		l.expect(t, "", "a8 a7 a6 a5 ")
		for _, name := range []string{"a1", "a2", "b1", "c1"} {
			l.leaveOf(of(name))
		}
		l.expect(t, "a3 b2 c2 a4 ", "")
	})
}
