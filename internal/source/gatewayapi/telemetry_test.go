package gatewayapi_test

import (
	"cmp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"gateway/internal/source/gatewayapi"
)

// traced is a Gateway with a policy for its traces, whose field tracing is TRACING.
const traced = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: ours}
spec: {controllerName: app.example.com/gateway}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: infra}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: Service
metadata: {name: collector, namespace: infra}
spec: {ports: [{port: 4318}, {port: 4317, appProtocol: grpc}, {port: 443, appProtocol: https}, {port: 1, appProtocol: otlp}]}
---
kind: ServiceImport
metadata: {name: collector, namespace: infra}
spec: {ports: [{port: 4318}]}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XTelemetryPolicy
metadata: {name: spans, namespace: infra}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: shop}]
  tracing: TRACING
`

// tracedAs returns what there is with a field tracing.
func tracedAs(t *testing.T, tracing string) gatewayapi.Objects {
	t.Helper()
	return parseAll(t, []byte(strings.Replace(traced, "TRACING", tracing, 1)))
}

// saidOf returns what the first condition that is not True says of the policy, "" if all are.
func saidOf(t *testing.T, result *gatewayapi.Result) string {
	t.Helper()
	for _, ancestors := range result.Status(nil, allLive{}).Telemetry {
		for _, c := range ancestors[0].Conditions {
			if c.Status != "True" {
				return c.Type + " " + c.Reason + ": " + c.Message
			}
		}
		return ""
	}
	t.Fatal("the policy has no status")
	return ""
}

// TestTelemetryThatIsRefused: what a policy asks for and the proxies cannot carry out is named, and it has no effect.
func TestTelemetryThatIsRefused(t *testing.T) {
	for field, want := range map[string]string{
		"":                               "",
		"parentBasedSampling: {}":        "",
		"samplingRate: {numerator: 100}": "",
		"samplingRate: {numerator: 101}": "Accepted Invalid: tracing.samplingRate: 101 of 100 is no rate",
		"parentBasedSampling: {mode: ImplementationDefault}":                                    "",
		"samplingRate: {numerator: 1, denominator: 2000000000}":                                 "Accepted Invalid: tracing.samplingRate: the lowest rate",
		"parentBasedSampling: {mode: Enabled}":                                                  "Accepted Invalid: tracing.parentBasedSampling: trusted proxies alone",
		"parentBasedSampling: {mode: Disabled}":                                                 "Accepted Invalid: tracing.parentBasedSampling: trusted proxies alone",
		"parentBasedSampling: {samplingRate: {numerator: 1}}":                                   "Accepted Invalid: tracing.parentBasedSampling: trusted proxies alone",
		"serviceName: shop":                                                                     "Accepted Invalid: tracing.serviceName: it is the name of the Gateway",
		"spanName: shop":                                                                        "Accepted Invalid: tracing.spanName: it is not supported",
		"attributes: [{name: a, sourceType: Literal, literalValue: b}]":                         "Accepted Invalid: tracing.attributes: it is not supported",
		"provider: {backendRef: {name: collector, port: 4317}}":                                 `Accepted Invalid: tracing.provider: port 4317 of Service infra/collector has appProtocol "grpc"`,
		"provider: {backendRef: {name: collector, port: 443}}":                                  `Accepted Invalid: tracing.provider: port 443 of Service infra/collector has appProtocol "https"`,
		"provider: {backendRef: {name: collector, port: 1}}":                                    "",
		"provider: {backendRef: {name: collector, port: 2}}":                                    "ResolvedRefs BackendNotFound: Service infra/collector has no port 2 for TCP",
		"provider: {backendRef: {name: ServiceImport.collector, port: 4318}}":                   "ResolvedRefs BackendNotFound: there is no Service infra/ServiceImport.collector: create it or change the reference",
		"provider: {backendRef: {name: collector}}":                                             "ResolvedRefs BackendNotFound: Service infra/collector has no port 0 for TCP",
		"provider: {backendRef: {name: collector, port: 4318}, headers: [{name: a, value: b}]}": "Accepted Invalid: tracing.provider.headers: spans are sent without",
	} {
		provider := "provider: {backendRef: {name: collector, port: 4318}}"
		if strings.HasPrefix(field, "provider:") {
			provider = field
			field = ""
		}
		tracing := "{mode: Enabled, " + provider
		if field != "" {
			tracing += ", " + field
		}
		result := gatewayapi.Translate(tracedAs(t, tracing+"}"))
		what := cmp.Or(field, provider)
		if got := saidOf(t, result); want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		if planes := result.DataPlanes(); (planes[0].Spec.Tracing != nil) != (want == "") {
			t.Errorf("%s: traces are %+v", what, planes[0].Spec.Tracing)
		}
	}
}

// TestTelemetryFollowsItsCollector: an edit of the Service decides again whether a policy has an effect.
func TestTelemetryFollowsItsCollector(t *testing.T) {
	objects := tracedAs(t, "{mode: Enabled, provider: {backendRef: {name: collector, port: 4318}}}")
	service, known := objects.Service("infra", "collector")
	objects.Service = func(string, string) (*corev1.Service, bool) { return service, known }
	index := gatewayapi.NewIndex(objects)
	for _, now := range []*corev1.Service{service, nil, service} {
		service = now
		index.ChangeService("infra", "collector")
		result := index.Result()
		if got := saidOf(t, result); (got == "") != (now != nil) || result.DataPlanes()[0].Spec.Tracing == nil != (now == nil) {
			t.Errorf("with the Service %v: %q, traces are %+v", now != nil, got, result.DataPlanes()[0].Spec.Tracing)
		}
	}
}
