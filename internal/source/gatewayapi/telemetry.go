package gatewayapi

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// kindTelemetry is the kind of policies for traces, of the experimental channel. One comes before the GatewayConfigs of
// its Gateway.
const kindTelemetry = "XTelemetryPolicy"

// telemetry is a policy for traces at a data plane, with its problem and its reference.
type telemetry struct {
	policy             *v1alpha1.XTelemetryPolicy
	accepted, resolved verdict
}

// addTelemetry has the oldest policy for a Gateway decide how its data plane takes part in traces. A policy that is
// refused has no effect, and leaves none to those after it.
func (t *translator) addTelemetry(p *plane) {
	for _, policy := range t.Telemetry {
		if !isForGateway(policy, p.gateway) {
			continue
		}
		one := telemetry{policy: policy, accepted: telemetryProblem(&policy.Spec.Tracing)}
		collector := t.collector(p, &one)
		switch {
		case len(p.telemetry) > 0:
			one.accepted = verdict{}
			one.accepted.no(gatewayv1.PolicyReasonConflicted, "%s %s comes first", kindTelemetry, p.telemetry[0].policy.Name)
		case one.accepted.reason() == "" && one.resolved.reason() == "":
			p.own.Tracing = tracingOf(&policy.Spec.Tracing, collector, p.own.Tracing)
		}
		p.telemetry = append(p.telemetry, one)
	}
}

// isForGateway reports whether a policy names a Gateway, which is in its namespace then.
func isForGateway(policy *v1alpha1.XTelemetryPolicy, gateway *gatewayv1.Gateway) bool {
	for _, ref := range policy.Spec.TargetRefs {
		if isGateway(ref) && policy.Namespace == gateway.Namespace && string(ref.Name) == gateway.Name {
			return true
		}
	}
	return false
}

func isGateway(ref gatewayv1.LocalObjectReference) bool {
	return ref.Group == gatewayv1.GroupName && ref.Kind == kindGateway
}

// tracingOf returns what a policy makes of how requests take part in traces; nil: they do not.
func tracingOf(tracing *v1alpha1.TracingConfig, collector model.Backend, before *appv1.Tracing) *appv1.Tracing {
	switch tracing.Mode {
	case v1alpha1.TracingModeEnabled:
		to := &appv1.Tracing{Endpoint: fmt.Sprintf("%s.%s.svc:%d", collector.Service, collector.Namespace, collector.Port)}
		if rate := tracing.SamplingRate; rate != nil {
			million := perMillion(rate)
			to.SamplingRatePerMillion = &million
		}
		return to
	case v1alpha1.TracingModeDisabled:
		return nil
	}
	return before
}

// perMillion returns a rate that is at most 1, rounded.
func perMillion(rate *gatewayv1.Fraction) int32 {
	all := int64(ptr.Deref(rate.Denominator, 100))
	return int32((int64(rate.Numerator)*1_000_000 + all/2) / all) //nolint:gosec // at most a million
}

// telemetryProblem returns what cannot be carried out of what a policy asks for.
func telemetryProblem(tracing *v1alpha1.TracingConfig) (v verdict) {
	refuse := func(isSet bool, field, remedy string) {
		if isSet {
			v.also(gatewayv1.PolicyReasonInvalid, "tracing.%s: %s", field, remedy)
		}
	}
	const unsupported = "it is not supported: remove it"
	if rate := tracing.SamplingRate; rate != nil {
		all := ptr.Deref(rate.Denominator, 100)
		isRate := all > 0 && rate.Numerator >= 0 && rate.Numerator <= all
		refuse(!isRate, "samplingRate", fmt.Sprintf("%d of %d is no rate: it is from 0 to 1", rate.Numerator, all))
		refuse(isRate && rate.Numerator > 0 && perMillion(rate) == 0, "samplingRate", "the lowest rate is 1 of 1000000: use that, or 0")
	}
	parent := tracing.ParentBasedSampling
	isByParent := parent.SamplingRate != nil || parent.Mode != "" && parent.Mode != v1alpha1.ParentBasedSamplingModeImplementationDefault
	refuse(isByParent, "parentBasedSampling", "trusted proxies alone decide for others: remove it, and set trustedProxies of a GatewayConfig")
	refuse(len(tracing.Provider.Headers) > 0, "provider.headers", "spans are sent without credentials: let a collector of the cluster add them")
	refuse(tracing.ServiceName != "", "serviceName", "it is the name of the Gateway: remove it")
	refuse(tracing.SpanName != "", "spanName", unsupported)
	refuse(len(tracing.Attributes) > 0, "attributes", unsupported)
	return v
}

// collector returns the Service port that a policy has spans sent to, and notes what is wrong with it.
func (t *translator) collector(p *plane, one *telemetry) model.Backend {
	if one.policy.Spec.Tracing.Mode != v1alpha1.TracingModeEnabled {
		return model.Backend{}
	}
	ref, namespace := one.policy.Spec.Tracing.Provider.BackendRef, one.policy.Namespace
	backend := model.Backend{
		Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))), Service: string(ref.Name), Port: ptr.Deref(ref.Port, 0),
	}
	from := reference{v1alpha1.GroupName, kindTelemetry, namespace}
	switch v := &one.resolved; {
	case ptr.Deref(ref.Group, corev1.GroupName) != corev1.GroupName || ptr.Deref(ref.Kind, kindService) != kindService:
		v.no(v1alpha1.TelemetryPolicyReasonInvalidKind, "only Services can be collectors, and not objects of kind %s", ptr.Deref(ref.Kind, kindService))
	case backend.Name() != string(ref.Name): // no Service has such a name
		v.no(gatewayv1.RouteReasonBackendNotFound, "there is no Service %s/%s: create it or change the reference", backend.Namespace, ref.Name)
	case !t.isGranted(from, kindService, backend.Namespace, backend.Service):
		v.no(v1alpha1.TelemetryPolicyReasonRefNotPermitted, "no ReferenceGrant of namespace %s lets XTelemetryPolicies of namespace %s "+
			"refer to Service %s", backend.Namespace, namespace, backend.Service)
	default:
		p.fix(Object{kindService, backend.Namespace, backend.Service})
		t.checkPort(v, "TCPRoute", backend)
		t.checkCollector(&one.accepted, backend)
	}
	return backend
}

// checkCollector returns why spans cannot be sent to a Service port.
func (t *translator) checkCollector(v *verdict, backend model.Backend) {
	service, _ := t.service(backend)
	if service == nil {
		return
	}
	of := fmt.Sprintf("tracing.provider: port %d of Service %s/%s has", backend.Port, backend.Namespace, backend.Service)
	if len(t.tlsPolicies.of(t, backend)) > 0 {
		v.also(gatewayv1.PolicyReasonInvalid, "%s a BackendTLSPolicy, and spans are sent without TLS: let a collector of the cluster pass them on", of)
	}
	for _, port := range service.Spec.Ports {
		appProtocol := ptr.Deref(port.AppProtocol, "")
		protocol := model.ProtocolOf(appProtocol, "HTTPRoute")
		if port.Port == backend.Port && protocol != model.HTTP && protocol != model.UnknownProtocol {
			v.also(gatewayv1.PolicyReasonInvalid, "%s appProtocol %q, and spans are sent by OTLP over HTTP/1.1: name the port for that, usually 4318",
				of, appProtocol)
		}
	}
}

// telemetryStatus returns the status of a policy for traces, for each Gateway that it names.
func (t *translator) telemetryStatus(id Object) []gatewayv1.PolicyAncestorStatus {
	var all []gatewayv1.PolicyAncestorStatus
	for _, p := range t.planes {
		for _, one := range p.telemetry {
			if idOf(kindTelemetry, one.policy) == id {
				all = append(all, ancestorAt(p.parent,
					condition(gatewayv1.PolicyConditionAccepted, one.policy.Generation, one.accepted),
					condition(v1alpha1.TelemetryPolicyConditionResolvedRefs, one.policy.Generation, one.resolved),
				))
			}
		}
	}
	return all
}

// idleTelemetry returns the targets of policies for traces that are no Gateways.
func (t *translator) idleTelemetry() []IdleTarget {
	var all []IdleTarget
	for _, policy := range t.Telemetry {
		for i, ref := range policy.Spec.TargetRefs {
			isNamed := func(gateway *gatewayv1.Gateway) bool {
				return gateway.Namespace == policy.Namespace && gateway.Name == string(ref.Name)
			}
			switch {
			case !isGateway(ref):
				const message = "it is for Gateways of group %s, and not for objects of kind %s of group %q"
				all = append(all, isMissing(message, gatewayv1.GroupName, ref.Kind, ref.Group).of(kindTelemetry, policy, targetRef(i)))
			case !slices.ContainsFunc(t.Gateways, isNamed):
				const message = "there is no Gateway %s/%s: correct the name, or put the policy into the namespace of the Gateway"
				all = append(all, isMissing(message, policy.Namespace, ref.Name).of(kindTelemetry, policy, targetRef(i)))
			}
		}
	}
	return all
}
