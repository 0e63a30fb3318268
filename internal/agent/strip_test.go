package agent

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// TestStripTwice: client-go transforms the objects that a watch begins with twice, when the API server streams them.
func TestStripTwice(t *testing.T) {
	full := metav1.ObjectMeta{
		Namespace: "shop", Name: "web", UID: "1", Generation: 2, ResourceVersion: "3", Labels: map[string]string{"a": "b"},
		Annotations: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "a"}},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "a", Kind: "b", Name: "c"}},
	}
	for _, object := range []runtime.Object{
		&appv1.Gateway{
			ObjectMeta: full, Spec: appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http"}}},
			Status: appv1.GatewayStatus{Attachments: &appv1.Attachments{Users: []appv1.ObjectReference{{Name: "a"}}}},
		},
		&gatewayv1.HTTPRoute{ObjectMeta: full, Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"a"}}},
		&appv1.BackendPolicy{ObjectMeta: full, Spec: appv1.BackendPolicySpec{TargetRefs: []appv1.BackendPolicyTarget{{Name: "a"}}}},
	} {
		once := strip(object)
		first := once.(runtime.Object).DeepCopyObject()
		if twice := strip(once); !reflect.DeepEqual(first, twice) {
			t.Errorf("once it is %+v, and twice %+v", first, twice)
		}
	}
}
