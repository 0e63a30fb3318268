package operator

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	appv1 "gateway/api/app/v1"
)

// expectKstatus checks what kstatus makes of a Gateway, which knows nothing of its kind.
func expectKstatus(t *testing.T, gateway *appv1.Gateway, want status.Status) {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(gateway)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(appv1.SchemeGroupVersion.WithKind("Gateway"))
	result, err := status.Compute(u)
	if err != nil {
		t.Fatal(err)
	}
	if result.Status != want {
		t.Errorf("kstatus says %s (%s), want %s", result.Status, result.Message, want)
	}
}
