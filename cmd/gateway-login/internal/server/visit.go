package server

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"gateway/internal/login"
)

const (
	// maxCookie is how long name and value of a cookie may be together. Browsers ignore one of more than 4,096.
	maxCookie = 4000
	// maxTarget is how long a path may be that a browser comes back to.
	maxTarget = 1500
	// randomSize is the length of random values in bytes. nameSize is the length in characters of the part that names its
	// login.
	randomSize, nameSize = 16, 8
)

// visit is a request that HAProxy asks about.
type visit struct {
	login.Settings

	keys login.Keys
	now  time.Time
	// host is what the client asked for, with its port unless that is 443. target is path and query, as it sent them.
	host, target string
	url          *url.URL
	// isEncrypted reports whether the request came over TLS. isPage reports whether a browser asks for a page, so that a
	// redirect helps. isFromHere reports whether no other site caused the request, as far as the browser tells.
	isEncrypted, isPage, isFromHere bool
	sealedSession, sealedTokens     string
	// logins are the cookies of logins that have not ended, by their names.
	logins map[string]string
}

// hosts are a name or address, with an optional port.
var hosts = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

func readVisit(r *http.Request, settings login.Settings, keys login.Keys, now time.Time) (*visit, error) {
	header := r.Header
	v := &visit{
		Settings: settings, keys: keys, now: now,
		host: strings.TrimSuffix(r.Host, ":443"), target: header.Get("X-Forwarded-Uri"),
		isEncrypted: header.Get("X-Forwarded-Proto") == "https",
		logins:      map[string]string{},
	}
	var err error
	if v.url, err = url.ParseRequestURI(v.target); err != nil {
		return nil, errors.New("HAProxy asks about a request without a URL")
	}
	v.isFromHere = slices.Contains([]string{"", "same-origin", "none"}, header.Get("Sec-Fetch-Site")) && v.isOwn(header.Get("Origin")) && v.isOwn(header.Get("Referer"))
	method, mode := header.Get("X-Forwarded-Method"), header.Get("Sec-Fetch-Mode")
	v.isPage = (method == http.MethodGet || method == http.MethodHead) && (mode == "" || mode == "navigate") &&
		header.Get("X-Requested-With") == "" && strings.Contains(strings.Join(header.Values("Accept"), ","), "text/html")
	v.sealedSession, v.sealedTokens = only(r, login.SessionCookie), only(r, login.TokensCookie)
	for _, cookie := range r.Cookies() {
		if strings.HasPrefix(cookie.Name, login.LoginCookie) {
			v.logins[cookie.Name] = cookie.Value
		}
	}
	return v, nil
}

// only returns the value of the one cookie of a name, "" if there are none or several.
func only(r *http.Request, name string) string {
	cookies := r.CookiesNamed(name)
	if len(cookies) != 1 {
		return ""
	}
	return cookies[0].Value
}

// hasHost reports whether browsers can come back. HAProxy lets sessions pass without, as of a client of HTTP/1.0.
func (v *visit) hasHost() bool { return hosts.MatchString(v.host) }

// origin is what comes before the path, in URLs of the site.
func (v *visit) origin() string { return "https://" + v.host }

// session returns the session of the request. isLive reports whether it is valid now.
func (v *visit) session() (session login.Session, isLive bool) {
	text, ok := v.keys.Open(login.ForHAProxy, v.SessionBinding(), v.sealedSession)
	if !ok {
		return login.Session{}, false
	}
	session, ok = login.ParseSession(string(text))
	return session, ok && v.now.Before(session.End)
}

// tokens are what TokensCookie has.
type tokens struct {
	// Subject is who the user is, ID and Refresh are tokens.
	Subject, ID, Refresh string
	// Claims is the hash of the claims of the session that they are for.
	Claims []byte
}

func (v *visit) tokens() (t tokens, ok bool) {
	return t, v.open(v.AccountBinding(), v.sealedTokens, &t)
}

// isOwn reports whether the URL of a page is of this site, if there is one.
func (v *visit) isOwn(page string) bool {
	from, err := url.Parse(page)
	return page == "" || err == nil && from.Scheme == "https" && strings.EqualFold(strings.TrimSuffix(from.Host, ":443"), v.host)
}

// state is what the provider hands back, sealed. So each login of a browser has a small cookie, and any page to end at.
type state struct {
	// Cookie is what the cookie of the login has, Target where the browser comes back to.
	Cookie, Nonce, Verifier, Target string
	Until                           time.Time
}

// inURLs and fromURLs change a sealed text to one that has the same spelling in URLs, and back.
var inURLs, fromURLs = strings.NewReplacer("+", "-", "/", "_", "=", "~"), strings.NewReplacer("-", "+", "_", "/", "~", "=")

// loginCookie returns the name of the cookie that has a text.
func loginCookie(text string) string { return login.LoginCookie + text[len(text)-nameSize:] }

// loginBinding binds a login to its host.
func (v *visit) loginBinding() string { return "begun " + v.AccountBinding() + " " + v.host }

// open decrypts what seal encrypted.
func (v *visit) open(binding, sealed string, to any) bool {
	text, ok := v.keys.Open(login.ForLogin, binding, sealed)
	return ok && json.Unmarshal(text, to) == nil
}

func (v *visit) seal(binding string, from any) string {
	text, err := json.Marshal(from)
	if err != nil {
		panic(err) // which it does for no texts and times
	}
	return v.keys.Seal(login.ForLogin, binding, text)
}

// cookie returns one that no script and no other site gets. It ends with the browser's session, unless it has an age.
func cookie(name, value string, age time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode, MaxAge: int(age / time.Second),
	}
}

// forgotten returns a cookie that the browser forgets.
func forgotten(name string) *http.Cookie { return cookie(name, "", -time.Second) }

// fits reports whether browsers take a cookie.
func fits(cookie *http.Cookie) bool { return len(cookie.Name)+len("=")+len(cookie.Value) <= maxCookie }

// random returns a text that nobody can guess.
func random() string {
	b := make([]byte, randomSize)
	_, _ = rand.Read(b) // which never fails
	return base64.RawURLEncoding.EncodeToString(b)
}
