package endpoints

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"gateway/internal/proxypod"
)

func TestStripKeepsWhatIsRead(t *testing.T) {
	read := func(s *corev1.Service) {
		s.Spec.Ports[0].AppProtocol = new("https")
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
	}
	service := newService("api", func(s *corev1.Service) {
		read(s)
		s.Annotations = map[string]string{"big": "note"}
		s.Spec.ClusterIP = "10.96.0.1"
		s.Spec.Ports[0].NodePort = 30000
	})
	kept, err := Strip(service)
	if err != nil || !reflect.DeepEqual(kept, newService("api", read)) {
		t.Errorf("of a Service stays %+v, %v", kept, err)
	}
	zone := "a"
	slice := newSlice("api", 8080, newReady("10.0.0.1"))
	slice.Endpoints[0].Zone = &zone
	slice.Labels["other"] = "label"
	kept, err = Strip(slice)
	if err != nil || !reflect.DeepEqual(kept, newSlice("api", 8080, newReady("10.0.0.1"))) {
		t.Errorf("of an EndpointSlice stays %+v, %v", kept, err)
	}
}

// TestStripTwice: client-go transforms the objects that a watch begins with twice, when the API server streams them.
// Whether a proxy pod is an endpoint has to survive that: a pod that does not see itself there never becomes ready.
func TestStripTwice(t *testing.T) {
	proxies := newSlice("shop-gateway", 443, newReady("10.0.0.1"))
	proxies.Labels[proxypod.LabelGateway] = "shop"
	proxies.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "shop-gateway-1"}
	for _, object := range []any{newService("api"), newSlice("api", 8080, newReady("10.0.0.1")), proxies} {
		once, err := Strip(object)
		twice, again := Strip(once)
		if err != nil || again != nil || !reflect.DeepEqual(once, twice) {
			t.Errorf("once it is %+v, %v, and twice %+v, %v", once, err, twice, again)
		}
		if slice, ok := twice.(*discoveryv1.EndpointSlice); ok && slice.Labels[proxypod.LabelGateway] != "" && slice.Endpoints[0].TargetRef == nil {
			t.Errorf("nobody knows whose endpoint it is: %+v", slice)
		}
	}
}
