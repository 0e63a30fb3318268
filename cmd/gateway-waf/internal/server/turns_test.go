package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/waf"
)

// TestTurnsOfClients: a client that asks for more than there is time for takes no time of others, and neither does a
// namespace with many clients.
func TestTurnsOfClients(t *testing.T) {
	t.Parallel()
	for name, greedy := range map[string]func(i int) string{
		"client":    func(i int) string { return fmt.Sprintf("2001:db8::%x -", i) },
		"namespace": func(i int) string { return fmt.Sprintf("10.1.%d.%d greedy", i/256, i%256) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testTurns(t, greedy) })
		})
	}
}

func testTurns(t *testing.T, greedy func(i int) string) {
	t.Helper()
	s := New(func(waf.Settings, *engine.Request) (engine.Verdict, error) {
		time.Sleep(time.Second)
		return engine.Verdict{}, nil
	})
	answers := map[string]chan error{"greedy": make(chan error, 1000), "other": make(chan error, 1000)}
	ask := func(who, client string) {
		_, err := s.decide(t.Context(), waf.Settings{}, fmt.Appendf(nil, "%s GET HTTP/1.1 /\r\n\r\n", client))
		answers[who] <- err
	}
	for i := range 2 * mostWaiting {
		go ask("greedy", greedy(i))
	}
	synctest.Wait()
	start := time.Now()
	for _, client := range []string{"2001:db8:0:1::1 -", "10.0.0.1 shop"} {
		go ask("other", client)
	}
	for range 2 {
		if err := <-answers["other"]; err != nil {
			t.Errorf("another client is not answered: %v", err)
		}
	}
	if waited := time.Since(start) - time.Second; waited > 0 {
		t.Errorf("other clients have waited %s for their turns", waited)
	}
	answered := 0
	for range 2 * mostWaiting {
		if <-answers["greedy"] == nil {
			answered++
		}
	}
	if answered == 0 {
		t.Error("the greedy client has no turn")
	}
}
