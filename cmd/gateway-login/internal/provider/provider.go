// Package provider talks to OpenID providers.
package provider

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"gateway/internal/jwks"
)

const (
	// keepTime is how long the metadata of a provider count, and failTime how long a provider is not asked again that
	// did not answer.
	keepTime, failTime = time.Minute, 2 * time.Second
	// maxKept bounds how many providers are known.
	maxKept = 64
)

// RefusedError is why a provider refuses something. All other errors mean that it did not answer as it should.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return "the provider refuses it: " + e.Reason }

// Provider is one that has answered.
type Provider struct {
	// Issuer is its name.
	Issuer string
	// EndSession is where it logs users out; "": nowhere.
	EndSession string

	oidc     *oidc.Provider
	endpoint oauth2.Endpoint
	client   *http.Client
}

// Client is what a provider knows a client by, and what the client asks for.
type Client struct {
	ID, Secret, Redirect string
	Scopes               []string
}

// Tokens are what a provider issued.
type Tokens struct {
	// ID is "" if it issued none.
	ID, Access, Refresh string
	// Subject and Claims are those of the ID token, and End is when it ends.
	Subject string
	Claims  map[string]json.RawMessage
	End     time.Time
	// AccessEnd is when the access token ends; zero: nobody says.
	AccessEnd time.Time
}

// Providers are those that are known. They ask a provider for its metadata when those they have are old.
type Providers struct {
	// NewClient makes the client for a provider that is verified by CA certificates (PEM); nil: jwks.NewHTTPClient.
	NewClient func(authorities string) *http.Client

	mu  sync.Mutex
	all map[string]*entry
}

type entry struct {
	mu       sync.Mutex
	until    time.Time
	provider *Provider
	err      error
}

// Find returns the provider of a name, verified by CA certificates (PEM).
func (p *Providers) Find(issuer string, authorities []byte) (*Provider, error) {
	key := issuer + "\n" + string(authorities)
	p.mu.Lock()
	if len(p.all) >= maxKept && p.all[key] == nil || p.all == nil {
		p.all = map[string]*entry{}
	}
	if p.all[key] == nil {
		p.all[key] = &entry{}
	}
	e := p.all[key]
	p.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Now().Before(e.until) {
		return e.provider, e.err
	}
	e.provider, e.err = discover(issuer, p.client(authorities))
	e.until = time.Now().Add(keepTime)
	if e.err != nil {
		e.until = time.Now().Add(failTime)
	}
	return e.provider, e.err
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
		return nil, fmt.Errorf("failed to get the metadata of provider %s: %w", issuer, err)
	}
	var metadata struct {
		EndSession  string   `json:"end_session_endpoint"`
		AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := p.oidc.Claims(&metadata); err != nil {
		return nil, fmt.Errorf("failed to read the metadata of provider %s: %w", issuer, err)
	}
	p.endpoint = p.oidc.Endpoint()
	if !strings.HasPrefix(p.endpoint.AuthURL, "https://") || !strings.HasPrefix(p.endpoint.TokenURL, "https://") {
		return nil, fmt.Errorf("the metadata of provider %s have no https URLs", issuer)
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

// LogoutURL returns where a user logs out, who comes back to another URL then. The ID token says who it is; "": nobody
// does.
func (p *Provider) LogoutURL(client, idToken, back string) string {
	to, err := url.Parse(p.EndSession)
	if err != nil {
		return back
	}
	query := to.Query()
	query.Set("client_id", client)
	query.Set("post_logout_redirect_uri", back)
	if idToken != "" {
		query.Set("id_token_hint", idToken)
	}
	to.RawQuery = query.Encode()
	return to.String()
}

func (p *Provider) config(client Client) *oauth2.Config {
	return &oauth2.Config{
		ClientID: client.ID, ClientSecret: client.Secret, RedirectURL: client.Redirect, Endpoint: p.endpoint,
		Scopes: append([]string{oidc.ScopeOpenID}, client.Scopes...),
	}
}

// LoginURL returns where a user logs in.
func (p *Provider) LoginURL(client Client, state, nonce, verifier string) string {
	return p.config(client).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
}

// Exchange returns the tokens for a code.
func (p *Provider) Exchange(ctx context.Context, client Client, code, nonce, verifier string) (Tokens, error) {
	token, err := p.config(client).Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return Tokens{}, explain(err)
	}
	tokens, got, err := p.verify(ctx, client, token)
	switch {
	case err != nil:
		return Tokens{}, err
	case tokens.ID == "":
		return Tokens{}, errors.New("the provider issued no ID token")
	case subtle.ConstantTimeCompare([]byte(got), []byte(nonce)) != 1:
		return Tokens{}, &RefusedError{"the ID token has another nonce"}
	}
	return tokens, nil
}

// Refresh returns new tokens. Providers need not issue another ID token.
func (p *Provider) Refresh(ctx context.Context, client Client, refresh string) (Tokens, error) {
	source := p.config(client).TokenSource(oidc.ClientContext(ctx, p.client), &oauth2.Token{RefreshToken: refresh})
	token, err := source.Token()
	if err != nil {
		return Tokens{}, explain(err)
	}
	tokens, _, err := p.verify(ctx, client, token)
	return tokens, err
}

func (p *Provider) verify(ctx context.Context, client Client, from *oauth2.Token) (tokens Tokens, nonce string, err error) {
	tokens = Tokens{Access: from.AccessToken, Refresh: from.RefreshToken, AccessEnd: from.Expiry}
	tokens.ID, _ = from.Extra("id_token").(string)
	if tokens.ID == "" {
		return tokens, "", nil
	}
	verified, err := p.oidc.Verifier(&oidc.Config{ClientID: client.ID}).Verify(oidc.ClientContext(ctx, p.client), tokens.ID)
	if err != nil {
		return Tokens{}, "", fmt.Errorf("the ID token is not valid: %w", err)
	}
	if err := verified.Claims(&tokens.Claims); err != nil {
		return Tokens{}, "", fmt.Errorf("failed to read the ID token: %w", err)
	}
	var party string
	if azp := tokens.Claims["azp"]; azp != nil && (json.Unmarshal(azp, &party) != nil || party != client.ID) {
		return Tokens{}, "", errors.New("the ID token is for another client (azp)")
	}
	if verified.AccessTokenHash != "" {
		if err := verified.VerifyAccessToken(tokens.Access); err != nil {
			return Tokens{}, "", fmt.Errorf("the access token is not that of the ID token: %w", err)
		}
	}
	tokens.Subject, tokens.End = verified.Subject, verified.Expiry
	return tokens, verified.Nonce, nil
}

// explain returns a RefusedError if the provider answered that it refuses something.
func explain(err error) error {
	var answer *oauth2.RetrieveError
	if errors.As(err, &answer) && answer.Response != nil && answer.Response.StatusCode >= 400 && answer.Response.StatusCode < 500 &&
		answer.Response.StatusCode != http.StatusTooManyRequests && answer.ErrorCode != "invalid_client" && answer.ErrorCode != "unauthorized_client" {
		return &RefusedError{answer.ErrorCode}
	}
	return err
}
