package endpoints

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
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
	if again, _ := Strip(kept); !reflect.DeepEqual(again, kept) {
		t.Errorf("stripping twice gives %+v", again)
	}
}
