package children

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
)

func managedBy(managers ...string) []metav1.ManagedFieldsEntry {
	var entries []metav1.ManagedFieldsEntry
	for _, manager := range managers {
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: manager})
	}
	return entries
}

func TestTransforms(t *testing.T) {
	own, ports := map[string]string{"app.example.com/gateway": "shop"}, []corev1.ServicePort{{Port: 80}}
	owners := []metav1.OwnerReference{{UID: "owner"}}
	tests := map[string]struct {
		transform cache.TransformFunc
		in, want  any
	}{
		"of a child, the fields that are ours are kept": {
			KeepOwnFields,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Labels: own, ManagedFields: managedBy("kubectl", "gateway-operator")}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Labels: own, ManagedFields: managedBy("gateway-operator")}},
		},
		"our own Service is a child": {
			KeepServices,
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Labels: own, ManagedFields: managedBy("gateway-operator", "cloud")},
				Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1"},
			},
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Labels: own, ManagedFields: managedBy("gateway-operator")},
				Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1"},
			},
		},
		"of any other Service, little is kept": {
			KeepServices,
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "web", Name: "api", UID: "uid", ResourceVersion: "7", OwnerReferences: owners,
					Annotations: map[string]string{"big": "thing"}, ManagedFields: managedBy("kubectl"),
				},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports, ClusterIP: "10.96.0.1", Selector: own},
			},
			&corev1.Service{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "web", Name: "api", UID: "uid", ResourceVersion: "7", OwnerReferences: owners,
				},
				Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports},
			},
		},
		"of a Gateway, what kubectl keeps in it is dropped": {
			KeepGateways,
			&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{corev1.LastAppliedConfigAnnotation: "{}", "note": "kept"}, ManagedFields: managedBy("kubectl"),
			}},
			&appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"note": "kept"}}},
		},
		"a tombstone stays as it is": {
			KeepServices, cache.DeletedFinalStateUnknown{Key: "web/api"}, cache.DeletedFinalStateUnknown{Key: "web/api"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := test.transform(test.in)
			if err != nil {
				t.Fatal(err)
			}
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
