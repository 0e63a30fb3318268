package conformance

import "sigs.k8s.io/gateway-api/pkg/features"

// unsupported are the features that are not, with the reason.
var unsupported = map[features.FeatureName]string{
	features.SupportUDPRoute:                        "HAProxy does not speak UDP",
	features.SupportGatewayBackendClientCertificate: "gateway-keys gives HAProxy no certificates for servers",
	features.SupportBackendTLSPolicySANValidation:   "HAProxy verifies the name that it asks for, and no other: the policy is refused; see architecture.md",
	features.SupportGatewayStaticAddresses:          "addresses are the operator's, which is not part of this yet",
	features.SupportGatewayInfrastructure:           "labels and annotations are the operator's",
	features.SupportTLSRouteModeMixed:               "a port of HAProxy terminates TLS or passes it through",
}

// quick are tests that take little time, for each topic.
var quick = []string{
	"GatewayHTTPListenerIsolation", "GatewayInvalidRouteKind", "GatewaySecretMissingReferenceGrant", "GatewayWithAttachedRoutes",
	"GRPCExactMethodMatching", "HTTPRouteCORS", "HTTPRouteCrossNamespace", "HTTPRouteHTTPSListener", "HTTPRouteHeaderMatching",
	"HTTPRouteHostnameIntersection", "HTTPRouteInvalidBackendRefUnknownKind", "HTTPRouteInvalidCrossNamespaceParentRef",
	"HTTPRouteInvalidReferenceGrant", "HTTPRouteMatching", "HTTPRouteMatchingAcrossRoutes", "HTTPRouteRedirectPath",
	"HTTPRouteReferenceGrant", "HTTPRouteRequestMultipleMirrors", "HTTPRouteRewritePath", "HTTPRouteWeight", "ListenerSetHTTPRouting", "ListenerSetHostnameConflict",
	"TCPRouteWeightedRouting", "TLSRouteSimpleSameNamespace", "TLSRouteTerminateSimpleSameNamespace", "BackendTLSPolicyConflictResolution",
}
