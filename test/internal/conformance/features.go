// Package conformance has what the two runs of the Gateway API's conformance suite share.
package conformance

import (
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/gateway-api/conformance/utils/config"
	"sigs.k8s.io/gateway-api/pkg/features"
)

// unsupported are the features that are not, with the reason.
var unsupported = map[features.FeatureName]string{
	features.SupportUDPRoute: "HAProxy does not speak UDP",
}

// Supported returns the features that are, but for those that something else keeps from being.
func Supported(except ...features.FeatureName) []features.FeatureName {
	var supported []features.FeatureName
	for feature := range features.AllFeatures {
		_, no := unsupported[feature.Name]
		if !no && !slices.Contains(except, feature.Name) && !strings.HasPrefix(string(feature.Name), "Mesh") {
			supported = append(supported, feature.Name)
		}
	}
	return supported
}

// Timeouts returns the suite's timeouts, most of them of one length.
func Timeouts(length time.Duration) config.TimeoutConfig {
	return config.TimeoutConfig{
		NamespacesMustBeReady: max(time.Minute, length), MaxTimeToConsistency: length, GatewayMustHaveAddress: length,
		GatewayMustHaveCondition: length, GatewayStatusMustHaveListeners: length,
		GatewayListenersMustHaveConditions: length, RouteMustHaveParents: length,
		HTTPRouteMustHaveCondition: length, TLSRouteMustHaveCondition: length, TCPRouteMustHaveCondition: length,
		ListenerSetMustHaveCondition: length, ListenerSetListenersMustHaveConditions: length,
		LatestObservedGenerationSet: length, DefaultTestTimeout: length,
		DefaultPollInterval: 100 * time.Millisecond, TestIsolation: time.Millisecond,
	}
}
