//go:build slow

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
)

// The same with the operator's pods killed before every step: what one leaves undone, the next does.
func TestLifecycleWhileTheOperatorIsKilled(t *testing.T) {
	lifecycle(t, func(t *testing.T) {
		t.Helper()
		must.Do(t, kube.CoreV1().Pods(operatorNamespace).DeleteCollection(t.Context(),
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: operatorSelector}))
	})
}
