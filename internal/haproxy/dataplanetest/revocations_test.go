package dataplanetest_test

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/must"
)

// TestRevokedCertificates: a client certificate that its authority has revoked is as one of somebody else.
func TestRevokedCertificates(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	good, revoked := ca.Issue(t, []string{"good"}), ca.Issue(t, []string{"revoked"})
	g := startTLSWith(t, ca, slices.Concat(ca.PEM, ca.Revoke(t, time.Now().Add(time.Hour), revoked)))
	for name, test := range map[string]struct {
		port   int32
		name   string
		client *certtest.Pair
		status int
		isTold bool
	}{
		"required":                     {443, "partners.example.com", &good, 200, true},
		"required, revoked":            {443, "partners.example.com", &revoked, 0, false},
		"optional":                     {443, "guests.example.com", &good, 200, true},
		"optional, none":               {443, "guests.example.com", nil, 200, false},
		"optional, revoked":            {443, "guests.example.com", &revoked, 0, false},
		"unverified, revoked":          {446, "lax.example.com", &revoked, 200, false},
		"unverified":                   {446, "lax.example.com", &good, 200, true},
		"a listener that does not ask": {443, "a.example.com", &revoked, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			config := &tls.Config{ServerName: test.name, RootCAs: ca.Pool()}
			if test.client != nil {
				pair := must.Get(tls.X509KeyPair(test.client.Certificate, test.client.Key))(t)
				config.Certificates = []tls.Certificate{pair}
			}
			got, err := fetch(httpsClient(t, g.ports[test.port], config), "https://"+test.name, test.name)
			if err != nil && test.status != 0 || got.Status != test.status {
				t.Errorf("got %d, want %d: %v", got.Status, test.status, err)
			}
			if isTold := strings.Contains(got.Body, "Client-Cert: :"); isTold != test.isTold {
				t.Errorf("the backend is told of the certificate: %v", isTold)
			}
		})
	}
}
