package keyserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	watching "k8s.io/apimachinery/pkg/watch"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	appv1 "gateway/api/app/v1"
	ownfake "gateway/generated/app/clientset/versioned/fake"
	"gateway/internal/kinds"
	"gateway/internal/must"
)

// cluster is an API server with caches of it, in a bubble of synctest.
type cluster struct {
	*caches
	kube *kubefake.Clientset
	// served are the resources of the Gateway API, and denied has what may not be listed.
	served atomic.Pointer[string]
	denied atomic.Pointer[string]
}

// withCluster calls test with an API server that has objects.
func withCluster(t *testing.T, namespaces []string, test func(c *cluster, run func()), documents ...string) {
	t.Helper()
	objects := read(t, documents...)
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{kube: kubefake.NewClientset()}
		own, routes := ownfake.NewSimpleClientset(), routesfake.NewSimpleClientset()
		all, none := strings.Join(resources, " "), ""
		c.served.Store(&all)
		c.denied.Store(&none)
		c.kube.PrependReactor("get", "resource", func(clienttesting.Action) (bool, runtime.Object, error) {
			if *c.served.Load() == "away" {
				return true, nil, errors.New("connection refused")
			}
			list := &metav1.APIResourceList{GroupVersion: gatewayv1.GroupVersion.String()}
			for name := range strings.FieldsSeq(*c.served.Load()) {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
			}
			c.kube.Resources = []*metav1.APIResourceList{list}
			return false, nil, nil
		})
		deny := func(action clienttesting.Action) error {
			if resource := action.GetResource(); action.GetNamespace()+"/"+resource.Resource == *c.denied.Load() {
				return apierrors.NewForbidden(resource.GroupResource(), "", nil)
			}
			return nil
		}
		c.kube.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			err := deny(action)
			return err != nil, nil, err
		})
		c.kube.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watching.Interface, error) {
			err := deny(action)
			return err != nil, nil, err
		})
		for _, object := range objects {
			tracker, namespace := c.kube.Tracker(), object.(metav1.Object).GetNamespace()
			switch object.(type) {
			case *gatewayv1.Gateway:
				must.Do(t, routes.Tracker().Create(kinds.ResourceOf("Gateway"), object, namespace))
				continue
			case *appv1.Gateway:
				must.Do(t, own.Tracker().Create(appv1.SchemeGroupVersion.WithResource("gateways"), object, namespace))
				continue
			case *gatewayv1.ListenerSet, *gatewayv1.ReferenceGrant:
				tracker = routes.Tracker()
			}
			must.Do(t, tracker.Add(object))
		}
		state := newState(func(namespace string) bool { return len(namespaces) == 0 || slices.Contains(namespaces, namespace) })
		c.caches = must.Get(newCaches(state, c.kube, own, routes, namespaces, time.Now))(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer func() {
			cancel()
			synctest.Wait()
		}()
		test(c, func() { go c.run(ctx) })
	})
}

// settle lets some time pass, and returns what is missing.
func (c *cluster) settle(pause time.Duration) string {
	time.Sleep(pause)
	synctest.Wait()
	if err := c.ready(); err != nil {
		return err.Error()
	}
	return ""
}

func TestCaches(t *testing.T) {
	withCluster(t, nil, func(c *cluster, run func()) {
		if missing := c.settle(0); !strings.Contains(missing, "configmaps, gatewayattachments") {
			t.Errorf("before anything is listed, it is ready: %q", missing)
		}
		run()
		if missing := c.settle(2 * time.Second); missing != "" {
			t.Errorf("it is not ready: %s", missing)
		}
		if given := c.state.given("shop"); len(given) != 4 || !strings.HasPrefix(given[1], "Secret/"+local("certs/granted")+" tls") {
			t.Errorf("the pods get %q", given)
		}
		must.Do(t, c.kube.CoreV1().Secrets("certs").Delete(t.Context(), "granted", metav1.DeleteOptions{}))
		synctest.Wait()
		if given := c.state.given("shop"); given[1] != "Secret/"+local("certs/granted") {
			t.Errorf("the pods get %q", given)
		}
	}, secrets, shop, set)
}

// TestAbsentKinds: an API server that has just started may not know a kind yet. It is believed after some time.
func TestAbsentKinds(t *testing.T) {
	withCluster(t, nil, func(c *cluster, run func()) {
		served := "gateways referencegrants"
		c.served.Store(&served)
		run()
		if missing := c.settle(certainty - 10*time.Second); !strings.HasSuffix(missing, "listed listenersets of the Gateway API") {
			t.Errorf("it is too early, and missing is %q", missing)
		}
		if missing := c.settle(20 * time.Second); missing != "" {
			t.Errorf("it is not ready: %s", missing)
		}
		served = strings.Join(resources, " ")
		c.served.Store(&served)
		if missing := c.settle(2 * discoverInterval); missing != "" || len(c.state.given("shop")) != 4 {
			t.Errorf("with ListenerSets, missing is %q, and the pods get %q", missing, c.state.given("shop"))
		}
	}, secrets, shop, set)
}

// TestAPIServerAway: nothing is known, for however long.
func TestAPIServerAway(t *testing.T) {
	withCluster(t, nil, func(c *cluster, run func()) {
		served := "away"
		c.served.Store(&served)
		run()
		if missing := c.settle(time.Hour); missing == "" {
			t.Error("it is ready")
		}
	}, secrets, shop)
}

// TestNamespaces: a namespace that may not be read keeps nothing else from being served. Its objects count as if they
// were not there once that is certain, until it may be read.
func TestNamespaces(t *testing.T) {
	withCluster(t, []string{"web", "certs"}, func(c *cluster, run func()) {
		denied := "certs/secrets"
		c.denied.Store(&denied)
		run()
		if missing := c.settle(certainty / 2); !strings.HasSuffix(missing, "listed secrets certs") {
			t.Errorf("it is too early, and missing is %q", missing)
		}
		if missing := c.settle(certainty); missing != "" {
			t.Errorf("it is not ready: %s", missing)
		}
		want := []string{"ConfigMap/clients ca.crl ca.crt jwks rules.conf", "Secret/" + local("certs/granted"), "Secret/own tls.crt tls.key"}
		if given := c.state.given("shop"); !slices.Equal(given, want) {
			t.Errorf("the pods get %q", given)
		}
		denied = ""
		c.denied.Store(&denied)
		want[1] += " tls.crt tls.key"
		if missing, given := c.settle(time.Minute), c.state.given("shop"); missing != "" || !slices.Equal(given, want) {
			t.Errorf("once it may be read, missing is %q, and the pods get %q", missing, given)
		}
	}, secrets, shop)
}

// TestConsentIsTakenBack: what a namespace takes back by deleting a RoleBinding counts within seconds, and what it
// gives again, too. Other RoleBindings that go take nothing back.
func TestConsentIsTakenBack(t *testing.T) {
	binding := func(name, role string) string {
		return "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {namespace: certs, name: " + name + "}\n" +
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: " + role + "}"
	}
	withCluster(t, []string{"web", "certs"}, func(c *cluster, run func()) {
		run()
		expect := func(when string, after time.Duration, want bool) {
			missing, given := c.settle(after), c.state.given("shop")
			if got := slices.Contains(given, "Secret/"+local("certs/granted")+" tls.crt tls.key"); missing != "" || got != want {
				t.Errorf("%s, missing is %q, and the pods get %q", when, missing, given)
			}
		}
		remove := func(name string) {
			must.Do(t, c.kube.RbacV1().RoleBindings("certs").Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		const soon = 5 * time.Second
		expect("at first", soon, true)
		remove("other")
		expect("with another RoleBinding gone", time.Hour, true)
		denied := "certs/secrets"
		c.denied.Store(&denied)
		expect("while the watch goes on", time.Hour, true)
		remove("agents")
		expect("with the RoleBinding of agents gone", time.Hour, true)
		remove("key-server")
		expect("without consent", soon, false)
		expect("without consent for long", time.Hour, false)
		allowed := ""
		c.denied.Store(&allowed)
		expect("with consent again", soon+time.Second, true)
	}, secrets, shop, binding("key-server", "gateway-key-server-secrets"), binding("other", "view"), binding("agents", attachedRole))
}

// TestUnusedSecrets: what no Gateway uses is not even listed.
func TestUnusedSecrets(t *testing.T) {
	withCluster(t, nil, func(c *cluster, run func()) {
		var selectors []string
		c.kube.PrependReactor("list", "secrets", func(action clienttesting.Action) (bool, runtime.Object, error) {
			selectors = append(selectors, action.(clienttesting.ListAction).GetListRestrictions().Fields.String())
			return false, nil, nil
		})
		run()
		c.settle(time.Second)
		if len(selectors) == 0 || !strings.Contains(selectors[0], "type!=helm.sh/release.v1") || strings.Contains(selectors[0], string(corev1.SecretTypeTLS)) {
			t.Errorf("Secrets were listed with %q", selectors)
		}
	}, secrets)
}
