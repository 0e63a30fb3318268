// Package server answers HAProxy's questions about requests without a session that is good for them: it sends users to
// their provider, takes them when they come back, and renews and ends sessions. It stores nothing: what it has to know
// is in the question, in cookies and in Secrets.
package server

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gateway/cmd/gateway-login/internal/provider"
	"gateway/internal/certificates"
	"gateway/internal/logging"
	"gateway/internal/login"
	"gateway/internal/systemroots"
)

// answerTime is how long an answer may take. HAProxy waits longer.
const answerTime = 12 * time.Second

// Server answers questions.
type Server struct {
	// Secrets has SECRET/client-secret, SECRET/issuer and SECRET/session-keys, Authorities has CONFIGMAP/ca.crt.
	Secrets, Authorities string

	providers provider.Providers
	renewals  renewals
	tries     tries
}

// answer is what becomes of a request.
type answer struct {
	// status is what the client gets; 200: the request passes, with this session.
	status  int
	session login.Session
	// location is where a browser goes, text is for people.
	location, text string
	cookies        []*http.Cookie
}

func pass(session login.Session, cookies ...*http.Cookie) answer {
	return answer{status: http.StatusOK, session: session, cookies: cookies}
}

func refuse(status int, text string, cookies ...*http.Cookie) answer {
	return answer{status: status, text: text, cookies: cookies}
}

func redirect(location string, cookies ...*http.Cookie) answer {
	return answer{status: http.StatusFound, location: location, cookies: cookies}
}

// ServeHTTP answers a question.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	got, err := s.decide(ctx, r)
	if err != nil {
		logging.Warningf("A request cannot be decided about: %v", err)
		got = refuse(http.StatusServiceUnavailable, "users cannot log in at the moment")
	}
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	for _, cookie := range got.cookies {
		http.SetCookie(w, cookie)
	}
	if got.location != "" {
		header.Set("Location", got.location)
	}
	if got.status == http.StatusOK {
		header.Set(login.SessionHeader, base64.StdEncoding.EncodeToString([]byte(got.session.Text())))
	}
	header.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(got.status)
	if got.text != "" {
		_, _ = fmt.Fprintln(w, got.text)
	}
}

// decide returns the answer to a question. An error means that there is no verdict.
func (s *Server) decide(ctx context.Context, r *http.Request) (answer, error) {
	v, err := s.newVisit(r)
	if err != nil {
		return answer{}, err
	}
	isCallback, isLogout := v.url.Path == v.Path+login.CallbackPath, v.url.Path == v.Path+login.LogoutPath
	_, isLive := v.session()
	switch {
	case !v.isEncrypted:
		return refuse(http.StatusForbidden, "logins need HTTPS: use https, or let the Gateway trust the proxy that terminates TLS"), nil
	case !v.hasHost() && (isCallback || isLogout || !isLive):
		return answer{}, errors.New("HAProxy asks about a request without a host to come back to")
	case isCallback:
		return s.finish(ctx, v)
	case isLogout:
		return s.logOut(ctx, v), nil
	}
	return s.visit(ctx, v)
}

// visit decides about a request for the backend.
func (s *Server) visit(ctx context.Context, v *visit) (answer, error) {
	session, isLive := v.session()
	if isLive && v.now.Before(session.Renew) {
		return pass(session), nil
	}
	tokens, hasTokens := v.tokens()
	if hasTokens && tokens.Refresh != "" {
		renewed, err := s.renew(ctx, v, session, tokens, isLive)
		var refused *provider.RefusedError
		switch {
		case err == nil:
			return renewed, nil
		case !isLive && !errors.As(err, &refused):
			return answer{}, err
		}
		// Another pod may have renewed it, or the provider is down: a session has its time.
		logging.V(1).Infof("A session is not renewed: %v", err)
	}
	if isLive {
		return pass(session), nil
	}
	return s.begin(ctx, v)
}

// provider returns the provider of a visit.
func (s *Server) provider(ctx context.Context, v *visit) (*provider.Provider, error) {
	var authorities []byte
	if len(v.Authorities) == 0 {
		authorities = systemroots.PEM()
	}
	for _, name := range v.Authorities {
		content, err := os.ReadFile(filepath.Join(s.Authorities, name, certificates.AuthorityFile))
		if err != nil {
			return nil, fmt.Errorf("failed to read the CA certificates of ConfigMap %s: %w", name, err)
		}
		authorities = append(append(authorities, content...), '\n')
	}
	return s.providers.Find(ctx, v.Issuer, authorities)
}

// logOut ends a session here, and sends the browser to the provider to end it there, too. Other sites cannot do so.
func (s *Server) logOut(ctx context.Context, v *visit) answer {
	if !v.isFromHere {
		return refuse(http.StatusForbidden, "another site asks for the logout: log out from a page of this one")
	}
	forget := []*http.Cookie{forgotten(login.SessionCookie), forgotten(login.TokensCookie)}
	home := v.origin() + v.LoggedOutPath
	known, err := s.provider(ctx, v)
	if err != nil || known.EndSession == "" {
		return redirect(home, forget...)
	}
	tokens, _ := v.tokens()
	return redirect(known.LogoutURL(v.ClientID, tokens.ID, home), forget...)
}

// client returns the client's registration at the provider of a visit. The Secret has to name that provider.
func (s *Server) client(v *visit) (provider.Client, error) {
	issuer, _ := s.secret(v.Settings, certificates.IssuerFile) // which is a problem, too
	if problem := login.IssuerProblem(issuer, v.Issuer); problem != "" {
		return provider.Client{}, fmt.Errorf("failed to use Secret %s: %s", v.Secret, problem)
	}
	content, err := s.secret(v.Settings, certificates.ClientSecretFile)
	if err != nil {
		return provider.Client{}, err
	}
	return provider.Client{
		ID: v.ClientID, Secret: strings.TrimSpace(string(content)), Redirect: v.origin() + v.Path + login.CallbackPath, Scopes: v.Scopes,
	}, nil
}

// known returns the provider of a visit, and the client's registration there.
func (s *Server) known(ctx context.Context, v *visit) (*provider.Provider, provider.Client, error) {
	client, err := s.client(v)
	if err != nil {
		return nil, provider.Client{}, err
	}
	known, err := s.provider(ctx, v)
	return known, client, err
}

// secret reads a key of a Secret.
func (s *Server) secret(settings login.Settings, key string) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(s.Secrets, settings.Secret, key))
	if err != nil {
		return nil, fmt.Errorf("failed to read Secret %s: %w", settings.Secret, err)
	}
	return content, nil
}

// newVisit reads a question.
func (s *Server) newVisit(r *http.Request) (*visit, error) {
	settings, err := login.ParseQuestion(r.URL.Path)
	if err != nil {
		return nil, fmt.Errorf("failed to read a question: %w", err)
	}
	content, err := s.secret(settings, certificates.SessionKeysFile)
	if err != nil {
		return nil, err
	}
	keys, problem := login.ParseKeys(content)
	if len(keys) == 0 {
		return nil, fmt.Errorf("failed to use Secret %s: %s", settings.Secret, problem)
	}
	return readVisit(r, settings, keys, time.Now())
}
