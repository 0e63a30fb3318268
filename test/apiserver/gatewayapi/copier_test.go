package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/source/gatewayapi"
	"gateway/test/internal/testenv"
)

// TestCopier: a certificate of another namespace is copied as long as a ReferenceGrant lets it, and no other is.
func TestCopier(t *testing.T) {
	server.InstallGatewayAPI(t)
	api, ctx := routesClient(t), t.Context()
	createNamespace(t, "edge", nil)
	createNamespace(t, "certs", nil)
	for _, name := range []string{"granted", "other", "proxies"} {
		createSecret(t, "certs", name)
	}
	_, err := api.GatewayV1().GatewayClasses().Create(ctx, &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "copied"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName},
	}, metav1.CreateOptions{})
	must(t, err)
	ref := func(name gatewayv1.ObjectName) gatewayv1.SecretObjectReference {
		return gatewayv1.SecretObjectReference{Name: name, Namespace: ptr.To[gatewayv1.Namespace]("certs")}
	}
	_, err = api.GatewayV1().Gateways("edge").Create(ctx, &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "shop"}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "copied", Listeners: []gatewayv1.Listener{{
			Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType,
			TLS: &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{ref("granted"), ref("other")}},
		}},
		TLS: &gatewayv1.GatewayTLSConfig{Backend: &gatewayv1.GatewayBackendTLS{ClientCertificateRef: ptr.To(ref("proxies"))}},
	}}, metav1.CreateOptions{})
	must(t, err)
	grant, err := api.GatewayV1().ReferenceGrants("certs").Create(ctx, &gatewayv1.ReferenceGrant{
		ObjectMeta: metav1.ObjectMeta{Name: "edge"},
		Spec: gatewayv1.ReferenceGrantSpec{
			From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: "edge"}},
			To: []gatewayv1.ReferenceGrantTo{
				{Kind: "Secret", Name: ptr.To[gatewayv1.ObjectName]("granted")}, {Kind: "Secret", Name: ptr.To[gatewayv1.ObjectName]("proxies")},
			},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	startCopier(t)

	granted, other := gatewayapi.LocalName("edge", "certs", "granted"), gatewayapi.LocalName("edge", "certs", "other")
	expectCopy(t, granted, "certs/granted")
	expectCopy(t, gatewayapi.LocalName("edge", "certs", "proxies"), "certs/proxies")
	_, err = server.Kube.CoreV1().Secrets("edge").Get(ctx, other, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a Secret without a grant was copied: %v", err)
	}
	secret, err := server.Kube.CoreV1().Secrets("certs").Get(ctx, "granted", metav1.GetOptions{})
	must(t, err)
	secret.Data[corev1.TLSCertKey] = []byte("renewed")
	_, err = server.Kube.CoreV1().Secrets("certs").Update(ctx, secret, metav1.UpdateOptions{})
	must(t, err)
	expectCopy(t, granted, "renewed")

	must(t, api.GatewayV1().ReferenceGrants("certs").Delete(ctx, grant.Name, metav1.DeleteOptions{}))
	testenv.Eventually(t, soon, "the copy to go", func(ctx context.Context) error {
		_, err := server.Kube.CoreV1().Secrets("edge").Get(ctx, granted, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// createSecret makes a Secret whose content is its name.
func createSecret(t *testing.T, namespace, name string) {
	t.Helper()
	_, err := server.Kube.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: []byte(namespace + "/" + name), corev1.TLSPrivateKeyKey: []byte("key")},
	}, metav1.CreateOptions{})
	must(t, err)
}

// startCopier starts the copier with its permissions.
func startCopier(t *testing.T) {
	t.Helper()
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(testenv.MustRoot(t), "artifacts", "rbac", "namespace.yaml"))
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(testenv.MustRoot(t), "artifacts", "copier"))
	token, err := server.Kube.CoreV1().ServiceAccounts("gateway-system").CreateToken(t.Context(), "gateway-copier",
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}, metav1.CreateOptions{})
	must(t, err)
	testenv.Start(t, nil, server.Build(t, "./cmd/gateway-copier"), "-kubeconfig="+server.TokenKubeconfig(t, token.Status.Token), "-logtostderr")
}

// expectCopy waits for a copy with a content.
func expectCopy(t *testing.T, name, content string) {
	t.Helper()
	testenv.Eventually(t, soon, "a copy of "+content, func(ctx context.Context) error {
		secret, err := server.Kube.CoreV1().Secrets("edge").Get(ctx, name, metav1.GetOptions{})
		if err == nil && string(secret.Data[corev1.TLSCertKey]) != content {
			err = fmt.Errorf("it has %q", secret.Data[corev1.TLSCertKey])
		}
		return err
	})
}
