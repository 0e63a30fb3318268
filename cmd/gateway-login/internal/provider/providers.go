package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"gateway/internal/jwks"
	"gateway/internal/logging"
)

const (
	// keepTime is how long the metadata of a provider count, and failTime how long a provider is not asked again that
	// did not answer.
	keepTime, failTime = time.Minute, 2 * time.Second
	// waitTime is how long somebody waits for the metadata of a provider that has not answered yet.
	waitTime = 2 * time.Second
	// maxKept bounds how many providers are known, and maxTurns how many requests wait for one of them: the others go on
	// while it hangs.
	maxKept, maxTurns = 64, 64
)

var (
	errBusy   = fmt.Errorf("%d requests wait for the provider", maxTurns)
	errSilent = errors.New("the provider has not answered yet")
)

// turns bounds how many requests wait for a provider.
type turns chan struct{}

// take reports whether there is one left.
func (t turns) take() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

func (t turns) give() { <-t }

// Providers are those that are known. They ask a provider for its metadata when those they have are old. Nobody waits
// for that if there are any: the old ones count until it answers.
type Providers struct {
	// NewClient makes the client for a provider that is verified by CA certificates (PEM); nil: jwks.NewHTTPClient.
	NewClient func(authorities string) *http.Client

	mu  sync.Mutex
	all map[string]*entry
}

// entry is a provider. Providers.mu is for all of it.
type entry struct {
	turns turns
	// provider has the last metadata, nil: there are none. err is why the last question for them failed.
	provider *Provider
	err      error
	// until is when it is asked again, used when somebody wanted it last. asked is closed when the question that is under
	// way ends; nil: there is none.
	until, used time.Time
	asked       chan struct{}
}

// Find returns the provider of a name, verified by CA certificates (PEM).
func (p *Providers) Find(ctx context.Context, issuer string, authorities []byte) (*Provider, error) {
	p.mu.Lock()
	e := p.entry(issuer + "\n" + string(authorities))
	if e.asked == nil && !time.Now().Before(e.until) {
		e.asked = make(chan struct{})
		go p.ask(e, issuer, authorities)
	}
	known, err, asked := e.provider, e.err, e.asked
	p.mu.Unlock()
	switch {
	case known != nil:
		return known, nil
	case asked == nil:
		return nil, err
	case !e.turns.take():
		return nil, errBusy
	}
	defer e.turns.give()
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	select {
	case <-asked:
	case <-ctx.Done():
		return nil, errSilent
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return e.provider, e.err
}

// entry returns the entry of a key. If there are too many, it forgets the least recently used one.
func (p *Providers) entry(key string) *entry {
	if p.all == nil {
		p.all = map[string]*entry{}
	}
	if p.all[key] == nil {
		if len(p.all) >= maxKept {
			oldest := ""
			for other, e := range p.all {
				if oldest == "" || e.used.Before(p.all[oldest].used) {
					oldest = other
				}
			}
			delete(p.all, oldest)
		}
		p.all[key] = &entry{turns: make(turns, maxTurns)}
	}
	p.all[key].used = time.Now()
	return p.all[key]
}

// ask asks a provider for its metadata.
func (p *Providers) ask(e *entry, issuer string, authorities []byte) {
	got, err := discover(issuer, p.client(authorities))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && e.err == nil {
		logging.Warningf("%v", err)
	}
	e.err, e.until = err, time.Now().Add(failTime)
	if err == nil {
		e.provider, e.until = got, time.Now().Add(keepTime)
		got.turns = e.turns
	}
	close(e.asked)
	e.asked = nil
}

func (p *Providers) client(authorities []byte) *http.Client {
	if p.NewClient != nil {
		return p.NewClient(string(authorities))
	}
	return jwks.NewHTTPClient(string(authorities))
}

// discover asks for metadata. The client bounds how long that takes.
func discover(issuer string, client *http.Client) (*Provider, error) {
	p := &Provider{Issuer: issuer, client: client}
	var err error
	// The provider fetches its keys by this context later.
	if p.oidc, err = oidc.NewProvider(oidc.ClientContext(context.Background(), p.client), issuer); err != nil {
		return nil, fmt.Errorf("failed to get the metadata of provider %s: %s", issuer, reason(err))
	}
	var metadata struct {
		EndSession  string   `json:"end_session_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
		Keys        string   `json:"jwks_uri"`
		NamesItself bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := p.oidc.Claims(&metadata); err != nil {
		return nil, fmt.Errorf("failed to read the metadata of provider %s: %s", issuer, reason(err))
	}
	p.endpoint, p.NamesItself = p.oidc.Endpoint(), metadata.NamesItself
	for _, url := range []string{p.endpoint.AuthURL, p.endpoint.TokenURL, metadata.Keys} {
		if !strings.HasPrefix(url, "https://") {
			return nil, fmt.Errorf("the metadata of provider %s lack an https URL for logins, tokens or keys", issuer)
		}
	}
	if strings.HasPrefix(metadata.EndSession, "https://") {
		p.EndSession = metadata.EndSession
	}
	p.endpoint.AuthStyle = oauth2.AuthStyleInHeader
	if methods := metadata.AuthMethods; len(methods) > 0 && !slices.Contains(methods, "client_secret_basic") {
		p.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return p, nil
}
