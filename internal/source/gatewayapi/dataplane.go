package gatewayapi

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
)

// kindConfig is the kind of the objects that parametersRefs name.
const kindConfig = "GatewayConfig"

// configure applies the GatewayConfigs of the class and the Gateway, and policies, to a data plane.
func (t *translator) configure(p *plane, class *gatewayv1.GatewayClass) {
	p.own = &appv1.GatewaySpec{AllowedHostnames: t.Hostnames, NamespaceBudget: t.Budget}
	p.ownership.by, p.budget.by = "its "+kindConfig, "its "+kindConfig
	p.filters, p.proxyProtocol, p.tls = t.ListenerFilters, t.ProxyProtocol, t.TLS
	config, problem := t.classConfig(class)
	if problem != "" {
		p.refused.no(gatewayv1.GatewayReasonInvalidParameters, "GatewayClass %s: %s", class.Name, problem)
	}
	p.merge(config)
	infrastructure := ptr.Deref(p.gateway.Spec.Infrastructure, gatewayv1.GatewayInfrastructure{})
	if ref := infrastructure.ParametersRef; ref != nil {
		config, problem := t.config(string(ref.Group), string(ref.Kind), p.gateway.Namespace, ref.Name)
		if problem != "" {
			p.refused.alsoIn("infrastructure.parametersRef", gatewayv1.GatewayReasonInvalidParameters, "%s", problem)
		}
		p.merge(config)
	}
	p.ownership.spec = ptr.Deref(p.own.AllowedHostnames, appv1.AllowedHostnames{})
	p.budget.spec = ptr.Deref(p.own.NamespaceBudget, appv1.NamespaceBudget{})
	t.addTelemetry(p)
	p.own.Pods.Annotations = with(p.own.Pods.Annotations, infrastructure.Annotations)
	p.own.Service.Annotations = with(p.own.Service.Annotations, infrastructure.Annotations)
	p.to.Settings = source.Translate(&appv1.Gateway{Spec: *p.own}).Settings
	p.to.Policies = map[model.Backend]model.BackendPolicy{}
}

// with returns a map with more entries.
func with[K, V ~string](all map[string]string, more map[K]V) map[string]string {
	all = maps.Clone(all)
	for key, value := range more {
		if all == nil {
			all = map[string]string{}
		}
		all[string(key)] = string(value)
	}
	return all
}

// classConfig returns the GatewayConfig of a class, nil if it names none, or its problem.
func (t *translator) classConfig(class *gatewayv1.GatewayClass) (config *appv1.GatewayConfig, problem string) {
	ref := class.Spec.ParametersRef
	switch {
	case ref == nil:
		return nil, ""
	case ref.Namespace == nil:
		return nil, "parametersRef.namespace is missing: name that of a GatewayConfig"
	}
	config, problem = t.config(string(ref.Group), string(ref.Kind), string(*ref.Namespace), ref.Name)
	if problem != "" {
		problem = "parametersRef: " + problem
	}
	return config, problem
}

func (t *translator) config(group, kind, namespace, name string) (*appv1.GatewayConfig, string) {
	if group != appv1.GroupName || kind != kindConfig {
		return nil, "only a " + kindConfig + " of group " + appv1.GroupName + " can be named"
	}
	t.configs[types.NamespacedName{Namespace: namespace, Name: name}] = true
	if t.Config != nil {
		if config := t.Config(namespace, name); config != nil {
			return config, ""
		}
	}
	return nil, "there is no " + kindConfig + " " + namespace + "/" + name + ": create it or change the reference"
}

// merge replaces the settings that a GatewayConfig sets.
func (p *plane) merge(config *appv1.GatewayConfig) {
	if config == nil {
		return
	}
	spec := &config.Spec
	p.own.Replicas = cmp.Or(spec.Replicas, p.own.Replicas)
	if spec.TrustedProxies != nil {
		p.own.TrustedProxies = spec.TrustedProxies
	}
	if spec.AllowedHostnames != nil {
		p.own.AllowedHostnames, p.ownership.by = spec.AllowedHostnames, kindConfig+" "+config.Namespace+"/"+config.Name
	}
	if spec.NamespaceBudget != nil {
		p.own.NamespaceBudget, p.budget.by = spec.NamespaceBudget, kindConfig+" "+config.Namespace+"/"+config.Name
	}
	p.proxyProtocol, p.tls = cmp.Or(spec.ProxyProtocol, p.proxyProtocol), ptr.Deref(spec.TLS, p.tls)
	p.own.ClientLimits = ptr.Deref(spec.ClientLimits, p.own.ClientLimits)
	p.own.Compression = cmp.Or(spec.Compression, p.own.Compression)
	p.own.Http3 = cmp.Or(spec.Http3, p.own.Http3)
	p.own.AccessLog = cmp.Or(spec.AccessLog, p.own.AccessLog)
	p.own.RequestMetrics = cmp.Or(spec.RequestMetrics, p.own.RequestMetrics)
	p.own.Tracing = cmp.Or(spec.Tracing, p.own.Tracing)
	if spec.ErrorPages != nil {
		p.own.ErrorPages = spec.ErrorPages
	}
	p.filters = mergeFilters(config, p.filters)
	p.own.Cache = cmp.Or(spec.Cache, p.own.Cache)
	p.own.DrainTimeout, p.own.Watch = cmp.Or(spec.DrainTimeout, p.own.DrainTimeout), cmp.Or(spec.Watch, p.own.Watch)
	p.own.Service, p.own.Pods = ptr.Deref(spec.Service, p.own.Service), ptr.Deref(spec.Pods, p.own.Pods)
}

// mergeFilters replaces the filters, and the limit of bodies, that a GatewayConfig sets. Their shadow and mandatory
// are replaced with them.
func mergeFilters(config *appv1.GatewayConfig, before source.Filters) source.Filters {
	spec, merged := &config.Spec, before
	filters, most := before, before
	own := source.Filters{RouteFilterSpec: appv1.RouteFilterSpec{Shadow: spec.Shadow}, Mandatory: spec.Mandatory}
	if spec.Filters != nil {
		merged.Filters, filters = spec.Filters, own
	}
	if spec.MaxRequestBytes != nil {
		merged.MaxRequestBytes, most = spec.MaxRequestBytes, own
	}
	if spec.Filters != nil || spec.MaxRequestBytes != nil {
		merged.By = kindConfig + " " + config.Namespace + "/" + config.Name
	}
	isOfBodies := func(name appv1.ShadowFilter) bool { return name == appv1.ShadowMaxRequestBytes }
	merged.Shadow = slices.DeleteFunc(slices.Clone(filters.Shadow), isOfBodies)
	if slices.ContainsFunc(most.Shadow, isOfBodies) {
		merged.Shadow = append(merged.Shadow, appv1.ShadowMaxRequestBytes)
	}
	isOfAllBodies := func(m appv1.MandatoryFilter) bool { return m.Type == appv1.MandatoryMaxRequestBytes }
	merged.Mandatory = slices.DeleteFunc(slices.Clone(filters.Mandatory), isOfAllBodies)
	if i := slices.IndexFunc(most.Mandatory, isOfAllBodies); i >= 0 {
		merged.Mandatory = append(merged.Mandatory, most.Mandatory[i])
	}
	return merged
}

// DataPlane is the Gateway of our own that a Gateway of the Gateway API needs.
type DataPlane struct {
	// Gateway is the Gateway that it is for.
	Gateway *gatewayv1.Gateway
	// Name is the name of our Gateway, in the same namespace.
	Name string
	// Labels are the labels of our Gateway, its Service and its pods.
	Labels map[string]string
	// Spec is nil if nothing can be made of what the Gateway asks for: our Gateway stays as it is.
	Spec *appv1.GatewaySpec
}

// DataPlanes returns the data planes of all Gateways whose class is ours. They have one listener for each port, with
// the settings of all, and the certificates that the pods mount. The agents read the listeners from the Gateways and
// ListenerSets themselves.
func (r *Result) DataPlanes() []DataPlane {
	var all []DataPlane
	for _, plane := range r.t.planes {
		if plane.gateway == nil {
			continue
		}
		spec := plane.own.DeepCopy()
		spec.Listeners = plane.ports()
		if name := plane.to.BackendCertificate; name != "" {
			spec.BackendClientCertificateRef = &appv1.ObjectReference{Name: name}
		}
		if len(spec.Listeners) == 0 || plane.refused.reason() != "" || len(plane.addresses) > 1 || plane.isUnreachable {
			spec = nil
		}
		infrastructure := ptr.Deref(plane.gateway.Spec.Infrastructure, gatewayv1.GatewayInfrastructure{})
		labels := with(map[string]string{gatewayv1.GatewayNameLabelKey: plane.gateway.Name}, infrastructure.Labels)
		all = append(all, DataPlane{plane.gateway, DataPlaneName(plane.gateway.Name), labels, spec})
	}
	return all
}

// maxName is the longest name of a Gateway of our own.
const maxName = 55

// DataPlaneName returns the name of our Gateway for a Gateway of the Gateway API.
func DataPlaneName(gateway string) string {
	if len(gateway) <= maxName && len(validation.IsDNS1035Label(gateway)) == 0 {
		return gateway
	}
	return "g-" + hashed(gateway[:min(len(gateway), maxName-19)], gateway)
}

// ports returns a listener of our own kind for each port, named after the first one. It is one that terminates TLS if
// there is any: that decides about HTTP/3. A port that lacks certificates is not there.
func (p *plane) ports() []appv1.Listener {
	var all []appv1.Listener
	places := map[int32]int{}
	for i := range p.to.Listeners {
		from := &p.to.Listeners[i]
		if from.TLS != nil && len(from.TLS.Secrets) == 0 {
			continue
		}
		place, known := places[from.Port]
		switch {
		case !known:
			places[from.Port] = len(all)
			all = append(all, p.port(from))
		case from.TLS == nil:
		case all[place].TLS.Mode == appv1.TLSModePassthrough:
			name := all[place].Name
			all[place] = p.port(from)
			all[place].Name = name
		default:
			addCertificates(all[place].TLS, from.TLS)
		}
	}
	return all
}

// port returns a listener of our own kind with the settings of one of the model, but for its hostname.
func (p *plane) port(from *model.Listener) appv1.Listener {
	to := appv1.Listener{Name: appv1.Name(from.Name), Port: from.Port, Protocol: appv1.Protocol(from.Protocol)}
	if from.ProxyProtocol {
		to.ProxyProtocol = appv1.ProxyProtocolAny
	}
	if from.Filters != nil {
		to.Filters, to.MaxRequestBytes, to.Shadow = p.filters.Filters, p.filters.MaxRequestBytes, p.filters.Shadow
		to.Mandatory = p.filters.Mandatory
	}
	switch {
	case from.TLS == nil && from.Protocol == model.ProtocolTLS:
		to.TLS = &appv1.ListenerTLS{Mode: appv1.TLSModePassthrough}
	case from.TLS != nil:
		to.TLS = &appv1.ListenerTLS{Mode: appv1.TLSModeTerminate, MinVersion: p.tls.MinVersion, CipherProfile: p.tls.CipherProfile}
		if from.Protocol == model.ProtocolHTTPS {
			to.TLS.HSTS = p.tls.HSTS
		}
		addCertificates(to.TLS, from.TLS)
	}
	return to
}

// addCertificates adds the certificates of a listener of the model to a port's, which are ordered by name. It adds
// none beyond what a port may have.
func addCertificates(to *appv1.ListenerTLS, from *model.ListenerTLS) {
	for _, name := range from.Secrets {
		if len(to.CertificateRefs) == appv1.MaxMounted {
			return
		}
		ref := appv1.ObjectReference{Name: name}
		place, known := slices.BinarySearchFunc(to.CertificateRefs, ref, func(a, b appv1.ObjectReference) int { return cmp.Compare(a.Name, b.Name) })
		if !known {
			to.CertificateRefs = slices.Insert(to.CertificateRefs, place, ref)
		}
	}
}

// For returns the model for a Gateway of our own, nil if nothing is known of the Gateway that it was made for.
func (r *Result) For(own *appv1.Gateway) *model.Gateway {
	parent := proxypod.Parent(own)
	if parent == "" {
		return r.Planes[OwnParent(own.Namespace, own.Name)]
	}
	plane := r.Planes[GatewayParent(own.Namespace, parent)]
	if plane == nil {
		return nil
	}
	made := *plane
	made.Origins = slices.Concat([]model.Origin{origin(kindGateway, own)}, plane.Origins)
	made.Settings = source.Translate(&appv1.Gateway{Spec: own.Spec}).Settings
	made.Policies, made.BackendCertificate = plane.Policies, plane.BackendCertificate
	return &made
}
