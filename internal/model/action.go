package model

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// Action is what happens to the requests of a rule.
type Action struct {
	// Refused is why it cannot be done, so that the requests are answered with 500; "": it can.
	Refused string
	// Timeout is how long an attempt may take until the answer begins; 0: the default, negative: any time.
	Timeout time.Duration
	// Once reports whether a request which an endpoint has taken is not sent to another one, since its time is for all
	// attempts together.
	Once bool
	// Retry says when a request is tried again; nil: the default.
	Retry *Retry
	// Affinity keeps clients on an endpoint; nil: it does not.
	Affinity *Affinity
	// MaxBody is the size of the largest request body in bytes; nil: any.
	MaxBody *int64
	// Headers is what happens to headers on the way.
	Headers HeaderChanges
	// HeaderVariables tell the backend what the proxy knows of a request, sorted by name.
	HeaderVariables []HeaderVariable
	// Rewrite is another host or path for the backend; nil: none.
	Rewrite *Rewrite
	// PathRegex changes the path by a regular expression, that for the backend or for a redirect; nil: it does not.
	PathRegex *PathRegex
	// Redirect answers the request; nil: it does not.
	Redirect *Redirect
	// Response answers the request; nil: it does not.
	Response *Response
	// CORS sets which pages may use the rule; nil: the rule does not restrict them.
	CORS *CORS
	// Clients says which clients have access; nil: all.
	Clients *Clients
	// RateLimits bound requests, each for a period of its own, the shortest first; none: they are not bounded.
	RateLimits []RateLimit
	// BasicAuth asks for a user and a password; nil: nobody does.
	BasicAuth *BasicAuth
	// APIKey asks for a key of a client; nil: nobody does.
	APIKey *APIKey
	// JWT says which tokens let requests through; nil: none is needed.
	JWT *JWT
	// OIDC lets users through who have logged in; nil: nobody has to.
	OIDC *OIDC
	// Authorization says which requests are let through; nil: all.
	Authorization *Authorization
	// ExternalAuth has a Service decide about requests; nil: none does.
	ExternalAuth *ExternalAuth
	// PreRouting has a Service decide about the requests of a listener before a rule is chosen; nil: none does. All rules
	// of the listener have the same.
	PreRouting *PreRouting
	// WAF refuses requests that look like attacks; nil: nobody looks.
	WAF *WAF
	// Shadow are what decides about requests, but lets all of them through. There are no others than the action has, of
	// those that Guards returns.
	Shadow []string
	// Mandatory are the filters of a listener that rules do not replace.
	Mandatory []Mandatory
	// Overrides replace errors of backends.
	Overrides []Override
	// Bandwidth limits the speed of bodies; nil: it does not.
	Bandwidth *Bandwidth
	// Answers replaces what answers of backends say about addresses; nil: it does not.
	Answers *AnswerRewrite
	// Mirrors get copies of requests.
	Mirrors []Mirror
	// Cache reports whether stored answers to earlier requests may be used.
	Cache bool
}

// Guards returns what may refuse requests, as users call it: types of filters, and maxRequestBytes.
func (a *Action) Guards() []string {
	var all []string
	for _, guard := range []struct {
		name  string
		isSet bool
	}{
		{"ClientAddress", a.Clients != nil}, {"RateLimit", len(a.RateLimits) > 0}, {"BasicAuth", a.BasicAuth != nil},
		{"APIKey", a.APIKey != nil}, {"JWT", a.JWT != nil}, {"OIDC", a.OIDC != nil}, {"Authorization", a.Authorization != nil}, {"maxRequestBytes", a.MaxBody != nil}, {"ExternalAuth", a.ExternalAuth != nil},
		{"WAF", a.WAF != nil},
	} {
		if guard.isSet {
			all = append(all, guard.name)
		}
	}
	return all
}

// Shadows reports whether a guard of the action lets requests through that it would have refused.
func (a *Action) Shadows(guard string) bool { return slices.Contains(a.Shadow, guard) }

// KnowsUsers reports whether the filters identify users, so that a response may be for one user only.
func (a *Action) KnowsUsers() bool {
	return a.BasicAuth != nil || a.APIKey != nil || a.JWT != nil || a.OIDC != nil || a.ExternalAuth != nil || a.PreRouting != nil
}

// With returns the action with the filters of a listener, nil if it has none. A filter of the action itself replaces
// the one of the listener. An action with BasicAuth, APIKey, JWT or OIDC has none of the listener's. Header changes
// of the action come after the changes of the listener. Mandatory filters are not replaced.
func (a *Action) With(filters *Action) *Action {
	if filters == nil {
		return a
	}
	own := *a
	own.add(filters)
	return &own
}

// add adds the filters of a listener to an action, as With does.
func (a *Action) add(filters *Action) {
	a.obey(filters)
	own := a.Guards()
	a.Shadow = slices.Clone(a.Shadow)
	for _, guard := range filters.Shadow {
		if !slices.Contains(own, guard) {
			a.Shadow = append(a.Shadow, guard)
		}
	}
	a.Refused = cmp.Or(a.Refused, filters.Refused)
	a.Headers = filters.withHeaders(a.Headers)
	if len(a.RateLimits) == 0 {
		a.RateLimits = filters.RateLimits
	}
	if len(a.HeaderVariables) == 0 {
		a.HeaderVariables = filters.HeaderVariables
	}
	if a.BasicAuth == nil && a.APIKey == nil && a.JWT == nil && a.OIDC == nil {
		a.BasicAuth, a.APIKey, a.JWT, a.OIDC = filters.BasicAuth, filters.APIKey, filters.JWT, filters.OIDC
	}
	a.MaxBody = cmp.Or(a.MaxBody, filters.MaxBody)
	a.CORS = cmp.Or(a.CORS, filters.CORS)
	a.Clients = cmp.Or(a.Clients, filters.Clients)
	a.Authorization = cmp.Or(a.Authorization, filters.Authorization)
	a.ExternalAuth = cmp.Or(a.ExternalAuth, filters.ExternalAuth)
	a.PreRouting = filters.PreRouting
	a.WAF = cmp.Or(a.WAF, filters.WAF)
	now := a.Guards()
	a.Shadow = slices.DeleteFunc(a.Shadow, func(guard string) bool { return !slices.Contains(now, guard) })
}

// Retry says when a request is tried again.
type Retry struct {
	// Attempts is how often to try again.
	Attempts int32
	// Codes are the statuses to try again after, sorted.
	Codes []int32
}

// Affinity keeps a client on an endpoint by a cookie.
type Affinity struct {
	// Name is what the names of its cookies begin with.
	Name string
	// MaxLife is how long it may be used; 0: any time.
	MaxLife time.Duration
}

// HeaderVariable is a header of the request that tells the backend what the proxy knows.
type HeaderVariable struct {
	// Name is in lower case.
	Name string
	// Variable is what it tells: BackendService, Route, ClientAddress, TLSVersion, TLSServerName or RequestID.
	Variable string
}

// HeaderChanges is what happens to headers of a request and of its answer.
type HeaderChanges struct {
	Request, Response []HeaderChange
}

// HeaderChange is what happens to the headers of one name.
type HeaderChange struct {
	// Name is in lower case.
	Name string
	// Clear reports whether present values are removed first.
	Clear bool
	// Values are added.
	Values []string
}

// Then returns the changes, sorted by name, followed by others.
func Then(changes []HeaderChange, others ...HeaderChange) []HeaderChange {
	changes = slices.Clone(changes)
	for _, other := range others {
		i, found := slices.BinarySearchFunc(changes, other.Name, func(c HeaderChange, name string) int { return cmp.Compare(c.Name, name) })
		switch {
		case !found:
			changes = slices.Insert(changes, i, other)
		case other.Clear:
			changes[i] = other
		default:
			changes[i].Values = slices.Concat(changes[i].Values, other.Values)
		}
	}
	return changes
}

// PathChange is another path.
type PathChange struct {
	// Full is another path as a whole; "" if a prefix is replaced.
	Full string
	// Prefix takes the prefix's place. It has no slash at its end, so "/" is "".
	Prefix string
}

// PathRegex is another path in place of what a regular expression matches.
type PathRegex struct {
	// Pattern is RE2. In Substitution, \1 and so on are its groups.
	Pattern, Substitution string
}

// Rewrite is another host or path.
type Rewrite struct {
	// Hostname is another host; "": none.
	Hostname string
	// Path is another path; nil: none.
	Path *PathChange
}

// Redirect sends the client elsewhere.
type Redirect struct {
	// Status is 301, 302, 303, 307 or 308.
	Status int32
	// Scheme and Hostname replace the request's; "": they do not.
	Scheme, Hostname string
	// Port is the port to name; 0: the port of the scheme if there is one, else the listener's.
	Port int32
	// Path is another path; nil: none.
	Path *PathChange
}

// Response is a fixed answer.
type Response struct {
	Status            int32
	ContentType, Body string
	// Headers are set beside the content type.
	Headers []HeaderChange
}

// Override is what clients get in place of errors of backends: the answer of a Service port, or a text.
type Override struct {
	// Statuses are the statuses of the errors.
	Statuses []int32
	// Status is the one that clients get; 0: the status of the error.
	Status int32
	// Backend is the Service port; the zero value: there is none.
	Backend           Backend
	ContentType, Body string
}

// Bandwidth limits how many bytes of bodies pass in a second; 0: any number.
type Bandwidth struct {
	Request, Response int64
	// MinResponse is how long answers of known length have to be for that.
	MinResponse int64
}

// AnswerRewrite replaces what answers of backends say about addresses.
type AnswerRewrite struct {
	// Location is the beginning of URLs that answers lead to, CookieDomain the domain of cookies, and CookiePath the
	// beginning of their paths.
	Location, CookieDomain, CookiePath Replacement
}

// Replacement is a text in place of another one. The zero value replaces nothing.
type Replacement struct{ From, To string }

// Clients says which clients have access, by their addresses.
type Clients struct {
	// Allow are the ranges with access; empty: all. Deny are the ranges without access, even within Allow. An invalid
	// range stands for one that could not be read. IPv4 ranges are written as IPv4.
	Allow, Deny []netip.Prefix
}

// RateLimit is the number of requests that are let through within a time, or of concurrent requests.
type RateLimit struct {
	// Listener is the name of the listener whose rules count together; "": each rule counts for itself.
	Listener string
	Requests int32
	// Period is a second, a minute or an hour. 0: there may be as many concurrent requests.
	Period time.Duration
	// Key is what requests are counted by. Name is the name of a header, in lower case, or of a cookie, or the path of a
	// claim.
	Key  RateLimitKey
	Name string
}

// RateLimitKey is what requests are counted by.
type RateLimitKey int

// By the address of the client, by a header, by a cookie, by the path, all requests of a rule together, by a claim of
// the token, or by the name of the client.
const (
	ByClientAddress RateLimitKey = iota
	ByHeader
	ByCookie
	ByPath
	ByRule
	ByClaim
	ByClient
)

// BasicAuth asks for a user and a password.
type BasicAuth struct {
	// Secret has the users. It is in the namespace of the data plane.
	Secret string
	// Realm is what browsers show.
	Realm string
	// ClientHeader is the header in which the backend gets the name of the user, in lower case; "": it does not.
	ClientHeader string
}

// APIKey asks for a key of a client.
type APIKey struct {
	// Secret has the keys. It is in the namespace of the data plane.
	Secret string
	// From are where a key may be.
	From CredentialPlaces
	// ClientHeader is the header in which the backend gets the name of the client, in lower case; "": it does not.
	ClientHeader string
}

// CredentialPlaces are where the key or token of a request may be, sorted.
type CredentialPlaces []CredentialPlace

// Want reports whether it may be in a header.
func (p CredentialPlaces) Want(header string) bool {
	return slices.Contains(p, CredentialPlace{InHeader, header})
}

// CredentialPlace is one of them: in the header, parameter or cookie of a name. That of a header is in lower case.
type CredentialPlace struct {
	In   CredentialPlaceType
	Name string
}

// CredentialPlaceType is a part of requests.
type CredentialPlaceType string

// A header, a parameter of the query, and a cookie.
const (
	InHeader CredentialPlaceType = "header"
	InQuery  CredentialPlaceType = "query"
	InCookie CredentialPlaceType = "cookie"
)

// JWT says which tokens let requests through.
type JWT struct {
	// Issuers may have issued a token. Its iss names one of them.
	Issuers []Issuer
	// From are where a token may be.
	From CredentialPlaces
	// Unusable is why the keys cannot be used; "": they can.
	Unusable string
	// Headers tell the backend claims of the token, sorted by name.
	Headers []ClaimHeader
	// Scopes are what a token has to have.
	Scopes []string
	// Claims are what else a token has to have, sorted.
	Claims []RequiredClaim
	// Skew is by how much clocks may differ.
	Skew time.Duration
}

// Issuer issues tokens.
type Issuer struct {
	// Name is the iss of its tokens.
	Name string
	// Audiences are whom a token may be for.
	Audiences []string
	// Keys are sorted by their IDs. KeysFrom is where they are if they are not here; zero: they are.
	Keys     []JWTKey
	KeysFrom KeySource
}

// KeySource is where keys are that tokens are signed with.
type KeySource struct {
	// ConfigMap is the name of that which has them; "": URL has.
	ConfigMap string
	// URL is where the issuer publishes them. Authorities are the names of the ConfigMaps by whose certificates its server
	// is verified, with commas between. Interval is how often they are fetched.
	URL, Authorities string
	Interval         time.Duration
}

// JWTKey is a key that tokens are signed with.
type JWTKey struct {
	// ID is how tokens name it.
	ID string
	// Algorithm is the only one it is used by: RS256, PS512, ES384 and so on.
	Algorithm string
	// PEM is the public key.
	PEM string
}

// RequiredClaim is what a claim has to be: one of the values, or a list with one of them.
type RequiredClaim struct {
	// Claim is the path of the claim, with dots between names.
	Claim  string
	Values []string
}

// ClaimHeader is a header with the value of a claim.
type ClaimHeader struct {
	// Name is the name of the header, in lower case.
	Name string
	// Claim is the path of the claim, with dots between names.
	Claim string
}

// Authorization decides which requests are let through: the first of its rules that a request meets counts. A request
// that meets none is refused.
type Authorization struct{ Rules []AuthorizationRule }

// AuthorizationRule allows or denies requests that meet all of its conditions. Without any, it is for all.
type AuthorizationRule struct {
	Allow            bool
	Methods, Clients []string
	// Paths are as a client may write them. A path below one of them will do, too.
	Paths []string
	// Addresses are ranges, as in Clients.
	Addresses []netip.Prefix
	Claims    []RequiredClaim
}

// MaxAuthBody is the largest ExternalAuth.MaxBody. The proxy has to hold the body while it asks.
const MaxAuthBody = 8192

// ExternalAuth has a Service decide about requests.
type ExternalAuth struct {
	Backend Backend
	// Path is where the Service is asked.
	Path string
	// Timeout is how long its answer may take; 0: any time.
	Timeout time.Duration
	// RequestHeaders are the request's headers that the Service gets, and ResponseHeaders the headers of its answer that
	// the backend gets, in lower case.
	RequestHeaders, ResponseHeaders []string
	// Repeat asks with the method, path and query of the request, the path after Path, and lets it through only with an
	// answer of 200. If ResponseHeaders is empty, the backend gets all headers of the answer.
	Repeat bool
	// MaxBody is how many bytes the body of a request may have, which the Service gets; 0: it does not get it.
	MaxBody int64
	// Cache keeps answers; nil: the Service is asked about each request.
	Cache *AuthCache
}

// PreRouting has a Service decide before a rule is chosen. Rules may match headers of its answer.
type PreRouting struct {
	ExternalAuth
	// Namespace is the namespace of the listener, whose share of the questions under way is bounded.
	Namespace string
}

// AuthCache is how answers of a Service that decides are kept.
type AuthCache struct {
	MaxAge time.Duration
	// Headers, in lower case, and Cookies are what an answer depends on; all that is sent if there are none.
	Headers, Cookies []string
	// Durations are for answers without a lifetime of their own. Of two for one status, the first counts.
	Durations []AuthCacheDuration
}

// AuthCacheDuration is how long an answer with a status is kept.
type AuthCacheDuration struct {
	Status int32
	Keep   time.Duration
}

// Mirror is a backend that gets copies of requests. Its responses are dropped.
type Mirror struct {
	Backend Backend
	// Numerator of Denominator requests are copied.
	Numerator, Denominator int32
}

// CORS says which pages of other origins may use a rule.
type CORS struct {
	// Origins are origins, patterns like https://*.example.com, or "*".
	Origins []string
	// Credentials reports whether requests may carry cookies.
	Credentials bool
	// Methods, Headers and Expose are lists for the headers of the protocol, perhaps "*".
	Methods, Headers, Expose []string
	// MaxAge is for how many seconds a preflight answer may be kept.
	MaxAge int32
}
