package login

import (
	"strconv"
	"strings"
	"time"
)

// The names of cookies. Browsers take cookies with these names over HTTPS alone, for one host, and from that host.
const (
	CookiePrefix  = "__Host-gateway-"
	SessionCookie = CookiePrefix + "session"
	TokensCookie  = CookiePrefix + "tokens"
	// LoginCookie comes before the name of a login.
	LoginCookie = CookiePrefix + "login-"
)

// SessionHeader is the header by which gateway-login tells HAProxy of the session of a request: its text, in Base64.
const SessionHeader = "gateway-session"

// Session is what SessionCookie has.
type Session struct {
	// End is when it ends, and Renew when it should be renewed; equal if it cannot be.
	End, Renew time.Time
	// Token is for the backend, "" if it gets none.
	Token string
	// Claims are what the ID token says, as HAProxy's rules for tokens read it: see internal/haproxy/filters/claims.go.
	Claims string
}

// Text returns the session as HAProxy reads it.
func (s Session) Text() string {
	return strings.Join([]string{strconv.FormatInt(s.End.Unix(), 10), strconv.FormatInt(s.Renew.Unix(), 10), s.Token, s.Claims}, "|")
}

// ParseSession reads what Text returned.
func ParseSession(text string) (s Session, ok bool) {
	parts := strings.SplitN(text, "|", 4)
	if len(parts) != 4 {
		return Session{}, false
	}
	end, endErr := strconv.ParseInt(parts[0], 10, 64)
	renew, renewErr := strconv.ParseInt(parts[1], 10, 64)
	return Session{time.Unix(end, 0), time.Unix(renew, 0), parts[2], parts[3]}, endErr == nil && renewErr == nil
}
