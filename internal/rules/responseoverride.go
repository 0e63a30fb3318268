package rules

import (
	"cmp"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterResponseOverride, onForwarded, func(f *appv1.RuleFilter) *appv1.ResponseOverride { return f.ResponseOverride }, (*rule).addResponseOverride)
}

// addResponseOverride leaves out a Service that cannot be resolved: clients get the errors of the backend, and the
// status of the object tells.
func (r *rule) addResponseOverride(from *appv1.ResponseOverride) {
	for i := range from.Responses {
		response := &from.Responses[i]
		override := model.Override{Status: ptr.Deref(response.StatusCode, 0), Body: response.Body, ContentType: cmp.Or(response.ContentType, "text/html; charset=utf-8")}
		for _, status := range response.Statuses {
			override.Statuses = append(override.Statuses, int32(status))
		}
		if ref := response.BackendRef; ref != nil {
			var ok bool
			if override.Backend, ok = r.resolve(gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(ref.Name), Port: &ref.Port}); !ok {
				continue
			}
		}
		r.Overrides = append(r.Overrides, override)
	}
}
