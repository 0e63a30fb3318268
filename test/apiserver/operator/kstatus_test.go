package operator

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// expectKstatus checks what kstatus makes of a Gateway, which knows nothing of its kind.
func expectKstatus(t *testing.T, gateway *appv1.Gateway, want status.Status) {
	t.Helper()
	object := must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(gateway))(t)
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(appv1.SchemeGroupVersion.WithKind("Gateway"))
	result := must.Get(status.Compute(u))(t)
	if result.Status != want {
		t.Errorf("kstatus says %s (%s), want %s", result.Status, result.Message, want)
	}
}
