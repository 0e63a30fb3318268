package filters_test

import (
	"testing"
	"time"

	"gateway/internal/haproxy/filters"
	"gateway/internal/routing"
)

// TestLimitsOfKinds: an HTTPRoute and a GRPCRoute of one name do not count together.
func TestLimitsOfKinds(t *testing.T) {
	encoded := map[string]bool{}
	for _, kind := range []string{"HTTPRoute", "GRPCRoute"} {
		rule := &routing.Rule{Kind: kind, Route: "team/web", Action: &routing.Action{}}
		rule.RateLimits = []routing.RateLimit{{Requests: 1, Period: time.Second}}
		encoded[filters.Encode(filters.Input{Rule: rule})] = true
	}
	if len(encoded) != 2 {
		t.Errorf("both have the filters %v", encoded)
	}
}
