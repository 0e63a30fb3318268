package oidc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oauth2-proxy/mockoidc"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
	"gateway/internal/testbuild"
	"gateway/test/internal/examples"
	"gateway/test/internal/testenv"
)

// site is what the page sets up, with one pod of each kind.
type site struct {
	t *testing.T
	// provider is where users log in.
	provider *mockoidc.MockOIDC
	// proxy is oauth2-proxy.
	proxy *testenv.Program
	// secrets are what the container of gateway-keys mounts. agentArgs are more arguments of the agent.
	secrets *certtest.Volume
	haproxy *haproxytest.Instance
	// pairs is where gateway-keys passes on what HAProxy reads.
	pairs     string
	agentArgs []string
	// app are the requests that the backend gets. page is what it answers.
	app  chan *http.Request
	page string
	// authority has signed the certificate of port 443, which is another port here.
	authority *certtest.Authority
	port      int32
}

// startSite does what the page says.
func startSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, app: make(chan *http.Request, 100), authority: certtest.NewAuthority(t), secrets: certtest.NewVolume(t), port: haproxytest.FreePort(t)}
	gateway, proxy := s.apply()
	s.startProvider()
	s.startProxy(proxy)
	s.startApp()
	s.startGateway(gateway)
	return s
}

// block are the fenced blocks of the page.
var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")

// apply runs the page's commands and applies its objects. It returns the Gateway, with a free port, and the container
// of oauth2-proxy.
func (s *site) apply() (*appv1.Gateway, corev1.Container) {
	s.t.Helper()
	s.makeNamespace()
	page := must.Get(os.ReadFile(filepath.Join(testbuild.MustRoot(s.t), "docs", "how-to", "oidc.md")))(s.t)
	assets := must.Get(testenv.Assets())(s.t)
	applier := must.Get(examples.NewApplier(server.Kube.Discovery(), server.Dynamic))(s.t)
	gateway, deployment := &appv1.Gateway{}, &k8sappsv1.Deployment{}
	for _, match := range block.FindAllStringSubmatch(string(page), -1) {
		if match[1] == "sh" {
			testenv.Run(s.t, ".", []string{"KUBECONFIG=" + server.Kubeconfig, "PATH=" + assets + ":" + os.Getenv("PATH"), "CLIENT_SECRET=of the client"}, "bash", "-c", match[2])
			continue
		}
		for document := range strings.SplitSeq(match[2], "---\n") {
			object := &unstructured.Unstructured{}
			must.Do(s.t, yaml.UnmarshalStrict([]byte(document), &object.Object))
			if object.GetKind() == "Gateway" {
				listeners := object.Object["spec"].(map[string]any)["listeners"].([]any)
				listeners[0].(map[string]any)["port"] = int64(s.port)
			}
			applied := must.Get(applier.Apply(s.t.Context(), object))(s.t)
			switch object.GetKind() {
			case "Gateway":
				must.Do(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, gateway))
			case "Deployment":
				must.Do(s.t, runtime.DefaultUnstructuredConverter.FromUnstructured(applied.Object, deployment))
			}
		}
	}
	return gateway, deployment.Spec.Template.Spec.Containers[0]
}

func (s *site) makeNamespace() {
	s.t.Helper()
	_, err := server.Kube.CoreV1().Namespaces().Create(s.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		must.Do(s.t, err)
	}
}

// startProvider starts an OpenID provider that knows the client of the page.
func (s *site) startProvider() {
	s.t.Helper()
	provider := must.Get(mockoidc.NewServer(nil))(s.t)
	secret := must.Get(server.Kube.CoreV1().Secrets(namespace).Get(s.t.Context(), "oauth2-proxy", metav1.GetOptions{}))(s.t)
	provider.ClientID, provider.ClientSecret = string(secret.Data["OAUTH2_PROXY_CLIENT_ID"]), string(secret.Data["OAUTH2_PROXY_CLIENT_SECRET"])
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(s.t)
	must.Do(s.t, provider.Start(listener, nil))
	s.t.Cleanup(func() { _ = provider.Shutdown() })
	s.provider = provider
}

// startProxy starts oauth2-proxy with the arguments of the page, but for its address, the provider's, and when it asks
// there again: when a session is a second old.
func (s *site) startProxy(container corev1.Container) {
	s.t.Helper()
	root := testbuild.MustRoot(s.t)
	_, version, _ := strings.Cut(container.Image, ":")
	module := must.Get(os.ReadFile(filepath.Join(root, "hack", "oauth2-proxy", "go.mod")))(s.t)
	if !strings.Contains(string(module), "github.com/oauth2-proxy/oauth2-proxy/v7 "+version+" ") {
		s.t.Errorf("hack/oauth2-proxy has another version than the image %s", container.Image)
	}
	program := testbuild.Tool(s.t, "hack/oauth2-proxy/go.mod", "github.com/oauth2-proxy/oauth2-proxy/v7")
	address := net.JoinHostPort(testenv.OwnAddress(s.t), fmt.Sprint(haproxytest.FreePort(s.t)))
	args := slices.Clone(container.Args)
	for from, to := range map[string]string{
		"--oidc-issuer-url=https://id.example.com/": "--oidc-issuer-url=" + s.provider.Issuer(),
		"--http-address=0.0.0.0:4180":               "--http-address=" + address,
		"--cookie-refresh=10m":                      "--cookie-refresh=1ms",
	} {
		i := slices.Index(args, from)
		if i < 0 {
			s.t.Fatalf("oauth2-proxy of the page has no %s", from)
		}
		args[i] = to
	}
	secret := must.Get(server.Kube.CoreV1().Secrets(namespace).Get(s.t.Context(), container.EnvFrom[0].SecretRef.Name, metav1.GetOptions{}))(s.t)
	var env []string
	for name, value := range secret.Data {
		env = append(env, name+"="+string(value))
	}
	s.proxy = testenv.Start(s.t, env, program, args...)
	testenv.Eventually(s.t, soon, "oauth2-proxy to be ready", func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+container.ReadinessProbe.HTTPGet.Path, nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return errors.Join(err, s.proxy.Running())
		}
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return errors.Join(err, response.Body.Close())
	})
	s.putEndpoint("oauth2-proxy", address)
}

// startApp starts the backend.
func (s *site) startApp() {
	s.t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(testenv.OwnAddress(s.t), "0")))(s.t)
	backend := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.app <- r
		_, _ = io.WriteString(w, s.page)
	})}
	go func() { _ = backend.Serve(listener) }()
	s.t.Cleanup(func() { _ = backend.Close() })
	must.Get(server.Kube.CoreV1().Services(namespace).Create(s.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "echo-v1"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(s.t)
	s.t.Cleanup(func() {
		must.Do(s.t, server.Kube.CoreV1().Services(namespace).Delete(context.Background(), "echo-v1", metav1.DeleteOptions{}))
	})
	s.putEndpoint("echo-v1", listener.Addr().String())
}

// putEndpoint makes an address of this machine the only endpoint of a Service.
func (s *site) putEndpoint(service, address string) {
	s.t.Helper()
	endpoint := must.Get(net.ResolveTCPAddr("tcp", address))(s.t)
	must.Get(server.Kube.DiscoveryV1().EndpointSlices(namespace).Create(s.t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To(int32(endpoint.Port))}}, //nolint:gosec // a port
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{endpoint.IP.String()}}},
	}, metav1.CreateOptions{}))(s.t)
	s.t.Cleanup(func() {
		must.Do(s.t, server.Kube.DiscoveryV1().EndpointSlices(namespace).Delete(context.Background(), service+"-1", metav1.DeleteOptions{}))
	})
}

// startGateway starts the programs of a pod of the Gateway, with a certificate in the Secret that it names.
func (s *site) startGateway(gateway *appv1.Gateway) {
	s.t.Helper()
	ctx, options := s.t.Context(), metav1.ApplyOptions{FieldManager: "test"}
	must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).Apply(ctx, resources.DesiredServiceAccount(gateway), options))(s.t)
	must.Get(server.Kube.RbacV1().Roles(namespace).Apply(ctx, resources.DesiredRole(gateway), options))(s.t)
	must.Get(server.Kube.RbacV1().RoleBindings(namespace).Apply(ctx, resources.DesiredRoleBinding(gateway), options))(s.t)
	pod, certificates, paths := server.NewPod(s.t, namespace, gateway.Name, gateway.Name), s.t.TempDir(), haproxytest.NewPaths(s.t)
	name := gateway.Spec.Listeners[0].TLS.CertificateRefs[0].Name
	s.secrets.PutPair(name, s.authority.Issue(s.t, []string{host}))
	keys, socket := filepath.Join(filepath.Dir(paths.ConfigDir), "keys"), filepath.Join(paths.RunDir, "keys.sock")
	must.Do(s.t, os.Mkdir(keys, 0o700))
	testenv.Start(s.t, nil, testbuild.Program(s.t, "cmd/gateway-keys"),
		"-secrets-dir="+s.secrets.Dir, "-pairs-dir="+keys, "-certificates-dir="+certificates, "-haproxy-socket="+socket, "-logtostderr")
	agent := testenv.Start(s.t, pod.Env, testbuild.Program(s.t, "cmd/gateway-agent"), append(s.agentArgs,
		"-gateway="+gateway.Name, "-logtostderr", "-kubeconfig="+server.TokenKubeconfig(s.t, pod.Token),
		"-config-dir="+filepath.Dir(paths.ConfigDir), "-run-dir="+paths.RunDir, "-health-address=127.0.0.1:0",
		"-secret="+name, "-certificates-dir="+certificates, "-haproxy-certificates-dir="+keys, "-keys-socket="+socket)...)
	testenv.Eventually(s.t, soon, "a configuration", func(context.Context) error {
		_, err := os.Stat(filepath.Join(paths.ConfigDir, "haproxy.cfg"))
		return errors.Join(err, agent.Running())
	})
	s.haproxy, s.pairs = haproxytest.Start(s.t, paths, nil), keys
	testenv.Eventually(s.t, soon, "the Gateway to be live", func(ctx context.Context) error {
		proxy, err := server.App.AppV1().GatewayProxies(namespace).Get(ctx, gateway.Name, metav1.GetOptions{})
		if err == nil && (proxy.Status.ObservedGeneration != gateway.Generation || len(proxy.Status.Problems) > 0) {
			err = fmt.Errorf("it reports %+v", proxy.Status)
		}
		return err
	})
}

// newBrowser returns a client with cookies of its own, for which the host is at the Gateway.
func (s *site) newBrowser() *http.Client {
	s.t.Helper()
	jar := must.Get(cookiejar.New(nil))(s.t)
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.authority.Pool(), MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == host+":443" {
				address = fmt.Sprintf("127.0.0.1:%d", s.port)
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}
