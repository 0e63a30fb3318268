package agent

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/endpoints"
	"gateway/internal/proxypod"
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

// TestPacked: a Service and an EndpointSlice stay what they were, however often they are stripped, and differ in what
// is read alone. Whether a proxy pod is an endpoint has to survive that: a pod that does not see itself there never
// becomes ready.
func TestPacked(t *testing.T) {
	service := newService("api")
	slice := newSlice("shop-gateway", 443, newReady("10.0.0.1"), newReady("fd00::1"))
	slice.Labels[proxypod.LabelGateway] = "shop"
	slice.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "shop-gateway-1"}
	service.ResourceVersion, slice.ResourceVersion = "7", "8"
	for _, object := range []metav1.Object{service, slice} {
		once := strip(object)
		if twice := strip(once); once != twice || twice.GetNamespace() != object.GetNamespace() || twice.GetName() != object.GetName() ||
			twice.GetResourceVersion() != object.GetResourceVersion() {
			t.Errorf("once it is %+v, and twice %+v", once, twice)
		}
	}
	if got := unpack(strip(service).(*packed), &corev1.Service{}); !reflect.DeepEqual(got, endpoints.StripService(service)) {
		t.Errorf("a Service is %+v", got)
	}
	if got := unpack(strip(slice).(*packed), &discoveryv1.EndpointSlice{}); !reflect.DeepEqual(got, endpoints.StripSlice(slice)) {
		t.Errorf("an EndpointSlice is %+v", got)
	}
	before := strip(slice)
	slice.ResourceVersion, slice.Annotations = "9", map[string]string{"note": "nobody reads it"}
	if differ(before, strip(slice)) {
		t.Error("a note on an EndpointSlice counts")
	}
	if slice.Endpoints[1].Addresses[0] = "fd00::2"; !differ(before, strip(slice)) {
		t.Error("another address does not count")
	}
}
