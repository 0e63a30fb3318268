package endpoints

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	if kept := StripService(service); !reflect.DeepEqual(kept, newService("api", read)) {
		t.Errorf("of a Service stays %+v", kept)
	}
	zone := "a"
	slice := newSlice("api", 8080, newReady("10.0.0.1"))
	slice.Endpoints[0].Zone = &zone
	slice.Labels["other"] = "label"
	if kept := StripSlice(slice); !reflect.DeepEqual(kept, newSlice("api", 8080, newReady("10.0.0.1"))) {
		t.Errorf("of an EndpointSlice stays %+v", kept)
	}
	// A pod that does not see itself among the endpoints never becomes ready.
	proxies := newSlice("shop-gateway", 443, newReady("10.0.0.1"))
	proxies.Labels[proxypod.LabelGateway] = "shop"
	proxies.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "shop-gateway-1"}
	if kept := StripSlice(proxies); !reflect.DeepEqual(kept, proxies) {
		t.Errorf("of endpoints that are proxies stays %+v", kept)
	}
}

// TestServicesOf: an EndpointSlice may be of a Service and of a ServiceImport, or of none.
func TestServicesOf(t *testing.T) {
	for name, test := range map[string]struct {
		labels map[string]string
		want   []string
	}{
		"none":            {nil, nil},
		"a Service":       {map[string]string{discoveryv1.LabelServiceName: "web"}, []string{"web"}},
		"a ServiceImport": {map[string]string{LabelServiceImport: "web"}, []string{"ServiceImport.web"}},
		"both":            {map[string]string{discoveryv1.LabelServiceName: "derived", LabelServiceImport: "web"}, []string{"derived", "ServiceImport.web"}},
	} {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}}
		if got := ServicesOf(slice); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
