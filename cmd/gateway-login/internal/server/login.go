package server

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"gateway/cmd/gateway-login/internal/provider"
	"gateway/internal/logging"
	"gateway/internal/login"
)

const (
	// loginTime is how long a user may take to log in, and maxLogins how many logins a browser may have begun.
	loginTime, maxLogins = 15 * time.Minute, 32
	// maxTries is how often somebody may come back from a login with a code, which is the client's word at the provider.
	maxTries = 3
	// A session is renewed when a quarter of its life is left, or renewTime.
	renewPart, renewTime = 4, 5 * time.Minute
	// defaultLife is how long a session lasts if nobody names its end.
	defaultLife = 5 * time.Minute
)

// again is what people can do about a login that failed.
const again = "open the page again to log in"

// begin sends a browser to the provider.
func (s *Server) begin(ctx context.Context, v *visit) (answer, error) {
	if !v.isPage {
		return refuse(http.StatusUnauthorized, "there is no session, or it has ended: "+again), nil
	}
	known, client, err := s.known(ctx, v)
	if err != nil {
		return answer{}, err
	}
	// The oldest logins are forgotten, by their values, which begin with the time.
	names := slices.SortedFunc(maps.Keys(v.logins), func(a, b string) int { return cmp.Compare(v.logins[a], v.logins[b]) })
	var cookies []*http.Cookie
	for _, name := range names[:max(0, len(names)+1-maxLogins)] {
		cookies = append(cookies, forgotten(name))
	}
	begun := state{
		Cookie: fmt.Sprintf("%x.%s", v.now.Unix(), random()), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Target: v.target, Until: v.now.Add(loginTime),
	}
	if len(begun.Target) > maxTarget || !strings.HasPrefix(begun.Target, "/") {
		begun.Target = "/"
	}
	cookies = append(cookies, cookie(loginCookie(begun.Cookie), begun.Cookie, loginTime))
	return redirect(known.LoginURL(client, inURLs.Replace(v.seal(v.loginBinding(), begun)), begun.Nonce, begun.Verifier), cookies...), nil
}

// finish takes a browser back that the provider sends. It must have begun the login here, and have its cookie. Who has
// a session already goes on with that, as after a reload.
func (s *Server) finish(ctx context.Context, v *visit) (answer, error) {
	query := v.url.Query()
	var begun state
	isOurs := v.open(v.loginBinding(), fromURLs.Replace(query.Get("state")), &begun)
	if !isOurs || subtle.ConstantTimeCompare([]byte(v.logins[loginCookie(begun.Cookie)]), []byte(begun.Cookie)) != 1 || !v.now.Before(begun.Until) {
		if _, isLive := v.session(); isOurs && isLive {
			return redirect(v.origin() + begun.Target), nil
		}
		return refuse(http.StatusBadRequest, "the login was not begun by this browser, took too long, or has ended: "+again), nil
	}
	forget := forgotten(loginCookie(begun.Cookie))
	known, client, err := s.known(ctx, v)
	if err != nil {
		return answer{}, err
	}
	if issuer := query.Get("iss"); issuer != v.Issuer && (issuer != "" || known.NamesItself) {
		return refuse(http.StatusBadRequest, "another provider answers: "+again, forget), nil
	}
	if code := query.Get("error"); code != "" {
		return refuse(http.StatusForbidden, "the provider refuses the login: "+provider.ErrorCode(code), forget), nil
	}
	if !s.tries.add(begun, v.now) {
		return refuse(http.StatusBadRequest, "the login has failed too often: "+again, forget), nil
	}
	issued, err := known.Exchange(ctx, client, query.Get("code"), begun.Nonce, begun.Verifier)
	var refused *provider.RefusedError
	switch {
	case errors.As(err, &refused):
		logging.Warningf("A login fails: %v", err)
		return refuse(http.StatusForbidden, "the provider refuses the login: "+again, forget), nil
	case err != nil:
		return answer{}, err
	}
	_, cookies, err := v.newSession(issued, login.Session{})
	var tooLarge *tooLargeError
	switch {
	case errors.As(err, &tooLarge):
		logging.Warningf("A login fails: %v", err)
		return refuse(http.StatusForbidden, tooLarge.Error(), forget), nil
	case err != nil:
		return answer{}, err
	}
	// The target is a path as the browser sent it, which may begin with two slashes.
	return redirect(v.origin()+begun.Target, append(cookies, forget)...), nil
}

// tries are how often codes came back from logins that can still end.
type tries struct {
	mu  sync.Mutex
	all map[string]*try
}

type try struct {
	count int
	until time.Time
}

// add counts one, and reports whether it may be tried.
func (t *tries) add(begun state, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) >= maxRenewals {
		maps.DeleteFunc(t.all, func(_ string, one *try) bool { return !now.Before(one.until) })
	}
	// A client that fills it has begun more logins than this would let it try again.
	if len(t.all) >= maxRenewals || t.all == nil {
		t.all = map[string]*try{}
	}
	one := t.all[begun.Cookie]
	if one == nil {
		one = &try{until: begun.Until}
		t.all[begun.Cookie] = one
	}
	one.count++
	return one.count <= maxTries
}
