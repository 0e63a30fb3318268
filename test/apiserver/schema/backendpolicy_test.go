package schema

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
)

// TestBackendPolicy: a BackendPolicy names Services and has at least one setting, by the rules of spec.backends. The
// group and the kind of a target have defaults.
func TestBackendPolicy(t *testing.T) {
	t.Parallel()
	web := []appv1.BackendPolicyTarget{{Name: "web"}}
	imported := appv1.BackendPolicyTarget{Group: "multicluster.x-k8s.io", Kind: "ServiceImport", Name: "web"}
	checked := appv1.BackendSettings{HealthCheck: &appv1.HealthCheck{Path: "/healthz"}}
	outliers := appv1.BackendSettings{OutlierDetection: &appv1.OutlierDetection{}}
	balanced := func(algorithm appv1.LoadBalancingAlgorithm) appv1.BackendSettings {
		return appv1.BackendSettings{LoadBalancing: &appv1.LoadBalancing{Algorithm: algorithm}}
	}
	for name, test := range map[string]struct {
		targets  []appv1.BackendPolicyTarget
		settings appv1.BackendSettings
		want     string
	}{
		"a Service":          {web, checked, ""},
		"two of its ports":   {[]appv1.BackendPolicyTarget{{Name: "web", SectionName: "a"}, {Name: "web", SectionName: "b"}}, checked, ""},
		"a port and all":     {[]appv1.BackendPolicyTarget{{Name: "web", SectionName: "a"}, {Name: "web"}}, checked, ""},
		"no Service":         {nil, checked, "spec.targetRefs: Required value"},
		"a Service twice":    {[]appv1.BackendPolicyTarget{{Name: "web"}, {Name: "web"}}, checked, "spec.targetRefs: Invalid value: two targetRefs are for the same Service port: remove one of them"},
		"another kind":       {[]appv1.BackendPolicyTarget{{Kind: "ConfigMap", Name: "web"}}, checked, `spec.targetRefs[0].kind: Unsupported value: "ConfigMap": supported values: "Service", "ServiceImport"`},
		"another group":      {[]appv1.BackendPolicyTarget{{Kind: "ServiceImport", Name: "web"}}, checked, "spec.targetRefs[0]: Invalid value: a ServiceImport is of the group multicluster.x-k8s.io"},
		"a ServiceImport":    {[]appv1.BackendPolicyTarget{{Name: "web"}, imported}, checked, ""},
		"no setting":         {web, appv1.BackendSettings{}, "spec: Invalid value: 1: spec in body should have at least 2 properties"},
		"outliers unchecked": {web, outliers, "spec.outlierDetection: Invalid value: outlierDetection needs healthCheck"},
		"Header without one": {web, balanced(appv1.LoadBalancingHeader), "spec.loadBalancing.header: Invalid value: header is required for algorithm Header"},
	} {
		policy := &appv1.BackendPolicy{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"},
			Spec:       appv1.BackendPolicySpec{TargetRefs: test.targets, BackendSettings: test.settings},
		}
		made, err := server.App.AppV1().BackendPolicies("default").Create(t.Context(), policy, metav1.CreateOptions{})
		switch {
		case test.want == "" && err != nil, test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: got the error %v, want %q", name, err, test.want)
		case err == nil && made.Spec.TargetRefs[0].Kind != "Service":
			t.Errorf("%s: got %+v", name, made.Spec.TargetRefs)
		}
	}
}
