package children

import (
	"reflect"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/resources"
)

func managedBy(manager string) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{Manager: manager}}
}

// digested is what a cached child has in managedFields if the configuration is what the operator owns of it.
func digested(configuration any) []metav1.ManagedFieldsEntry {
	return []metav1.ManagedFieldsEntry{{FieldsType: "digest", Manager: digest(configuration)}}
}

var (
	own    = map[string]string{"app.example.com/gateway": "shop"}
	owners = []metav1.OwnerReference{{UID: "owner"}}
)

// newSet returns a Set with nothing in its caches.
func newSet() *Set {
	kube := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(kube, 0)
	return NewSet(kube, factory, factory, resources.Options{})
}

type transformTest struct {
	transform cache.TransformFunc
	in, want  any
}

func TestTransformsOfChildren(t *testing.T) {
	testTransforms(t, map[string]transformTest{
		"of a child, it is kept whose it is, its status, and the digest of what is ours": {
			newSet().Keep,
			&k8sappsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "web", Name: "shop-gateway", UID: "uid", ResourceVersion: "7", OwnerReferences: owners,
					Labels: map[string]string{"app.example.com/gateway": "shop", "team": "edge"}, ManagedFields: managedBy("kubectl"),
				},
				Spec: k8sappsv1.DeploymentSpec{Paused: true},
				Status: k8sappsv1.DeploymentStatus{Replicas: 3, ReadyReplicas: 2, Conditions: []k8sappsv1.DeploymentCondition{
					{Type: k8sappsv1.DeploymentProgressing}, {Type: k8sappsv1.DeploymentReplicaFailure, Message: "exceeded quota"},
				}},
			},
			&k8sappsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "web", Name: "shop-gateway", UID: "uid", ResourceVersion: "7", OwnerReferences: owners,
					Labels: own, ManagedFields: digested(appsv1ac.Deployment("shop-gateway", "web")), // nothing but its name
				},
				Status: k8sappsv1.DeploymentStatus{Replicas: 3, Conditions: []k8sappsv1.DeploymentCondition{
					{Type: k8sappsv1.DeploymentReplicaFailure, Message: "exceeded quota"},
				}},
			},
		},
		"of a DaemonSet, too": {
			newSet().Keep,
			&k8sappsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Name: "shop-gateway", Labels: own, ManagedFields: managedBy("kubectl")},
				Status: k8sappsv1.DaemonSetStatus{
					ObservedGeneration: 4, DesiredNumberScheduled: 3, CurrentNumberScheduled: 2, NumberMisscheduled: 1, NumberReady: 2,
				},
			},
			&k8sappsv1.DaemonSet{
				ObjectMeta: metav1.ObjectMeta{Name: "shop-gateway", Labels: own, ManagedFields: digested(appsv1ac.DaemonSet("shop-gateway", ""))},
				Status:     k8sappsv1.DaemonSetStatus{ObservedGeneration: 4, DesiredNumberScheduled: 3, CurrentNumberScheduled: 2, NumberMisscheduled: 1},
			},
		},
		"what was kept is kept": {
			newSet().Keep,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{ManagedFields: digested("anything")}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{ManagedFields: digested("anything")}},
		},
		"our own Service is a child": {
			newSet().Keep,
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "shop-gateway", Labels: own, ManagedFields: managedBy("cloud")},
				Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}, Selector: own},
			},
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: "shop-gateway", Labels: own, ManagedFields: digested(corev1ac.Service("shop-gateway", ""))},
				Spec:       corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.1"}, Selector: own},
			},
		},
	})
}

func TestTransformsOfOthers(t *testing.T) {
	ports := []corev1.ServicePort{{Port: 80}}
	testTransforms(t, map[string]transformTest{
		"of any other Service, little is kept": {
			newSet().Keep,
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "web", Name: "api", UID: "uid", ResourceVersion: "7", OwnerReferences: owners,
					Annotations: map[string]string{"big": "thing"}, ManagedFields: managedBy("kubectl"),
				},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports, ClusterIP: "10.96.0.1", Selector: map[string]string{"app": "api"}},
			},
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "web", Name: "api", UID: "uid", ResourceVersion: "7", OwnerReferences: owners,
				},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports},
			},
		},
		"of one that selects proxies, the selector is kept": {
			newSet().Keep,
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: ports, Selector: own}},
			&corev1.Service{Spec: corev1.ServiceSpec{Ports: ports, Selector: own}},
		},
		"of a Gateway, what kubectl keeps in it is dropped": {
			Strip,
			&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "note": "kept"}, ManagedFields: managedBy("kubectl"),
			}},
			&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"note": "kept"}}},
		},
		"a tombstone stays as it is": {
			newSet().Keep, cache.DeletedFinalStateUnknown{Key: "web/api"}, cache.DeletedFinalStateUnknown{Key: "web/api"},
		},
	})
}

func testTransforms(t *testing.T, tests map[string]transformTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := must.Get(test.transform(test.in))(t)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, test.want)
			}
		})
	}
}

func TestOwnerKeysTrustNoLabelAlone(t *testing.T) {
	slice := func(labels map[string]string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Labels: labels}}
	}
	tests := map[string]struct {
		object any
		want   []string
	}{
		"a slice of the Gateway's Service": {
			slice(map[string]string{"app.example.com/gateway": "shop", "kubernetes.io/service-name": "shop-gateway"}), []string{"web/shop"},
		},
		"a slice of another Service with our label": {
			slice(map[string]string{"app.example.com/gateway": "shop", "kubernetes.io/service-name": "api"}), nil,
		},
		"a slice without our label": {slice(map[string]string{"kubernetes.io/service-name": "-gateway"}), nil},
		"something else":            {"web/shop", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, err := OwnerKeys(test.object); err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %q and the error %v, want %q", got, err, test.want)
			}
		})
	}
}
