// Package fake shows each way to fill the fake clientset, for both kinds.
package fake

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/generated/app/clientset/versioned/fake"
	"gateway/generated/app/informers/externalversions"
	gatewayinformers "gateway/generated/app/informers/externalversions/app/v1"
)

const namespace = "default"

var (
	meta       = metav1.ObjectMeta{Namespace: namespace, Name: "shop"}
	mine       = metav1.ApplyOptions{FieldManager: "mine"}
	theirs     = metav1.ApplyOptions{FieldManager: "theirs"}
	clientsets = map[string]func(...runtime.Object) *fake.Clientset{
		"NewSimpleClientset": fake.NewSimpleClientset,
		"NewClientset":       fake.NewClientset,
	}
)

// TestGiven has the clientset begin with objects, given one by one or as a list.
func TestGiven(t *testing.T) {
	gateway, proxy := &appv1.Gateway{ObjectMeta: meta}, &appv1.GatewayProxy{ObjectMeta: meta}
	for name, newClientset := range clientsets {
		t.Run(name, func(t *testing.T) { read(t, newClientset(gateway, proxy)) })
		t.Run(name+" with lists", func(t *testing.T) {
			gateways, proxies := appv1.GatewayList{Items: []appv1.Gateway{*gateway}}, appv1.GatewayProxyList{Items: []appv1.GatewayProxy{*proxy}}
			read(t, newClientset(&gateways, &proxies))
		})
	}
}

// TestCreate creates the objects by the clientset.
func TestCreate(t *testing.T) {
	for name, newClientset := range clientsets {
		t.Run(name, func(t *testing.T) {
			client := newClientset()
			gateways, proxies := client.AppV1().Gateways(namespace), client.AppV1().GatewayProxies(namespace)
			_, err := gateways.Create(t.Context(), &appv1.Gateway{ObjectMeta: meta}, metav1.CreateOptions{})
			must(t, err)
			_, err = gateways.Create(t.Context(), &appv1.Gateway{ObjectMeta: meta}, metav1.CreateOptions{})
			if want := `gateways.app.example.com "shop" already exists`; !apierrors.IsAlreadyExists(err) || err.Error() != want {
				t.Errorf("the error is %v, want %s", err, want)
			}
			_, err = proxies.Create(t.Context(), &appv1.GatewayProxy{ObjectMeta: meta}, metav1.CreateOptions{})
			must(t, err)
			read(t, client)
		})
	}
}

// TestApply has two field managers apply a Gateway, with fields whose types are Kubernetes' own. Only NewClientset
// knows field managers.
func TestApply(t *testing.T) {
	ctx, gateways := t.Context(), fake.NewClientset().AppV1().Gateways(namespace)
	_, err := gateways.Apply(ctx, applyappv1.Gateway("shop", namespace).WithSpec(applyappv1.GatewaySpec().
		WithRoutes(applyappv1.Route().WithName("mine")).
		WithPods(applyappv1.PodsSpec().
			WithTolerations(corev1.Toleration{Key: "edge", Operator: corev1.TolerationOpExists, TolerationSeconds: new(int64(5))}).
			WithAffinity(corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}).
			WithTopologySpreadConstraints(corev1.TopologySpreadConstraint{
				TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 1, LabelSelector: &metav1.LabelSelector{},
			}).
			WithResources(applyappv1.PodResources().WithLimits(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")})))), mine)
	must(t, err)
	applied, err := gateways.Apply(ctx, applyappv1.Gateway("shop", namespace).WithSpec(applyappv1.GatewaySpec().
		WithRoutes(applyappv1.Route().WithName("theirs"))), theirs)
	must(t, err)
	pods := applied.Spec.Pods
	if routes := applied.Spec.Routes; len(routes) != 2 || len(pods.Tolerations) != 1 || len(pods.TopologySpreadConstraints) != 1 ||
		pods.Affinity == nil || !pods.Resources.Limits.Cpu().Equal(resource.MustParse("2")) {
		t.Errorf("applied is %+v", applied.Spec)
	}
	_, err = gateways.Apply(ctx, applyappv1.Gateway("shop", namespace).WithSpec(applyappv1.GatewaySpec().WithPods(applyappv1.PodsSpec().
		WithTopologySpreadConstraints(corev1.TopologySpreadConstraint{
			TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MaxSkew: 2,
		}))), theirs)
	if !apierrors.IsConflict(err) {
		t.Errorf("the other manager's field can be taken: %v", err)
	}
}

func TestApplyStatus(t *testing.T) {
	for name, newClientset := range clientsets {
		t.Run(name, func(t *testing.T) {
			gateway := &appv1.Gateway{ObjectMeta: meta, Spec: appv1.GatewaySpec{Replicas: new(int32(3))}}
			gateways := newClientset(gateway).AppV1().Gateways(namespace)
			applied, err := gateways.ApplyStatus(t.Context(), applyappv1.Gateway("shop", namespace).WithStatus(applyappv1.GatewayStatus().
				WithReplicas(3).WithConditions(applymetav1.Condition().WithType("Accepted").WithStatus(metav1.ConditionTrue))), mine)
			must(t, err)
			if *applied.Spec.Replicas != 3 || applied.Status.Replicas != 3 || len(applied.Status.Conditions) != 1 {
				t.Errorf("applied is %+v", applied)
			}
		})
	}
}

// TestApplyProxy has two managers apply a GatewayProxy.
func TestApplyProxy(t *testing.T) {
	ctx, proxies := t.Context(), fake.NewClientset().AppV1().GatewayProxies(namespace)
	shop := applyappv1.ProxiedGateway().WithName("shop").WithUID("1")
	_, err := proxies.Apply(ctx, applyappv1.GatewayProxy("shop-1", namespace).WithStatus(applyappv1.GatewayProxyStatus().WithGateway(shop)), mine)
	must(t, err)
	applied, err := proxies.Apply(ctx, applyappv1.GatewayProxy("shop-1", namespace).WithLabels(map[string]string{"a": "b"}), theirs)
	must(t, err)
	if applied.Labels["a"] != "b" || applied.Status.Gateway.Name != "shop" {
		t.Errorf("applied is %+v", applied)
	}
}

// read reads both objects by Get, by List, and by an informer that sees a later object too, updates and deletes them.
func read(t *testing.T, client *fake.Clientset) {
	t.Helper()
	ctx := t.Context()
	gateways, proxies := client.AppV1().Gateways(namespace), client.AppV1().GatewayProxies(namespace)
	gateway, err := gateways.Get(ctx, "shop", metav1.GetOptions{})
	must(t, err)
	proxy, err := proxies.Get(ctx, "shop", metav1.GetOptions{})
	must(t, err)
	list, err := gateways.List(ctx, metav1.ListOptions{})
	must(t, err)
	proxyList, err := proxies.List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 || len(proxyList.Items) != 1 {
		t.Errorf("there are %d Gateways and %d GatewayProxies, want 1 and 1", len(list.Items), len(proxyList.Items))
	}

	factory := externalversions.NewSharedInformerFactory(client, 0)
	informer := factory.App().V1().Gateways()
	added := make(chan string, 2)
	_, err = informer.TypedInformer().AddTypedEventHandler(gatewayinformers.GatewayHandlerFuncs{
		AddFunc: func(gateway *appv1.Gateway) { added <- gateway.Name },
	})
	must(t, err)
	factory.StartWithContext(ctx)
	if name := <-added; name != "shop" {
		t.Errorf("the informer saw %q first", name)
	}
	_, err = gateways.Create(ctx, &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "later"}}, metav1.CreateOptions{})
	must(t, err)
	if name := <-added; name != "later" {
		t.Errorf("the informer saw %q then", name)
	}

	_, err = gateways.Update(ctx, gateway, metav1.UpdateOptions{})
	must(t, err)
	patched, err := gateways.Patch(ctx, "shop", types.MergePatchType, []byte(`{"spec":{"replicas":3}}`), metav1.PatchOptions{})
	must(t, err)
	if *patched.Spec.Replicas != 3 {
		t.Errorf("patched is %+v", patched.Spec)
	}
	_, err = proxies.Update(ctx, proxy, metav1.UpdateOptions{})
	must(t, err)
	must(t, gateways.Delete(ctx, "shop", metav1.DeleteOptions{}))
	must(t, proxies.Delete(ctx, "shop", metav1.DeleteOptions{}))
	_, err = gateways.Get(ctx, "shop", metav1.GetOptions{})
	if want := `gateways.app.example.com "shop" not found`; !apierrors.IsNotFound(err) || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
