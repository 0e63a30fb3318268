package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/keystream/keystreamtest"
	"gateway/internal/passwords"
)

// tlsRig is a rig with an HTTPS port, and with the volumes of a pod: what kubelet mounts, and what a Keeper makes of
// the Secrets.
type tlsRig struct {
	*rig
	authority            *certtest.Authority
	secrets, authorities *certtest.Volume
	// pairsDir and shownDir hold what the Keeper makes of the Secrets, for HAProxy and for the agent.
	pairsDir, shownDir string
	httpsPort          int32
	// users are what the Keeper has of users.
	users      *passwords.Checker
	stopKeeper func()
	// server has the Secrets and ConfigMaps, nil: kubelet mounts them. keptDirs are what the Keeper keeps of it.
	server   *keystreamtest.Server
	keptDirs [2]string
}

// useKeyServer gives the rig Secrets and ConfigMaps from a key server.
func (r *tlsRig) useKeyServer() {
	r.t.Helper()
	r.server, r.keptDirs = keystreamtest.New(r.t), [2]string{r.t.TempDir(), r.t.TempDir()}
	authorities := r.t.TempDir()
	r.options.Mounts = Mounts{CertificatesDir: r.shownDir, AuthoritiesDir: authorities, KeyServer: true}
}

// newTLSRig returns a rig in which everything is there that a Gateway with HTTPS needs, and nothing runs; these Secrets
// are mounted.
func newTLSRig(t testing.TB, secrets ...string) *tlsRig {
	t.Helper()
	r := &tlsRig{rig: newRig(t), authority: certtest.NewAuthority(t), httpsPort: haproxytest.FreePort(t), users: passwords.NewChecker()}
	r.secrets, r.authorities = certtest.NewVolume(t), certtest.NewVolume(t)
	r.pairsDir, r.shownDir = t.TempDir(), t.TempDir()
	r.options.Paths.CertificateDir = r.pairsDir
	r.options.Paths.KeysSocket = filepath.Join(r.options.Paths.RunDir, "keys.sock")
	r.options.Mounts = Mounts{
		CertificatesDir: r.shownDir, AuthoritiesDir: r.authorities.Dir, Secrets: secrets, ConfigMaps: []string{"staff"},
	}
	r.createService("api")
	r.createSlice("api", "one", newEndpoint(t, "one"))
	return r
}

// startKeeper starts a Keeper, which stops with the test at the latest.
func (r *tlsRig) startKeeper() {
	k := keeper.Keeper{
		Secrets: r.secrets.Dir, Pairs: r.pairsDir, Certificates: r.shownDir, HAProxy: runtime.NewWorker(r.options.Paths.KeysSocket).Exclusively(r.shownDir),
		Users: r.users, ConfigDir: filepath.Dir(r.options.Paths.ConfigDir),
	}
	if r.server != nil {
		k.Server, k.Secrets, k.Logins, k.Authorities = r.server.Client, r.keptDirs[0], r.keptDirs[1], r.options.Mounts.AuthoritiesDir
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	r.stopKeeper = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Keeper: %v", err)
		}
	})
	r.t.Cleanup(r.stopKeeper)
}

// start starts the Keeper, the agent and HAProxy and waits until the pod is ready.
func (r *tlsRig) start(spec appv1.GatewaySpec) {
	r.t.Helper()
	r.startKeeper()
	r.createGateway(spec)
	r.startAgent()
	r.startHAProxy()
	r.eventually("the pod is ready", r.agent.probes.ready)
}

// put makes a Secret, or changes it.
func (r *tlsRig) put(secret string, pair certtest.Pair) {
	r.t.Helper()
	r.secrets.PutPair(secret, pair)
}

// https is an HTTPS listener.
func (r *tlsRig) https(name, hostname string, secrets ...string) appv1.Listener {
	listener := appv1.Listener{
		Name: appv1.Name(name), Port: r.httpsPort, Protocol: appv1.ProtocolHTTPS, Hostname: appv1.Hostname(hostname), TLS: &appv1.ListenerTLS{},
	}
	for _, secret := range secrets {
		listener.TLS.CertificateRefs = append(listener.TLS.CertificateRefs, appv1.ObjectReference{Name: secret})
	}
	return listener
}

func (r *tlsRig) tlsSpec(listeners ...appv1.Listener) appv1.GatewaySpec {
	spec := r.spec("api")
	spec.Listeners = append(spec.Listeners, listeners...)
	return spec
}

// shown returns the certificate that a client gets who asks for a name and takes no other.
func (r *tlsRig) shown(serverName string, suites ...uint16) (tls.ConnectionState, error) {
	config := &tls.Config{RootCAs: r.authority.Pool(), ServerName: serverName, CipherSuites: suites}
	if len(suites) > 0 {
		config.MaxVersion = tls.VersionTLS12
	}
	connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.httpsPort), config)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer connection.Close() //nolint:errcheck // nothing was sent
	return connection.ConnectionState(), nil
}

// expectShown waits until clients get a certificate.
func (r *tlsRig) expectShown(serverName string, pair certtest.Pair, suites ...uint16) {
	r.t.Helper()
	r.eventually(serverName+" is shown its certificate", func() error {
		state, err := r.shown(serverName, suites...)
		if err == nil && !state.PeerCertificates[0].Equal(pair.Leaf) {
			err = errors.New("it is another one")
		}
		return err
	})
}

// addMore makes an edit that takes a reload: a route with retries.
func (r *tlsRig) addMore(spec appv1.GatewaySpec) {
	r.t.Helper()
	r.createService("more")
	r.createSlice("more", "one", newEndpoint(r.t, "more"))
	route, attempts := r.spec("api", "more").Routes[1], int32(1)
	route.Rules[0].Retry = &appv1.RouteRetry{Attempts: &attempts}
	spec.Routes = append(spec.Routes, route)
	generation := r.edit(spec)
	r.expectBody("/more", "more")
	r.expectReport(generation, "")
}

// keepsShowing makes up to 500 TLS connections a second until the function that it returns is called. All of them must
// succeed.
func (r *tlsRig) keepsShowing(serverName string) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var client sync.WaitGroup
	client.Go(func() {
		pause := time.NewTicker(2 * time.Millisecond)
		defer pause.Stop()
		for ; ctx.Err() == nil; <-pause.C {
			if _, err := r.shown(serverName); err != nil {
				r.t.Errorf("%s went away: %v", serverName, err)
				return
			}
		}
	})
	return func() {
		cancel()
		client.Wait()
	}
}

// client sends requests over TLS to a server name, verifying it.
func (r *tlsRig) client(serverName string) *http.Client {
	return &http.Client{Timeout: timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: r.authority.Pool(), ServerName: serverName},
		DialContext:     (&net.Dialer{}).DialContext,
	}}
}

func (r *tlsRig) getTLS(client *http.Client, host string) error {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d/", r.httpsPort), http.NoBody)
	if err != nil {
		return err
	}
	request.Host = host
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusOK || string(body) != "one") {
		err = fmt.Errorf("got %d %q", response.StatusCode, body)
	}
	return err
}

// expectProblems waits until the pod reports exactly these problems, as "LISTENER KIND/NAME PART OF THE MESSAGE".
func (r *tlsRig) expectProblems(want ...string) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("the problems %q are reported", want), func() error {
		report, err := r.reported()
		if err != nil {
			return err
		}
		var problems []appv1.ProxyProblem
		for _, problem := range report.Problems {
			if problem.Origin.Kind != "Gateway" {
				problems = append(problems, problem)
			}
		}
		for i, problem := range problems {
			words := problem.Listener + " " + problem.Origin.Kind + "/" + problem.Origin.Name + " "
			if i >= len(want) || !strings.HasPrefix(want[i], words) || !strings.Contains(problem.Message, strings.TrimPrefix(want[i], words)) {
				return fmt.Errorf("problems are %+v", problems)
			}
		}
		if len(problems) != len(want) {
			return fmt.Errorf("problems are %+v", problems)
		}
		return nil
	})
}
