package examples

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/keyset"
	"gateway/internal/must"
	"gateway/internal/passwords"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
	"gateway/internal/testbuild"
	"gateway/internal/unixsocket"
	"gateway/internal/waf"
	"gateway/test/internal/examples"
	"gateway/test/internal/testenv"
)

// needsPods are parts of commands for which HAProxy without pods is not enough, with the reason.
var needsPods = map[string]string{
	"port-forward":      "there is no pod",
	"localhost:8404":    "there is no pod",
	"get pods":          "there is no pod",
	"grpc_health_probe": "it is not installed everywhere; test/echo has a test with a gRPC client",
}

// runs makes the namespaces of repeated runs (-count) differ.
var runs atomic.Int64

// TestRequests does what the examples' comments say, on this machine: real HAProxy with what is made of the Gateway,
// the backends of the demo as processes, and the Secrets that the commands made on the API server.
func TestRequests(t *testing.T) {
	t.Parallel()
	probe, err := net.Listen("tcp", "127.77.0.1:80")
	if errors.Is(err, fs.ErrPermission) {
		t.Skip("HAProxy has to listen on port 80, which this user must not: run the tests as root")
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = probe.Close()
	program := testbuild.Program(t, "test/echo")
	network := map[string]int{}
	for i, example := range all(t) {
		network[example.Name] = i + 1
	}
	forEach(t, func(t *testing.T, example examples.Example) {
		t.Helper()
		s := &stage{program: program, network: fmt.Sprintf("127.77.%d.", network[example.Name]), dir: t.TempDir(),
			namespace: fmt.Sprint(example.Name, "-", runs.Add(1))}
		s.play(t, example)
	})
}

// stage is what one example runs on: addresses of its own, so that it has the ports it asks for.
type stage struct {
	program, network, dir, namespace string
}

func (s *stage) address(host int) string { return s.network + fmt.Sprint(host) }

// play makes all there is to it and runs the commands.
func (s *stage) play(t *testing.T, example examples.Example) {
	t.Helper()
	gateway := applyGateway(t, example)
	apply(t, namespaceObject(s.namespace))
	assets := must.Get(testenv.Assets())(t)
	env := []string{"KUBECONFIG=" + server.Kubeconfig, "PATH=" + assets + ":" + os.Getenv("PATH"), "GATEWAY=" + s.address(1)}
	setup, requests := example.Split()
	for _, command := range setup {
		must.Do(t, command.Run(t.Context(), s.dir, s.namespace, env...))
	}
	s.startHAProxy(t, gateway)
	for _, command := range requests {
		skip := false
		for part := range needsPods {
			skip = skip || strings.Contains(command.Text, part)
		}
		if skip {
			continue
		}
		if err := command.Run(t.Context(), s.dir, s.namespace, env...); err != nil {
			t.Error(err)
		}
	}
}

// startHAProxy starts HAProxy and the endpoints of the Services.
func (s *stage) startHAProxy(t *testing.T, gateway *appv1.Gateway) {
	t.Helper()
	secrets := filepath.Join(s.dir, "secrets")
	certificate := s.writeSecret(t, secrets, "echo-tls")
	table, _ := routing.Compile(source.Translate(gateway), filters.Problem)
	if len(table.TrustedProxies) > 0 {
		// The client is on this machine, not in the cluster.
		table.TrustedProxies = append(table.TrustedProxies, "127.0.0.0/8")
	}
	in := render.Input{
		Table:        table,
		Backends:     map[routing.Backend]render.BackendState{},
		Certificates: map[string][]render.Certificate{}, Authorities: map[string][]byte{},
		Paths: haproxytest.NewPaths(t), Bind: render.Bind{Addresses: []string{s.address(1)}},
	}
	// HAProxy's paths must not have what t.TempDir has in them.
	in.Paths.CertificateDir = filepath.Join(filepath.Dir(in.Paths.ConfigDir), "certificates")
	in.Backends = s.startBackends(t, table, filepath.Join(secrets, "echo-tls"), certificate != nil)
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		if listener.TLS == nil {
			continue
		}
		for _, secret := range listener.TLS.Secrets {
			content := s.writeSecret(t, in.Paths.CertificateDir, secret)
			if content == nil {
				t.Fatalf("the commands did not make Secret %s", secret)
			}
			name := listener.Hostname
			if name == "" {
				name = "shop.example.com"
			}
			in.Certificates[listener.Name] = append(in.Certificates[listener.Name],
				render.Certificate{Secret: secret, Names: []string{name}})
		}
	}
	if secret := table.BackendCertificate; secret != "" {
		if in.HasBackendCertificate = s.writeSecret(t, in.Paths.CertificateDir, secret) != nil; !in.HasBackendCertificate {
			t.Fatalf("the commands did not make Secret %s", secret)
		}
	}
	in.KeySets = s.keySets(t, gateway)
	in.Paths.UsersSocket, in.Paths.LoginSocket = s.keepUsers(t, gateway, in.Paths), s.startLogin(t, gateway, in.Paths)
	in.Paths.WAFSocket = s.startWAF(t, gateway, in.Paths)
	_, configMaps := references(gateway)
	for _, name := range configMaps {
		configMap, err := server.Kube.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the commands did not make ConfigMap %s: %v", name, err)
		}
		in.Authorities[name] = []byte(configMap.Data["ca.crt"])
	}
	haproxytest.Start(t, in.Paths, render.Render(in).AllFiles())
}

// keySets returns the keys of tokens that are in ConfigMaps.
func (s *stage) keySets(t *testing.T, gateway *appv1.Gateway) map[routing.KeySource][]routing.JWTKey {
	t.Helper()
	all := map[routing.KeySource][]routing.JWTKey{}
	for _, mount := range source.MountsOfFilters(gateway) {
		if mount.Filter != "JWT" || len(mount.ConfigMaps) != 1 || mount.ConfigMaps[0] != mount.Of {
			continue
		}
		name := mount.Of
		configMap, err := server.Kube.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the commands did not make ConfigMap %s: %v", name, err)
		}
		if all[routing.KeySource{ConfigMap: name}], err = keyset.Parse(configMap.Data[proxypod.KeySetFile]); err != nil {
			t.Fatalf("ConfigMap %s: %v", name, err)
		}
	}
	return all
}

// keepUsers passes on users and API keys as gateway-keys does, from the Secrets that the commands made. It returns the
// socket for questions.
func (s *stage) keepUsers(t *testing.T, gateway *appv1.Gateway, paths ir.Paths) string {
	t.Helper()
	volume, pairs := certtest.NewVolume(t), t.TempDir()
	k := keeper.Keeper{Secrets: volume.Dir, Pairs: pairs, Certificates: t.TempDir(), Users: passwords.NewChecker(), HAProxy: runtime.NewWorker(paths.WorkerSocket())}
	files := map[string][]byte{}
	for _, name := range source.MountsOf(gateway).Users {
		secret, err := server.Kube.CoreV1().Secrets(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the commands did not make Secret %s: %v", name, err)
		}
		for _, file := range []string{certificates.UsersFile, certificates.APIKeysFile, certificates.SessionKeysFile, certificates.IssuerFile} {
			if content, ok := secret.Data[file]; ok {
				files[name+"/"+file] = content
			}
		}
	}
	volume.Put(files)
	must.Do(t, k.Look(t.Context(), time.Now()))
	for _, file := range []string{certificates.APIKeysMap, certificates.SessionKeysMap} {
		keys, err := os.ReadFile(filepath.Join(pairs, file))
		if err != nil {
			continue
		}
		must.Do(t, errors.Join(os.MkdirAll(filepath.Join(paths.CertificateDir, filepath.Dir(file)), 0o700),
			os.WriteFile(filepath.Join(paths.CertificateDir, file), keys, 0o600)))
	}
	socket := filepath.Join(paths.RunDir, "users.sock")
	listener := must.Get(unixsocket.Listen(socket))(t)
	ended := make(chan error, 1)
	go func() { ended <- k.Users.Serve(t.Context(), listener) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// startLogin starts gateway-login, with the Secrets that the commands made. It returns its socket, "" if there is no
// use for it.
func (s *stage) startLogin(t *testing.T, gateway *appv1.Gateway, paths ir.Paths) string {
	t.Helper()
	names := source.MountsOf(gateway).Logins
	if len(names) == 0 {
		return ""
	}
	volume, socket := certtest.NewVolume(t), filepath.Join(paths.RunDir, "login.sock")
	for _, name := range names {
		secret, err := server.Kube.CoreV1().Secrets(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the commands did not make Secret %s: %v", name, err)
		}
		for key, content := range secret.Data {
			volume.Put(map[string][]byte{name + "/" + key: content})
		}
	}
	program := testenv.Start(t, nil, testbuild.Program(t, "cmd/gateway-login"), "-secrets-dir="+volume.Dir, "-authorities-dir="+t.TempDir(), "-socket="+socket)
	testenv.Eventually(t, 30*time.Second, "gateway-login to listen", func(context.Context) error {
		_, err := os.Stat(socket)
		return errors.Join(err, program.Running())
	})
	return socket
}

// startWAF starts gateway-waf, with the ConfigMaps that the commands made. It returns its socket, "" if there is no use
// for it.
func (s *stage) startWAF(t *testing.T, gateway *appv1.Gateway, paths ir.Paths) string {
	t.Helper()
	if !source.MountsOf(gateway).WAF {
		return ""
	}
	path, socket := testbuild.Program(t, "cmd/gateway-waf"), filepath.Join(paths.RunDir, "waf.sock")
	volume := certtest.NewVolume(t)
	for _, mount := range source.MountsOfFilters(gateway) {
		if mount.Filter != "WAF" {
			continue
		}
		name := mount.Of
		configMap, err := server.Kube.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatalf("the commands did not make ConfigMap %s: %v", name, err)
		}
		volume.Put(map[string][]byte{name + "/" + waf.RulesFile: []byte(configMap.Data[waf.RulesFile])})
	}
	program := testenv.Start(t, nil, path, "-socket="+socket, "-rules-dir="+volume.Dir)
	testenv.Eventually(t, 30*time.Second, "gateway-waf to listen", func(context.Context) error {
		_, err := os.Stat(socket)
		return errors.Join(err, program.Running())
	})
	return socket
}

// writeSecret writes a Secret as kubelet does, and as HAProxy gets it, and returns its certificate; nil: there is none.
func (s *stage) writeSecret(t *testing.T, dir, name string) []byte {
	t.Helper()
	secret, err := server.Kube.CoreV1().Secrets(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	must.Do(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	pair, problem := certificates.Join(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if problem != "" {
		t.Fatalf(problem, "Secret "+name)
	}
	secret.Data[certificates.JoinedFile] = pair.Joined
	for key, content := range secret.Data {
		must.Do(t, os.WriteFile(filepath.Join(dir, name, key), content, 0o600))
	}
	return secret.Data[corev1.TLSCertKey]
}

// startBackends starts two endpoints for each version of the backend that the table names.
func (s *stage) startBackends(t *testing.T, table routing.Table, certificates string, hasTLS bool) map[routing.Backend]render.BackendState {
	t.Helper()
	states, started := map[routing.Backend]render.BackendState{}, map[string][]string{}
	for _, backend := range table.Backends() {
		service := must.Get(server.Kube.CoreV1().Services("shop").Get(t.Context(), backend.Service, metav1.GetOptions{}))(t)
		port := must.Get(servicePort(t, backend))(t)
		if backend.Port == 443 && !hasTLS {
			t.Fatal("the commands did not make Secret echo-tls")
		}
		app := service.Spec.Selector["app"]
		if started[app] == nil {
			for range 2 {
				address := s.address(10 + len(started)*10 + len(started[app]))
				s.startEcho(t, app, address, certificates)
				started[app] = append(started[app], address)
			}
		}
		state := render.BackendState{Exists: true, AppProtocol: ptr.Deref(port.AppProtocol, "")}
		for _, address := range started[app] {
			state.Servers = append(state.Servers, ir.Server{Address: address, Port: port.TargetPort.IntVal})
		}
		states[backend] = state
	}
	return states
}

func (s *stage) startEcho(t *testing.T, app, address, certificates string) {
	t.Helper()
	version := strings.TrimPrefix(app, "echo-")
	testenv.Start(t, []string{"VERSION=" + version, "POD_NAME=" + app + "-" + address}, s.program,
		"-listen="+address+":8080", "-tls-listen="+address+":8443", "-proxy-listen="+address+":8081", "-certificates="+certificates)
	testenv.Eventually(t, 10*time.Second, "the backend answers", func(ctx context.Context) error {
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, "tcp", address+":8081")
		if err == nil {
			err = connection.Close()
		}
		return err
	})
}

func namespaceObject(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name},
	}}
}
