// Package keyserver tests gateway-key-server on a real API server, which knows the tokens of pods.
package keyserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/keystream"
	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// soon is enough for anything that is done at once, on a loaded machine.
const soon = 30 * time.Second

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

func routesClient(t *testing.T) routesclient.Interface {
	t.Helper()
	client := must.Get(routesclient.NewForConfig(server.Unlimited()))(t)
	return client
}

func createNamespace(t *testing.T, name string) {
	t.Helper()
	must.Get(server.Kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
}

// secret is a Secret with a certificate, whose content is its name.
func secret(namespace, name string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: []byte(namespace + "/" + name), corev1.TLSPrivateKeyKey: []byte("key")},
	}
}

func createSecret(t *testing.T, namespace, name string) {
	t.Helper()
	must.Get(server.Kube.CoreV1().Secrets(namespace).Create(t.Context(), secret(namespace, name), metav1.CreateOptions{}))(t)
}

// createGateway makes a Gateway that names certificates of some namespaces, with the one of our own and the
// ServiceAccount that the operator makes for it.
func createGateway(t *testing.T, namespace, name string, certificates ...types.NamespacedName) {
	t.Helper()
	listener := gatewayv1.Listener{Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType, TLS: &gatewayv1.ListenerTLSConfig{}}
	for _, of := range certificates {
		listener.TLS.CertificateRefs = append(listener.TLS.CertificateRefs, gatewayv1.SecretObjectReference{
			Namespace: ptr.To(gatewayv1.Namespace(of.Namespace)), Name: gatewayv1.ObjectName(of.Name),
		})
	}
	gateway := must.Get(routesClient(t).GatewayV1().Gateways(namespace).Create(t.Context(), &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "app", Listeners: []gatewayv1.Listener{listener},
			AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
		},
	}, metav1.CreateOptions{}))(t)
	must.Get(server.App.AppV1().Gateways(namespace).Create(t.Context(), &appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: gatewayapi.DataPlaneName(name), OwnerReferences: []metav1.OwnerReference{{
			APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: name, UID: gateway.UID, Controller: ptr.To(true),
		}}},
		Spec: appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}},
	}, metav1.CreateOptions{}))(t)
	must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name + "-gateway"},
	}, metav1.CreateOptions{}))(t)
}

// token returns a token of a pod, for an audience; "": for the API server. Without a pod, it is of the ServiceAccount.
func token(t *testing.T, namespace, gateway, pod, audience string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if audience != "" {
		request.Spec.Audiences = []string{audience}
	}
	if pod != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod}
	}
	made := must.Get(server.Kube.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), gateway+"-gateway", request, metav1.CreateOptions{}))(t)
	return made.Status.Token
}

// keyServer is a running gateway-key-server.
type keyServer struct {
	*testenv.Program
	kubeconfig, address, authority string
	flags                          []string
}

var listening = regexp.MustCompile(`Answering pods at 127\.0\.0\.1:(\d+)`)

// startKeyServer starts the key server with its permissions. In some namespaces alone, it has those that they give it.
func startKeyServer(t *testing.T, namespaces ...string) *keyServer {
	t.Helper()
	for _, directory := range []string{"rbac/namespace.yaml", "key-server"} {
		server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", directory))
	}
	account := must.Get(server.Kube.CoreV1().ServiceAccounts("gateway-system").CreateToken(t.Context(), "gateway-key-server",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}, metav1.CreateOptions{}))(t)
	first := &keyServer{kubeconfig: server.TokenKubeconfig(t, account.Status.Token), authority: filepath.Join(t.TempDir(), "ca.crt")}
	if len(namespaces) > 0 {
		server.Kubectl(t, "delete", "clusterrolebinding", "gateway-key-server-secrets")
		first.flags = []string{"-namespaces=" + strings.Join(namespaces, ",")}
	}
	s := first.another(t)
	testenv.Eventually(t, soon, "the key server's CA", func(ctx context.Context) error {
		authority, err := server.Kube.CoreV1().ConfigMaps("gateway-system").Get(ctx, "gateway-key-server-ca", metav1.GetOptions{})
		if err != nil {
			return err
		}
		return os.WriteFile(s.authority, []byte(authority.Data["ca.crt"]), 0o600)
	})
	return s
}

// another starts one more key server.
func (s *keyServer) another(t *testing.T) *keyServer {
	t.Helper()
	program := testenv.Start(t, nil, testbuild.Program(t, "cmd/gateway-key-server"), append([]string{
		"-kubeconfig=" + s.kubeconfig, "-logtostderr", "-v=1", "-address=127.0.0.1:0", "-health-address=127.0.0.1:0",
		"-namespace=gateway-system", "-name=localhost",
	}, s.flags...)...)
	started := &keyServer{program, s.kubeconfig, "", s.authority, s.flags}
	testenv.Eventually(t, soon, "the key server to listen", func(context.Context) error {
		found := listening.FindStringSubmatch(program.Output())
		if found == nil {
			return errors.Join(errors.New("it does not"), program.Running())
		}
		started.address = "localhost:" + found[1]
		return nil
	})
	return started
}

// client returns a client that shows a token.
func (s *keyServer) client(t *testing.T, token string) *keystream.Client {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	must.Do(t, os.WriteFile(file, []byte(token), 0o600))
	return &keystream.Client{Address: s.address, TokenFile: file, AuthorityFile: s.authority}
}

// pod is a pod that watches.
type pod struct {
	t     *testing.T
	lines chan string
	ended chan error
}

// watch has a pod watch. Until it gets anything, it asks again.
func (s *keyServer) watch(t *testing.T, token string) *pod {
	t.Helper()
	p, client := &pod{t, make(chan string, 100_000), make(chan error, 1)}, s.client(t, token)
	go func() {
		again := time.NewTicker(50 * time.Millisecond)
		defer again.Stop()
		for isAnswered := false; ; <-again.C {
			err := client.Watch(t.Context(), nil, func(objects []keystream.Object, _ bool) error {
				isAnswered = true
				for _, object := range objects {
					p.lines <- fmt.Sprintf("%s/%s %s", object.Kind, object.Name, object.Files[corev1.TLSCertKey])
				}
				return nil
			})
			if isAnswered || t.Context().Err() != nil {
				p.ended <- err
				return
			}
		}
	}()
	return p
}

// expect expects the next lines, in any order.
func (p *pod) expect(want ...string) {
	p.t.Helper()
	var got []string
	for len(got) < len(want) {
		select {
		case line := <-p.lines:
			got = append(got, line)
		case err := <-p.ended:
			p.t.Fatalf("the stream ended with %v after %q, want %q", err, got, want)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("the pod got %q, want %q", got, want)
	}
}

// expectRefused expects that a token opens nothing.
func (s *keyServer) expectRefused(t *testing.T, token string, want int) {
	t.Helper()
	client := s.client(t, token)
	testenv.Eventually(t, soon, fmt.Sprintf("the answer %d", want), func(ctx context.Context) error {
		err := client.Watch(ctx, nil, func(objects []keystream.Object, _ bool) error {
			t.Errorf("the token opens %d objects", len(objects))
			return errors.New("too many")
		})
		var status *keystream.StatusError
		if errors.As(err, &status) && status.Status == want {
			return nil
		}
		return fmt.Errorf("it ends with %w", err)
	})
}

func createPod(t *testing.T, namespace, gateway, name string) {
	t.Helper()
	server.NewPod(t, namespace, gateway, name)
}

func deletePod(t *testing.T, namespace, name string) {
	t.Helper()
	err := server.Kube.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if !apierrors.IsNotFound(err) {
		must.Do(t, err)
	}
}
