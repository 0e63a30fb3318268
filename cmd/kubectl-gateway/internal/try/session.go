package try

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/agent"
	"gateway/internal/backendtls"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	haproxy "gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/model"
	"gateway/internal/passwords"
	"gateway/internal/unixsocket"
	"gateway/internal/volume"
)

const (
	// pollInterval is how often a file or an answer is looked at that is waited for.
	pollInterval = 20 * time.Millisecond
	// stopTimeout is how long HAProxy may take to end.
	stopTimeout = 5 * time.Second
)

// session is a running Gateway.
type session struct {
	*cli.Options
	dir      string
	paths    ir.Paths
	bind     render.Bind
	health   string
	source   *fileSource
	backends *backends
	// secrets and configMaps are their volumes.
	secrets, configMaps string
	objects             *objects
	generation          int64
	log                 *accessLog
	haproxy             *exec.Cmd
	exited              chan error
	// stopAgent ends the agent and returns when it has ended; mounted are the names that it knows.
	stopAgent func()
	mounted   [3][]string
	// helpers are the programs that run beside HAProxy.
	helpers []string
}

// quiet keeps the agent's log from the terminal: its important parts are printed.
var quiet sync.Once

// newSession returns a session of the objects in an empty directory. Built-in backends and gateway-keys run until ctx
// ends.
func newSession(ctx context.Context, options *cli.Options, dir string, o *objects) (*session, error) {
	quiet.Do(func() { _ = errors.Join(flag.Set("stderrthreshold", "FATAL"), flag.Set("log_dir", dir)) })
	metrics, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	health, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	s := &session{
		Options: options, dir: dir,
		paths: ir.Paths{
			ConfigDir: filepath.Join(dir, "config", "current"), RunDir: filepath.Join(dir, "run"),
			CertificateDir: filepath.Join(dir, "pairs"), KeysSocket: filepath.Join(dir, "keys", "keys.sock"), UsersSocket: filepath.Join(dir, "keys", "users.sock"),
			RelaySocket: filepath.Join(dir, "keys", "relay.sock"), LoginSocket: filepath.Join(dir, "keys", "login.sock"), WAFSocket: filepath.Join(dir, "keys", "waf.sock"),
		},
		bind:       render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: metrics},
		health:     fmt.Sprintf("127.0.0.1:%d", health),
		source:     &fileSource{uid: types.UID(dir)},
		backends:   &backends{ctx: ctx, addresses: map[builtIn]netip.AddrPort{}},
		secrets:    filepath.Join(dir, "secrets"),
		configMaps: filepath.Join(dir, "configmaps"),
		log:        newAccessLog(options.Out),
		stopAgent:  func() {},
	}
	for _, sub := range []string{"config", "run", "pairs", "keys", "certificates", "secrets", "configmaps"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("failed to make a directory: %w", err)
		}
	}
	return s, s.apply(o)
}

// freePort returns a port that nothing listens on, and that the kernel gives to no connection: HAProxy binds it a while
// later. Tests replace it, as many of them take ports at a time.
var freePort = func(ctx context.Context) (int32, error) {
	for range 100 {
		port := 20_000 + rand.Int32N(10_000) //nolint:gosec // no secret
		connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = connection.Close()
		} else if errors.Is(err, syscall.ECONNREFUSED) {
			return port, nil
		}
	}
	return 0, errors.New("failed to find a port: something listens on each from 20000 to 29999 that was tried")
}

// apply passes the objects to the agent.
func (s *session) apply(o *objects) error {
	if err := s.backends.complete(o); err != nil {
		return err
	}
	if err := errors.Join(volume.Replace(s.secrets, inVolume(o.secrets)), volume.Replace(s.configMaps, inVolume(o.configMaps))); err != nil {
		return err
	}
	if err := s.startHelpers(s.backends.ctx, o); err != nil {
		return err
	}
	s.objects = o
	s.generation, _ = s.source.set(o)
	return nil
}

// mounts are the names of the Secrets and ConfigMaps that the agent must know, and of the Secrets with users or
// API keys.
func (o *objects) mounts() [3][]string {
	return [3][]string{slices.Sorted(maps.Keys(o.secrets)), slices.Sorted(maps.Keys(o.configMaps)), slices.Sorted(maps.Keys(o.users()))}
}

// users are the names of the Secrets with users or API keys.
func (o *objects) users() map[string]bool {
	users := map[string]bool{}
	add := func(action *model.Action) {
		if action == nil {
			return
		}
		for _, mount := range action.Mounts() {
			if mount.Secret != "" {
				users[mount.Secret] = true
			}
		}
	}
	for i := range o.gateway.Listeners {
		add(o.gateway.Listeners[i].Filters)
	}
	for route := range o.gateway.Routes.Values() {
		for j := range route.Rules {
			add(route.Rules[j].Action)
		}
	}
	return users
}

// inVolume returns the files of objects as a volume has them.
func inVolume(objects map[string]map[string][]byte) map[string][]byte {
	all := map[string][]byte{}
	for name, files := range objects {
		for file, content := range files {
			all[path.Join(name, path.Base(file))] = content
		}
	}
	return all
}

// startAgent starts the agent, in place of the running one.
func (s *session) startAgent(ctx context.Context) error {
	s.stopAgent()
	s.mounted = s.objects.mounts()
	source := s.source.source()
	a, err := agent.New(agent.Options{
		Namespace: s.objects.namespace, Gateway: s.objects.name, Pod: "try", Source: &source,
		Paths: s.paths, Bind: s.bind, HealthAddress: s.health,
		Mounts: agent.Mounts{
			CertificatesDir: filepath.Join(s.dir, "certificates"), AuthoritiesDir: s.configMaps,
			Secrets: s.mounted[0], ConfigMaps: s.mounted[1], Users: s.mounted[2], Keys: true,
		},
		LocalKeys: true,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.Run(ctx); err != nil {
			s.log.say("the agent ended: %v", err)
		}
	})
	s.stopAgent = func() {
		cancel()
		running.Wait()
	}
	return nil
}

// checkPorts returns an error if another program has the port of a listener. HAProxy would share it with another
// HAProxy of the same user.
func (s *session) checkPorts(ctx context.Context) error {
	checked := map[int32]bool{}
	for i := range s.objects.gateway.Listeners {
		port := s.objects.gateway.Listeners[i].Port
		if checked[port] {
			continue
		}
		checked[port] = true
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return fmt.Errorf("listener %s cannot have port %d: %w: stop the program that uses it, or choose another --port-offset",
				s.objects.gateway.Listeners[i].Name, port, errors.Unwrap(err))
		}
		_ = listener.Close() // nothing connected
	}
	return nil
}

// start starts everything, and returns when the Gateway is live.
func (s *session) start(ctx context.Context) error {
	if err := s.checkPorts(ctx); err != nil {
		return err
	}
	if err := s.startAgent(ctx); err != nil {
		return err
	}
	k := keeper.Keeper{
		Secrets: s.secrets, Pairs: s.paths.CertificateDir, Certificates: filepath.Join(s.dir, "certificates"),
		HAProxy: haproxy.NewWorker(s.paths.KeysSocket).Exclusively(filepath.Join(s.dir, "certificates")), Users: passwords.NewChecker(),
	}
	questions, err := unixsocket.Listen(s.paths.UsersSocket)
	if err != nil {
		return err
	}
	connections, err := unixsocket.Listen(s.paths.RelaySocket)
	if err != nil {
		return err
	}
	go func() {
		if err := new(backendtls.Relay).Serve(ctx, connections); err != nil {
			s.log.say("some endpoints get no requests: %v", err)
		}
	}()
	go func() {
		if err := k.Run(ctx); err != nil {
			s.log.say("certificates are not passed on: %v", err)
		}
	}()
	go func() {
		if err := k.Users.Serve(ctx, questions); err != nil {
			s.log.say("passwords are not checked: %v", err)
		}
	}()
	return s.startProxy(ctx)
}

// startProxy starts HAProxy once the agent wrote its configuration, and returns when the Gateway is live.
func (s *session) startProxy(ctx context.Context) error {
	// Programs that go on running have ctx itself.
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	config := filepath.Join(s.paths.ConfigDir, ir.ConfigFile)
	for {
		if _, err := os.Stat(config); err == nil {
			break
		}
		if err := pause(starting); err != nil {
			return fmt.Errorf("the agent wrote no configuration within %s", startTimeout)
		}
	}
	if err := s.startHAProxy(ctx, filepath.Join(s.paths.ConfigDir, ir.LoadFile), config); err != nil {
		return err
	}
	for s.get(starting, "/readyz", nil) != nil {
		select {
		case err := <-s.exited:
			return fmt.Errorf("HAProxy ended: %w: %s", err, s.log.tail())
		default:
		}
		if err := pause(starting); err != nil {
			return fmt.Errorf("the Gateway is not live after %s: %s", startTimeout, s.log.tail())
		}
	}
	return nil
}

func (s *session) startHAProxy(ctx context.Context, files ...string) error {
	var arguments []string
	for _, file := range files {
		arguments = append(arguments, "-f", file)
	}
	arguments = append(arguments, "-W", "-db", "-S", filepath.Join(s.paths.RunDir, "master.sock")+",mode,600")
	var err error
	if s.haproxy, err = cli.HAProxy(ctx, s.dir, arguments...); err != nil {
		return err
	}
	s.haproxy.Stdout, s.haproxy.Stderr = s.log, s.log
	s.haproxy.SysProcAttr = processAttributes()
	started := make(chan error)
	s.exited = make(chan error, 1)
	go func() {
		runtime.LockOSThread() // HAProxy ends when the thread does that started it
		if err := s.haproxy.Start(); err != nil {
			started <- err
			return
		}
		close(started)
		s.exited <- s.haproxy.Wait()
	}()
	if err := <-started; err != nil {
		s.haproxy = nil
		return fmt.Errorf("failed to start HAProxy: %w", err)
	}
	return nil
}

// stop ends everything.
func (s *session) stop() {
	s.stopAgent()
	if s.haproxy == nil {
		return
	}
	_ = s.haproxy.Process.Signal(syscall.SIGTERM) // if it has ended, that is all right
	select {
	case <-s.exited: //nolint:errcheck // it was told to
	case <-time.After(stopTimeout):
		_ = s.haproxy.Process.Kill() // its workers end with it
	}
}

// pause waits for a moment. The error comes from ctx.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollInterval):
		return nil
	}
}
