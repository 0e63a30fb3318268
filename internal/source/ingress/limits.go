package ingress

import (
	"strconv"

	appv1 "gateway/api/app/v1"
)

const (
	// Each line of these is a note.
	limitNote = "clients get 429, not 503\neach rule counts for itself, and for all proxy pods together\n" +
		"a burst may come again until the minute (limit-rps) or hour (limit-rpm) is full"
	atATimeNote = "clients get 429, not 503\neach rule counts for itself"

	mostRequests  = "a limit may have up to 1000000 requests, so one of these is less"
	noBurst       = "requests may come at once: nginx wants each some time after the one before"
	longBurst     = "a burst is up to 60 times the limit"
	noExemption   = "no clients are exempt, so these are limited too"
	withoutLimit  = "it has no effect without limit-rps or limit-rpm"
	withoutLimits = "it has no effect without limit-rps, limit-rpm or limit-connections"
)

const (
	// burstMultiplier is how many times its limit nginx lets through at once.
	burstMultiplier = 5
	// maxRequests is how many requests a limit may have.
	maxRequests = 1_000_000
)

// limitUnits are the units of nginx's limits, each with the one of 60 times its length.
var limitUnits = map[string][2]appv1.RateLimitUnit{
	"limit-rps": {appv1.RateLimitSecond, appv1.RateLimitMinute},
	"limit-rpm": {appv1.RateLimitMinute, appv1.RateLimitHour},
}

// setLimits converts the limits of a client's requests. nginx lets a burst through at once, and the limit on average.
// Here, the limit's own unit lets the burst through, and the longer unit keeps the average.
func setLimits(s *settings, value string) string {
	if limit, text := readLimit(value); limit == 0 {
		return text
	}
	limits, cut := s.requestLimits()
	s.rateLimit().Limits = limits
	s.noteOnce(addressNotes, ipv6Note)
	return limitNote + either(cut, "\n"+mostRequests, "")
}

// setConcurrent converts the limit of a client's concurrent requests. Each pod of nginx counts separately, too.
func setConcurrent(s *settings, value string) string {
	limit, text := readLimit(value)
	if limit == 0 {
		return text
	}
	s.noteOnce(addressNotes, ipv6Note)
	s.rateLimit().Concurrent = &appv1.ConcurrentLimit{Requests: int32(min(limit, maxRequests))} //nolint:gosec // it is maxRequests at most
	return atATimeNote + either(limit > maxRequests, "\n"+mostRequests, "")
}

// readLimit returns a limit, or 0 and what is to be noted: nginx does not limit then.
func readLimit(value string) (int64, string) {
	limit, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0, noNumber
	}
	return max(0, limit), ""
}

// rateLimit returns the filter of the rule, which it adds for the first annotation that wants it.
func (s *settings) rateLimit() *appv1.RateLimit {
	filters := &s.rule.extension.Filters
	for _, filter := range *filters {
		if filter.RateLimit != nil {
			return filter.RateLimit
		}
	}
	limit := &appv1.RateLimit{}
	*filters = append(*filters, appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: limit})
	return limit
}

// requestLimits returns the limits of all annotations together, the least for each unit, and whether one had to be
// less.
func (s *settings) requestLimits() (limits []appv1.RequestLimit, cut bool) {
	most := map[appv1.RateLimitUnit]int64{}
	bound := func(unit appv1.RateLimitUnit, requests int64) {
		cut = cut || requests > maxRequests
		if other, ok := most[unit]; !ok || requests < other {
			most[unit] = min(requests, maxRequests)
		}
	}
	multiplier, err := strconv.ParseInt(s.values["limit-burst-multiplier"], 10, 32)
	if err != nil {
		multiplier = burstMultiplier
	}
	for name, units := range limitUnits {
		if limit, _ := readLimit(s.values[name]); limit > 0 {
			bound(units[0], limit*max(1, multiplier)+1) // nginx does not count the request before the burst
			bound(units[1], limit*60)
		}
	}
	for _, unit := range []appv1.RateLimitUnit{appv1.RateLimitSecond, appv1.RateLimitMinute, appv1.RateLimitHour} {
		if requests, ok := most[unit]; ok {
			limits = append(limits, appv1.RequestLimit{Requests: int32(requests), Unit: unit}) //nolint:gosec // it is maxRequests at most
		}
	}
	return limits, cut
}

// setBurst handles an annotation that requestLimits reads.
func setBurst(s *settings, value string) string {
	limits, _ := s.requestLimits()
	multiplier, err := strconv.ParseInt(value, 10, 32)
	switch {
	case len(limits) == 0:
		return withoutLimit
	case err != nil:
		return noNumber
	case multiplier < 1:
		return noBurst
	}
	return either(multiplier > 60, longBurst, "")
}

// setExempt handles clients that nginx does not limit. They are limited here: a guard must not be opened.
func setExempt(s *settings, value string) string {
	limits, _ := s.requestLimits()
	concurrent, _ := readLimit(s.values["limit-connections"])
	switch {
	case len(limits) == 0 && concurrent == 0:
		return withoutLimits
	case value == "":
		return ""
	}
	return noExemption
}

// maxRate is the highest limit of bandwidth, in KiB in a second.
const maxRate = 1 << 20

const fromStart = "answers that are longer, or of unknown length, have the limit of limit-rate from their first byte on"

// setRate limits the bandwidth of answers, with limit-rate-after. Both are in KiB.
func setRate(s *settings, _ string) string {
	rate, ok := s.number("limit-rate")
	if !ok || rate == 0 {
		return ""
	}
	response := &appv1.ResponseBandwidth{BytesPerSecond: min(int64(rate), maxRate) << 10}
	if after, err := strconv.ParseUint(s.values["limit-rate-after"], 10, 31); err == nil && after > 0 {
		response.MinBytes = new(min(int64(after)<<10+1, maxBody)) //nolint:gosec // it has 31 bits
	}
	s.rule.extension.Filters = append(s.rule.extension.Filters, appv1.RuleFilter{
		Type: appv1.RuleFilterBandwidthLimit, BandwidthLimit: &appv1.BandwidthLimit{Response: response},
	})
	return ""
}

func setRateAfter(s *settings, value string) string {
	after, ok := s.number("limit-rate-after")
	if text := part("limit-rate")(s, value); text != "" || !ok || after == 0 {
		return text
	}
	return fromStart
}
