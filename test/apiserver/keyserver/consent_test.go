package keyserver

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/keystream"
	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
)

// consent lets the key server read the Secrets of a namespace.
func consent(t *testing.T, namespace string) {
	t.Helper()
	must.Get(server.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "gateway-key-server"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gateway-key-server-secrets"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "gateway-system", Name: "gateway-key-server"}},
	}, metav1.CreateOptions{}))(t)
}

// TestConsent: Secrets of a namespace that takes its consent back are gone from pods within seconds. Those of others
// stay. Once it consents again, they are back.
func TestConsent(t *testing.T) {
	server.InstallGatewayAPI(t)
	for _, name := range []string{"front", "lent"} {
		createNamespace(t, name)
		consent(t, name)
	}
	createSecret(t, "front", "own")
	createSecret(t, "lent", "granted")
	must.Get(routesClient(t).GatewayV1().ReferenceGrants("lent").Create(t.Context(), grant("front", "lent", "granted"), metav1.CreateOptions{}))(t)
	createGateway(t, "front", "shop", types.NamespacedName{Namespace: "front", Name: "own"}, types.NamespacedName{Namespace: "lent", Name: "granted"})
	createPod(t, "front", "shop", "shop-1")
	keys := startKeyServer(t, "front", "lent")
	shop, granted := keys.watch(t, token(t, "front", "shop", "shop-1", keystream.Audience)), "Secret/"+gatewayapi.LocalName("front", "lent", "granted")
	shop.expect("Secret/own front/own", granted+" lent/granted")

	begin := time.Now()
	must.Do(t, server.Kube.RbacV1().RoleBindings("lent").Delete(t.Context(), "gateway-key-server", metav1.DeleteOptions{}))
	shop.expect(granted + " ")
	t.Logf("consent that was taken back counts after %v", time.Since(begin))
	begin = time.Now()
	consent(t, "lent")
	shop.expect(granted + " lent/granted")
	t.Logf("consent counts again after %v", time.Since(begin))
}
