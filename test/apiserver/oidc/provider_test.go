package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const clientSecret = "of the client"

// provider is an OpenID provider, behind a server that can be down.
type provider struct {
	issuer string
	// form is a script for the page where users log in.
	form string
	// isDown says that nobody gets an answer.
	isDown atomic.Bool
	// isSilent says that it issues no ID token.
	isSilent atomic.Bool
	// exchanges are how often the client asked for tokens, logouts how often users whom it named logged out.
	exchanges, logouts atomic.Int32
}

// startProvider starts the provider of a module.
func startProvider(t *testing.T, authority *certtest.Authority, module string, args ...string) *provider {
	t.Helper()
	own := testenv.OwnAddress(t)
	address := net.JoinHostPort("127.0.0.1", itoa(haproxytest.FreePort(t)))
	d := &provider{}
	to := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	to.ModifyResponse = func(answer *http.Response) error { return errors.Join(d.silence(answer), d.fill(answer)) }
	front := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.isDown.Load() {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path == "/token" {
			_, secret, _ := r.BasicAuth()
			if secret == url.QueryEscape(clientSecret) {
				d.exchanges.Add(1)
			}
		}
		if r.URL.Path == "/end_session" && r.FormValue("id_token_hint") != "" {
			d.logouts.Add(1)
		}
		to.ServeHTTP(w, r)
	}))
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(own, "0")))(t)
	must.Do(t, front.Listener.Close())
	front.Listener = listener
	pair := authority.Issue(t, nil, certtest.Addresses(net.ParseIP(own)))
	front.TLS = tlsConfig(t, pair)
	front.StartTLS()
	t.Cleanup(front.Close)
	d.issuer = front.URL
	running := testenv.Start(t, []string{"CLIENT_SECRET=" + clientSecret}, testbuild.Program(t, module), append(args, "-address="+address, "-issuer="+d.issuer)...)
	testenv.Eventually(t, soon, "the provider to answer", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.issuer+"/.well-known/openid-configuration", nil)
		if err != nil {
			return err
		}
		response, err := front.Client().Do(request)
		if err != nil {
			return errors.Join(err, running.Running())
		}
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return errors.Join(err, response.Body.Close())
	})
	return d
}

// silence takes the ID token out of an answer.
func (d *provider) silence(answer *http.Response) error {
	if answer.Request.URL.Path != "/token" || !d.isSilent.Load() {
		return nil
	}
	var all map[string]any
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		return err
	}
	delete(all, "id_token")
	text, err := json.Marshal(all)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	answer.Header.Del("Content-Length")
	return err
}

// fill adds the script to the page where users log in.
func (d *provider) fill(answer *http.Response) error {
	if answer.Request.URL.Path != "/login/username" || answer.Request.Method != http.MethodGet {
		return nil
	}
	page, err := io.ReadAll(answer.Body)
	page = append(page, d.form...)
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(page)), int64(len(page))
	answer.Header.Del("Content-Length")
	return err
}
