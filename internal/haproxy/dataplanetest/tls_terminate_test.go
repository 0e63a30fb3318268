package dataplanetest_test

import (
	"crypto/tls"
	"slices"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
)

const terminateWorld = `
spec:
  listeners:
    - {name: db, port: 5432, protocol: TLS, hostname: db.example.com, tls: {certificateRefs: [{name: db}]}}
    - {name: partners, port: 5432, protocol: TLS, hostname: partners.example.com, tls: {certificateRefs: [{name: partners}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: lost, port: 5432, protocol: TLS, hostname: lost.example.com, tls: {certificateRefs: [{name: missing}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: any, port: 5432, protocol: TLS, tls: {certificateRefs: [{name: any}], minVersion: TLSv1.3}}
    - {name: dead, port: 5433, protocol: TLS, tls: {certificateRefs: [{name: missing}]}}
  tcpRoutes:
    - {name: db, listeners: [db], rules: [{backendRefs: [{name: db, port: 80}]}]}
    - {name: partners, listeners: [partners, lost], rules: [{backendRefs: [{name: partners, port: 80}]}]}
    - {name: any, listeners: [any, dead], rules: [{backendRefs: [{name: any, port: 80}]}]}
backends:
  - {service: db, port: 80, servers: ["127.0.0.1:1"]}
  - {service: partners, port: 80, servers: ["127.0.0.1:1"]}
  - {service: any, port: 80, servers: ["127.0.0.1:1"]}
certificates:
  db: [{secret: db, names: [db.example.com]}]
  partners: [{secret: partners, names: [partners.example.com]}]
  any: [{secret: any, names: [any.example.com, "*.example.com"]}]
authorities: {ca: PEM}
`

// TestTerminate: a listener of protocol TLS opens TLS with its certificates, and what is inside goes to the Service of
// its TCP route. Who does not get that listener's certificate, or has to show one and does not, gets no further.
func TestTerminate(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	g := startGatewayWith(t, rendertest.Parse(t, terminateWorld), func(in *render.Input) {
		in.Paths.CertificateDir = t.TempDir()
		in.Authorities["ca"] = ca.PEM
		for _, certificates := range in.Certificates {
			for _, c := range certificates {
				writeSecret(t, in.Paths, c.Secret, ca.Issue(t, c.Names))
			}
		}
		for _, name := range []string{"db", "partners", "any"} {
			server := startEcho(t, name, nil)
			in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{server}}
		}
	})
	client := []tls.Certificate{pair(t, ca, "client")}
	for name, test := range map[string]struct {
		config *tls.Config
		want   string // the Service; "" if the connection comes to nothing
	}{
		"a listener's name":                       {&tls.Config{ServerName: "db.example.com"}, "db"},
		"TLS 1.2":                                 {&tls.Config{ServerName: "db.example.com", MaxVersion: tls.VersionTLS12}, "db"},
		"another protocol inside":                 {&tls.Config{ServerName: "db.example.com", NextProtos: []string{"postgresql"}}, "db"},
		"a name of no other listener":             {&tls.Config{ServerName: "any.example.com"}, "any"},
		"no name":                                 {&tls.Config{InsecureSkipVerify: true}, "any"},
		"TLS 1.2 where 1.3 is wanted":             {&tls.Config{ServerName: "any.example.com", MaxVersion: tls.VersionTLS12}, ""},
		"a client certificate that is asked for":  {&tls.Config{ServerName: "partners.example.com", Certificates: client}, "partners"},
		"no client certificate":                   {&tls.Config{ServerName: "partners.example.com"}, ""},
		"a listener without a certificate":        {&tls.Config{ServerName: "lost.example.com", Certificates: client}, ""},
		"the same, and nothing asked of a client": {&tls.Config{ServerName: "lost.example.com"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := test.config.Clone()
			config.RootCAs = ca.Pool()
			lines, err := talk(t, tls.Client(dial(t, g.ports[5432]), config), "hello", 2)
			switch {
			case test.want == "" && (err == nil || len(lines) > 0):
				t.Errorf("got %q, want no connection", lines)
			case test.want != "" && !slices.Equal(lines, []string{test.want, "hello"}):
				t.Errorf("got %q and %v, want %s", lines, err, test.want)
			}
		})
	}
	if _, err := talk(t, dial(t, g.ports[5432]), "hello", 1); err == nil {
		t.Error("a connection in clear text gets an answer")
	}
}
