package keyserver

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/keystream"
	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
	"gateway/test/internal/testenv"
)

// grant lets Gateways of a namespace use a Secret of another one.
func grant(from gatewayv1.Namespace, to, secret string) *gatewayv1.ReferenceGrant {
	return &gatewayv1.ReferenceGrant{
		ObjectMeta: metav1.ObjectMeta{Namespace: to, Name: string(from)},
		Spec: gatewayv1.ReferenceGrantSpec{
			From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "Gateway", Namespace: from}},
			To:   []gatewayv1.ReferenceGrantTo{{Kind: "Secret", Name: ptr.To(gatewayv1.ObjectName(secret))}},
		},
	}
}

// TestKeyServer: pods get what their Gateway may have, and nobody else gets anything.
func TestKeyServer(t *testing.T) {
	server.InstallGatewayAPI(t)
	for _, name := range []string{"edge", "certs"} {
		createNamespace(t, name)
	}
	createSecret(t, "edge", "own")
	createSecret(t, "certs", "granted")
	createSecret(t, "certs", "other")
	grants := routesClient(t).GatewayV1().ReferenceGrants("certs")
	must.Get(grants.Create(t.Context(), grant("edge", "certs", "granted"), metav1.CreateOptions{}))(t)
	createGateway(t, "edge", "shop", types.NamespacedName{Namespace: "certs", Name: "granted"}, types.NamespacedName{Namespace: "certs", Name: "other"})
	createGateway(t, "edge", "web", types.NamespacedName{Namespace: "edge", Name: "own"})
	createPod(t, "edge", "shop", "shop-1")
	createPod(t, "edge", "web", "web-1")
	keys := startKeyServer(t)
	granted := "Secret/" + gatewayapi.LocalName("edge", "certs", "granted")

	shop := keys.watch(t, token(t, "edge", "shop", "shop-1", keystream.Audience))
	shop.expect(granted + " certs/granted")
	web := keys.watch(t, token(t, "edge", "web", "web-1", keystream.Audience))
	web.expect("Secret/own edge/own")
	t.Run("tokens", func(t *testing.T) { testTokens(t, keys) })

	renewed := secret("certs", "granted")
	renewed.Data["tls.crt"] = []byte("renewed")
	must.Get(server.Kube.CoreV1().Secrets("certs").Update(t.Context(), renewed, metav1.UpdateOptions{}))(t)
	shop.expect(granted + " renewed")
	must.Do(t, grants.Delete(t.Context(), "edge", metav1.DeleteOptions{}))
	shop.expect(granted + " ")
	must.Get(grants.Create(t.Context(), grant("edge", "certs", "granted"), metav1.CreateOptions{}))(t)
	shop.expect(granted + " renewed")
	must.Do(t, server.Kube.CoreV1().Secrets("certs").Delete(t.Context(), "granted", metav1.DeleteOptions{}))
	shop.expect(granted + " ")
	createSecret(t, "certs", "granted")
	shop.expect(granted + " certs/granted")

	t.Run("without the API server", func(t *testing.T) {
		token := token(t, "edge", "shop", "shop-1", keystream.Audience)
		start := server.Kill(t, testenv.APIServer)
		keys.expectRefused(t, token, http.StatusServiceUnavailable)
		fresh := keys.another(t)
		expectNothing(t, fresh.client(t, token))
		start()
		server.Ready(t)
		again := fresh.watch(t, token)
		again.expect(granted + " certs/granted")
		renewed.Data["tls.crt"] = []byte("after the outage")
		must.Get(server.Kube.CoreV1().Secrets("certs").Update(t.Context(), renewed, metav1.UpdateOptions{}))(t)
		again.expect(granted + " after the outage")
		shop.expect(granted + " after the outage")
	})
}

// expectNothing expects that a server that knows nothing says nothing.
func expectNothing(t *testing.T, client *keystream.Client) {
	t.Helper()
	err := client.Watch(t.Context(), map[string]string{"Secret/own": "1"}, func(objects []keystream.Object, _ bool) error {
		t.Errorf("it says something of %d objects", len(objects))
		return errors.New("too much")
	})
	if err == nil {
		t.Error("the stream ended in order")
	}
}

// testTokens tries tokens that open nothing.
func testTokens(t *testing.T, keys *keyServer) {
	t.Helper()
	keys.expectRefused(t, token(t, "edge", "shop", "shop-1", ""), http.StatusUnauthorized) // the agent's
	keys.expectRefused(t, token(t, "edge", "shop", "shop-1", "other.example.com"), http.StatusUnauthorized)
	keys.expectRefused(t, token(t, "edge", "shop", "", keystream.Audience), http.StatusForbidden) // of no pod
	createPod(t, "edge", "shop", "shop-2")
	gone := token(t, "edge", "shop", "shop-2", keystream.Audience)
	deletePod(t, "edge", "shop-2")
	keys.expectRefused(t, gone, http.StatusUnauthorized)

	config := rest.AnonymousClientConfig(server.Admin)
	config.BearerToken = token(t, "edge", "shop", "shop-1", keystream.Audience)
	client := must.Get(kubernetes.NewForConfig(config))(t)
	if _, err := client.CoreV1().Services("edge").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
		t.Errorf("with the token of the container keys, the API server answers %v", err)
	}
}
