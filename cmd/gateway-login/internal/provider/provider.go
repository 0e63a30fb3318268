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
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
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
	// NamesItself reports whether it names itself when it sends a browser back (RFC 9207).
	NamesItself bool

	oidc     *oidc.Provider
	endpoint oauth2.Endpoint
	client   *http.Client
	turns    turns
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
	// Subject and Claims come from the ID token, and End is when it ends.
	Subject string
	Claims  map[string]json.RawMessage
	End     time.Time
	// AccessEnd is when the access token ends; zero: unknown.
	AccessEnd time.Time
}

// LogoutURL returns the URL where a user logs out. The user then comes back to the URL back. idToken identifies the
// user; "": it is unknown.
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
	if !p.turns.take() {
		return Tokens{}, errBusy
	}
	defer p.turns.give()
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
	if !p.turns.take() {
		return Tokens{}, errBusy
	}
	defer p.turns.give()
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
		return Tokens{}, "", errors.New("the ID token is not valid: " + reason(err))
	}
	if err := verified.Claims(&tokens.Claims); err != nil {
		return Tokens{}, "", errors.New("the ID token has claims that cannot be read")
	}
	if verified.Subject == "" {
		return Tokens{}, "", errors.New("the ID token does not name the user (sub)")
	}
	for _, name := range []string{"exp", "iat", "nbf"} {
		if strings.HasPrefix(string(tokens.Claims[name]), `"`) {
			return Tokens{}, "", fmt.Errorf("the ID token has a time that is no number (%s)", name)
		}
	}
	var party string
	if azp := tokens.Claims["azp"]; azp != nil && (json.Unmarshal(azp, &party) != nil || party != client.ID) {
		return Tokens{}, "", errors.New("the ID token is for another client (azp)")
	}
	if verified.AccessTokenHash != "" && verified.VerifyAccessToken(tokens.Access) != nil {
		return Tokens{}, "", errors.New("the access token does not belong to the ID token (at_hash)")
	}
	tokens.Subject, tokens.End = verified.Subject, verified.Expiry
	return tokens, verified.Nonce, nil
}
