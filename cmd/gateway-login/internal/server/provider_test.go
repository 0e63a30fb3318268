package server

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// took returns how long something takes, and expects a status of a page.
func (b *browser) took(status int, target string, changes ...string) time.Duration {
	b.t.Helper()
	begun := time.Now()
	b.expect(status, target, changes...)
	return time.Since(begun)
}

// TestOldMetadata: with metadata that were good once, nobody waits for a provider to be sent there.
func TestOldMetadata(t *testing.T) {
	for name, fail := range map[string]func(p *idp){
		"hangs": func(p *idp) { p.hang(metadataPath) },
		"down":  func(p *idp) { p.change(func() { p.isDown[metadataPath] = true }) },
		"other": func(p *idp) { p.change(func() { p.metadata["token_endpoint"] = "http://id.example.com/" }) },
	} {
		inWorld(t, func(w *world) {
			b := w.newBrowser()
			b.logIn()
			fail(w.idp)
			for range 3 {
				time.Sleep(time.Hour)
				if waited := w.newBrowser().took(http.StatusFound, page); waited > 0 {
					t.Errorf("%s: a login begins after %s", name, waited)
				}
			}
			if name != "other" {
				b.expect(http.StatusOK, page)
				w.newBrowser().logIn()
			}
			synctest.Wait()
			asked := w.idp.count(metadataPath)
			for range 10 {
				w.newBrowser().expectLogin(page)
			}
			synctest.Wait()
			if n := w.idp.count(metadataPath) - asked; n > 1 {
				t.Errorf("%s: the provider was asked %d times at once", name, n)
			}
		})
	}
}

// TestNewMetadata: metadata change while the program runs.
func TestNewMetadata(t *testing.T) {
	inWorld(t, func(w *world) {
		w.newBrowser().logIn()
		w.idp.change(func() { w.idp.metadata["authorization_endpoint"] = "https://new.example.com/auth" })
		time.Sleep(2 * time.Minute)
		w.newBrowser().expect(http.StatusFound, page)
		synctest.Wait()
		if got := w.newBrowser().expect(http.StatusFound, page).location; got[:len("https://new.")] != "https://new." {
			t.Errorf("sent to %s", got)
		}
	})
}

// TestHangingProvider: who has to wait for a provider that hangs waits for little, a bounded number at a time, and
// nobody else does.
func TestHangingProvider(t *testing.T) {
	inWorld(t, func(w *world) {
		working, cas := w.newBrowser(), w.settings.Authorities
		working.logIn()
		w.settings.Authorities = nil // another provider, for gateway-login
		w.idp.hang(metadataPath)
		begun := time.Now()
		var wait sync.WaitGroup
		var mu sync.Mutex
		waited := map[time.Duration]int{}
		for range 3 * 64 {
			wait.Go(func() {
				took := w.newBrowser().took(http.StatusServiceUnavailable, page)
				mu.Lock()
				defer mu.Unlock()
				waited[took]++
			})
		}
		synctest.Wait()
		other := *w
		other.settings.Authorities = cas
		if took := (&browser{&other, host, map[string]string{}}).took(http.StatusFound, page); took > 0 {
			t.Errorf("a login at another provider begins after %s", took)
		}
		wait.Wait()
		if fmt.Sprint(waited) != "map[0s:128 2s:64]" || time.Since(begun) > 2*time.Second || w.idp.count(metadataPath) != 2 {
			t.Errorf("requests waited %v, and the provider was asked %d times", waited, w.idp.count(metadataPath))
		}
		// It answers again: the next one that comes after a while is let in.
		w.idp.hang()
		time.Sleep(time.Minute)
		w.newBrowser().expectLogin(page)
	})
}

// TestHangingTokens: codes and renewals that hang are bounded for each provider, and sessions that live go on.
func TestHangingTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		browsers := make([]*browser, 80)
		for i := range browsers {
			browsers[i] = w.newBrowser()
			browsers[i].logIn()
		}
		late := w.newBrowser()
		time.Sleep(56 * time.Minute)
		callback := late.begin(page)
		w.idp.hang(tokenPath)
		asked := w.idp.count(tokenPath)
		var wait sync.WaitGroup
		for i, b := range browsers {
			wait.Go(func() {
				want := time.Second
				if i >= 64 {
					time.Sleep(10 * time.Millisecond)
					want = 0
				}
				if took := b.took(http.StatusOK, page); took != want {
					t.Errorf("session %d goes on after %s", i, took)
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		if took := late.took(http.StatusServiceUnavailable, callback); took > 0 {
			t.Errorf("a login ends after %s", took)
		}
		wait.Wait()
		if n := w.idp.count(tokenPath) - asked; n != 64 {
			t.Errorf("the provider is asked %d times at once", n)
		}
		if took := browsers[0].took(http.StatusOK, page); took > 0 {
			t.Errorf("one more request of a session waits %s", took)
		}
		w.idp.hang()
		time.Sleep(time.Minute)
		before := browsers[0].session()
		if took := browsers[0].took(http.StatusOK, page); took > 0 || !browsers[0].session().End.After(before.End) {
			t.Errorf("the session is not renewed: it took %s", took)
		}
	})
}

// TestSlowRenewal: a renewal goes on when nobody waits for it any more, and the next request gets it.
func TestSlowRenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.newBrowser()
		b.logIn()
		time.Sleep(56 * time.Minute)
		w.idp.change(func() { w.idp.slow = 5 * time.Second })
		before := b.session()
		if took := b.took(http.StatusOK, page); took != liveTime || b.session() != before {
			t.Errorf("a session goes on after %s", took)
		}
		time.Sleep(10 * time.Second)
		if took := b.took(http.StatusOK, page); took > 0 || b.session() == before {
			t.Errorf("the session is not renewed: it took %s", took)
		}
		time.Sleep(2 * time.Hour)
		if took := b.took(http.StatusOK, page); took != 5*time.Second {
			t.Errorf("without a session, it took %s", took)
		}
	})
}
