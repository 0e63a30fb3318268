package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime/debug"
	"sync"
	"time"

	"gateway/cmd/gateway-login/internal/provider"
	"gateway/internal/logging"
	"gateway/internal/login"
)

// bearerToken is what the header Authorization can have.
var bearerToken = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// tooLargeError is that a session does not fit a cookie.
type tooLargeError struct{ size int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("the session has %d bytes where a cookie has %d: let the provider issue fewer claims or a smaller token", e.size, maxCookie)
}

// newSession returns the session for tokens, with its cookies. Without an ID token, it keeps the claims of the earlier
// session.
func (v *visit) newSession(issued provider.Tokens, earlier login.Session) (session login.Session, cookies []*http.Cookie, err error) {
	session = login.Session{End: issued.End, Claims: earlier.Claims}
	if issued.ID != "" {
		if session.Claims, err = login.Claims(issued.Claims); err != nil {
			return login.Session{}, nil, err
		}
	} else {
		session.End = issued.AccessEnd
		if session.End.IsZero() {
			session.End = v.now.Add(defaultLife)
		}
	}
	switch v.Token {
	case "ID":
		session.Token = issued.ID
		if issued.ID == "" {
			session.Token = earlier.Token
		}
	case "Access":
		session.Token = issued.Access
		if !issued.AccessEnd.IsZero() && issued.AccessEnd.Before(session.End) {
			session.End = issued.AccessEnd
		}
	}
	if session.Token != "" && !bearerToken.MatchString(session.Token) {
		return login.Session{}, nil, errors.New("the provider issued a token that no header can have")
	}
	session.Renew = session.End
	if issued.Refresh != "" {
		session.Renew = session.End.Add(-min(session.End.Sub(v.now)/renewPart, renewTime))
	}
	first := cookie(login.SessionCookie, v.keys.Seal(login.ForHAProxy, v.SessionBinding(), []byte(session.Text())), 0)
	if !fits(first) {
		return login.Session{}, nil, &tooLargeError{len(first.Value)}
	}
	return session, []*http.Cookie{first, v.tokensCookie(tokens{issued.Subject, issued.ID, issued.Refresh, hash(session.Claims)})}, nil
}

// hash returns what claims are known by.
func hash(claims string) []byte {
	sum := sha256.Sum256([]byte(claims))
	return sum[:]
}

// tokensCookie returns the cookie for tokens. Without the ID token, the provider may ask users whether to log out.
func (v *visit) tokensCookie(t tokens) *http.Cookie {
	made := cookie(login.TokensCookie, v.seal(v.AccountBinding(), t), 0)
	if fits(made) {
		return made
	}
	t.ID = ""
	if made = cookie(login.TokensCookie, v.seal(v.AccountBinding(), t), 0); fits(made) {
		return made
	}
	logging.Warningf("A session of provider %s will not be renewed: its refresh token has %d bytes, too many for a cookie", v.Issuer, len(t.Refresh))
	return forgotten(login.TokensCookie)
}

const (
	// renewedTime is how long the result of a renewal is for all who come with the same refresh token, which the provider
	// may take only once: the other tabs of a browser. failedTime is the same for a failure.
	renewedTime, failedTime = time.Minute, 5 * time.Second
	// liveTime is how long requests of a session that is live wait for a renewal, from its beginning. HAProxy waits
	// longer.
	liveTime = time.Second
	// maxRenewals is how many results, or logins with codes, there are before those whose time is over are forgotten.
	maxRenewals = 4096
)

// renewals are the renewals in progress and of the last minute.
type renewals struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]*renewal
}

type renewal struct {
	begun time.Time
	// done is closed when the result is there.
	done  chan struct{}
	got   answer
	err   error
	until time.Time
}

// renew returns what lets a request pass with new tokens, once for all requests that come with the same old ones. A
// session that is live does not wait for long.
func (s *Server) renew(ctx context.Context, v *visit, session login.Session, old tokens, isLive bool) (answer, error) {
	key := sha256.Sum256([]byte(v.SessionBinding() + " " + v.host + " " + old.Refresh))
	r, isMine := s.renewals.join(key, v.now)
	if isMine {
		// Others wait for it, too, or come later, whatever becomes of this request.
		go s.renewals.run(r, func() (answer, error) { return s.refresh(v, session, old) })
	}
	if isLive {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.begun.Add(liveTime))
		defer cancel()
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		select {
		case <-r.done: // before, too
		default:
			return answer{}, errors.New("the renewal takes long")
		}
	}
	return r.got, r.err
}

// run does a renewal, and lets others have the result.
func (r *renewals) run(one *renewal, do func() (answer, error)) {
	defer func() {
		if cause := recover(); cause != nil {
			logging.Errorf("Panic: %v\n%s", cause, debug.Stack())
			one.err = errors.New("the renewal did not end")
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		one.until = time.Now().Add(renewedTime)
		if one.err != nil {
			one.until = time.Now().Add(failedTime)
		}
		close(one.done)
	}()
	one.got, one.err = do()
}

// join returns the renewal for a key. isMine reports whether the caller has to do it.
func (r *renewals) join(key [sha256.Size]byte, now time.Time) (one *renewal, isMine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.all[key]; one != nil && (one.until.IsZero() || now.Before(one.until)) {
		return one, false
	}
	if r.all == nil {
		r.all = map[[sha256.Size]byte]*renewal{}
	}
	if len(r.all) >= maxRenewals {
		for key, one := range r.all {
			if !one.until.IsZero() && !now.Before(one.until) {
				delete(r.all, key)
			}
		}
	}
	one = &renewal{begun: now, done: make(chan struct{})}
	r.all[key] = one
	return one, true
}

// refresh asks the provider for new tokens of the same user.
func (s *Server) refresh(v *visit, session login.Session, old tokens) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerTime)
	defer cancel()
	known, client, err := s.known(ctx, v)
	if err != nil {
		return answer{}, err
	}
	issued, err := known.Refresh(ctx, client, old.Refresh)
	if err != nil {
		return answer{}, err
	}
	switch {
	case issued.ID == "" && !bytes.Equal(old.Claims, hash(session.Claims)):
		return answer{}, &provider.RefusedError{Reason: "it issues no ID token to a session that is lost, or of somebody else"}
	case issued.ID == "":
		issued.Subject = old.Subject
	case issued.Subject != old.Subject:
		return answer{}, &provider.RefusedError{Reason: "it renews the session of another user"}
	}
	renewed, cookies, err := v.newSession(issued, session)
	if err != nil {
		return answer{}, fmt.Errorf("failed to renew a session: %w", err)
	}
	return pass(renewed, cookies...), nil
}
