package rules

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterRateLimit, onAll, func(f *appv1.RuleFilter) *appv1.RateLimit { return f.RateLimit }, (*rule).addRateLimit)
}

func (r *rule) addRateLimit(from *appv1.RateLimit) {
	if concurrent := from.Concurrent; concurrent != nil {
		r.RateLimits = append(r.RateLimits, rateLimit(concurrent.Requests, 0, concurrent.Key))
	}
	for _, limit := range from.Limits {
		r.RateLimits = append(r.RateLimits, rateLimit(limit.Requests, periods[limit.Unit], limit.Key))
	}
	slices.SortFunc(r.RateLimits, func(a, b model.RateLimit) int { return cmp.Compare(a.Period, b.Period) })
}

var periods = map[appv1.RateLimitUnit]time.Duration{
	appv1.RateLimitSecond: time.Second, appv1.RateLimitMinute: time.Minute, appv1.RateLimitHour: time.Hour,
}

var limitKeys = map[appv1.RateLimitKeyType]model.RateLimitKey{
	appv1.RateLimitHeader: model.ByHeader, appv1.RateLimitCookie: model.ByCookie, appv1.RateLimitPath: model.ByPath,
	appv1.RateLimitRule: model.ByRule, appv1.RateLimitClaim: model.ByClaim,
	appv1.RateLimitClient: model.ByClient,
}

func rateLimit(requests int32, period time.Duration, by *appv1.RateLimitKey) model.RateLimit {
	key := ptr.Deref(by, appv1.RateLimitKey{})
	limit := model.RateLimit{Requests: requests, Period: period, Key: limitKeys[key.Type], Name: key.Name}
	if limit.Key == model.ByHeader {
		limit.Name = lower(key.Name)
	}
	return limit
}
