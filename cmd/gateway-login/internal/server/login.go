package server

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"gateway/cmd/gateway-login/internal/provider"
	"gateway/internal/logging"
	"gateway/internal/login"
)

const (
	// loginTime is how long a user may take to log in, and maxLogins how many logins a browser may have begun.
	loginTime, maxLogins = 15 * time.Minute, 4
	// A session is renewed when a quarter of its life is left, or renewTime.
	renewPart, renewTime = 4, 5 * time.Minute
	// defaultLife is that of a session of which nobody says when it ends.
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
	var cookies []*http.Cookie
	if len(v.logins) >= maxLogins {
		for name := range v.logins {
			cookies = append(cookies, forgotten(name))
		}
	}
	begun := state{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Target: v.target, Until: v.now.Add(loginTime)}
	if len(begun.Target) > maxTarget || !strings.HasPrefix(begun.Target, "/") {
		begun.Target = "/"
	}
	cookies = append(cookies, cookie(login.LoginCookie+begun.State[:nameSize], v.seal(v.loginBinding(), begun), loginTime))
	return redirect(known.LoginURL(client, begun.State, begun.Nonce, begun.Verifier), cookies...), nil
}

// finish takes a browser back that the provider sends. It must have begun the login here, and have its cookie.
func (s *Server) finish(ctx context.Context, v *visit) (answer, error) {
	query := v.url.Query()
	got := query.Get("state")
	if len(got) < nameSize {
		return refuse(http.StatusBadRequest, "the login has no state: "+again), nil
	}
	name := login.LoginCookie + got[:nameSize]
	var begun state
	if !v.open(v.loginBinding(), v.logins[name], &begun) || subtle.ConstantTimeCompare([]byte(got), []byte(begun.State)) != 1 || !v.now.Before(begun.Until) {
		return refuse(http.StatusBadRequest, "the login was not begun by this browser, took too long, or has ended: "+again), nil
	}
	forget := forgotten(name)
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
