package rules

import (
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterBandwidthLimit, onForwarded, func(f *appv1.RuleFilter) *appv1.BandwidthLimit { return f.BandwidthLimit }, (*rule).addBandwidthLimit)
}

func (r *rule) addBandwidthLimit(from *appv1.BandwidthLimit) {
	r.Bandwidth = &model.Bandwidth{}
	if request := from.Request; request != nil {
		r.Bandwidth.Request = request.BytesPerSecond
	}
	if response := from.Response; response != nil {
		r.Bandwidth.Response, r.Bandwidth.MinResponse = response.BytesPerSecond, ptr.Deref(response.MinBytes, 0)
	}
}
