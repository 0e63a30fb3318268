package appv1

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// The schema's defaults for the data plane as a whole.
const (
	defaultDrainTimeout   = time.Minute
	defaultMaxConnections = 10_000
	defaultMaxPerAddress  = 2_500
	defaultMaxHeaders     = 100
	defaultMaxHeaderBytes = 16_384
	defaultErrorType      = "text/html; charset=utf-8"
)

// defaultStopDelay is how long every node may take to learn that a pod is no endpoint any more.
const defaultStopDelay = 10 * time.Second

// Translate returns the model of a Gateway.
func Translate(gateway *appv1.Gateway) *model.Gateway {
	t := newTranslator(gateway)
	t.translateListeners()
	t.redirectToHTTPS()
	t.translateRoutes()
	t.translateConnections()
	t.refuseUnnamed(gateway)
	t.to.Routes = model.Ordered(t.routes...)
	return &t.to
}

// DrainTimeout returns how long connections may keep an old process of a Gateway from ending.
func DrainTimeout(spec *appv1.GatewaySpec) time.Duration {
	return cmp.Or(duration(spec.DrainTimeout), defaultDrainTimeout)
}

// StopDelay returns how long a pod of a Gateway that is to stop goes on accepting connections.
func StopDelay(spec *appv1.GatewaySpec) time.Duration {
	return cmp.Or(duration(spec.Pods.StopDelay), defaultStopDelay)
}

// translator makes a model of a Gateway.
type translator struct {
	origin model.Origin
	spec   *appv1.GatewaySpec
	to     model.Gateway
	routes []model.Route
	door   *door
	// redirects are the listeners that redirect everything.
	redirects []redirecting
}

// redirecting is the name of a listener that redirects everything, and the status it does it with.
type redirecting struct {
	listener string
	status   int32
}

func newTranslator(gateway *appv1.Gateway) *translator {
	spec := &gateway.Spec
	t := &translator{
		origin: model.Origin{Kind: "Gateway", Namespace: gateway.Namespace, Name: gateway.Name, Generation: gateway.Generation},
		spec:   spec,
		door:   newDoor(gateway.Namespace),
	}
	t.to.Origins = []model.Origin{t.origin}
	t.routes = make([]model.Route, 0, len(spec.Routes))
	t.to.Policies = t.policies()
	t.to.BackendCertificate = ptr.Deref(spec.BackendClientCertificateRef, appv1.ObjectReference{}).Name
	t.to.TrustedProxies = slices.Sorted(slices.Values(converted[string](spec.TrustedProxies)))
	t.to.MaxConnections = int(ptr.Deref(spec.ClientLimits.MaxConnections, defaultMaxConnections))
	t.to.MaxPerAddress = int(ptr.Deref(spec.ClientLimits.MaxPerAddress, defaultMaxPerAddress))
	t.to.MaxHeaders = int(ptr.Deref(spec.ClientLimits.MaxHeaders, defaultMaxHeaders))
	t.to.MaxHeaderBytes = int(ptr.Deref(spec.ClientLimits.MaxHeaderBytes, defaultMaxHeaderBytes))
	if compression := spec.Compression; compression != nil {
		t.to.Compression = &model.Compression{
			ContentTypes: slices.Sorted(slices.Values(converted[string](compression.ContentTypes))), MinBytes: ptr.Deref(compression.MinBytes, 1024),
		}
	}
	if spec.Http3 != nil {
		t.to.HTTP3MaxAge = ptr.Deref(spec.Http3.MaxAgeSeconds, 3600)
	}
	for _, name := range ptr.Deref(spec.AccessLog, appv1.AccessLog{}).RequestHeaders {
		t.to.LoggedHeaders = append(t.to.LoggedHeaders, strings.ToLower(string(name)))
	}
	slices.Sort(t.to.LoggedHeaders)
	t.to.RequestMetrics = string(spec.RequestMetrics)
	if tracing := spec.Tracing; tracing != nil {
		t.to.Tracing = &model.Tracing{Endpoint: tracing.Endpoint, PerMillion: ptr.Deref(tracing.SamplingRatePerMillion, 10_000)}
	}
	t.to.ErrorPages = errorPages(spec.ErrorPages)
	cache := ptr.Deref(spec.Cache, appv1.ResponseCache{})
	t.to.Cache = model.Cache{
		SizeMiB: ptr.Deref(cache.SizeMiB, 16), MaxObjectBytes: ptr.Deref(cache.MaxObjectBytes, 128<<10), MaxAgeSeconds: ptr.Deref(cache.MaxAgeSeconds, 60),
	}
	t.to.DrainTimeout = DrainTimeout(spec)
	budget := ptr.Deref(spec.NamespaceBudget, appv1.NamespaceBudget{})
	t.to.Shares = model.Shares{
		Owner: gateway.Namespace, Questions: ptr.Deref(budget.ConcurrentQuestions, 512), WAFBodies: ptr.Deref(budget.ConcurrentWAFBodies, 128),
		Bodies: ptr.Deref(budget.ConcurrentBodies, 512), Copies: ptr.Deref(budget.ConcurrentCopies, 128),
	}
	return t
}

// errorPages returns pages by their statuses. The schema admits no status twice.
func errorPages(pages []appv1.ErrorPage) map[int32]model.ErrorPage {
	byStatus := make(map[int32]model.ErrorPage, len(pages))
	for _, page := range pages {
		for _, status := range page.Statuses {
			byStatus[int32(status)] = model.ErrorPage{ContentType: cmp.Or(page.ContentType, defaultErrorType), Body: page.Body}
		}
	}
	return byStatus
}

// problem notes a part without effect. Without a route or listener, it is about the Gateway.
func (t *translator) problem(reason model.Reason, route *model.Route, listener, field, format string, args ...any) {
	t.to.Problems = append(t.to.Problems, model.Problem{
		Origin: t.origin, RouteKind: route.Kind, Route: route.Name, Listener: listener, Reason: reason, Field: field, Message: fmt.Sprintf(format, args...),
	})
}

func (t *translator) translateListeners() {
	for i := range t.spec.Listeners {
		listener := &t.spec.Listeners[i]
		if redirect := listener.HTTPSRedirect; redirect != nil {
			t.redirects = append(t.redirects, redirecting{string(listener.Name), ptr.Deref(redirect.StatusCode, 301)})
		}
		t.to.Listeners = append(t.to.Listeners, model.Listener{
			Origin: t.origin, Name: string(listener.Name), Port: listener.Port, Hostname: string(listener.Hostname),
			Protocol:      cmp.Or(string(listener.Protocol), model.ProtocolHTTP),
			ProxyProtocol: listener.ProxyProtocol != "", TLS: listenerTLS(listener.TLS),
			Filters: ListenerFilters(string(listener.Name), t.origin.Namespace, FiltersOf(listener, "Gateway "+t.origin.Namespace+"/"+t.origin.Name)),
		})
		if filters := t.to.Listeners[i].Filters; filters != nil && filters.Invalid() != "" {
			t.problem(model.ReasonUnsupportedValue, &model.Route{}, string(listener.Name), "", "listener %q: %s", listener.Name, filters.Invalid())
		}
	}
}

// Filters are a listener's filters. Rules do not replace the mandatory ones.
type Filters struct {
	appv1.RouteFilterSpec
	Mandatory []appv1.MandatoryFilter
	// By is the object that has them.
	By string
}

// FiltersOf returns what a listener says about requests. by is the object that it is in.
func FiltersOf(listener *appv1.Listener, by string) Filters {
	spec := appv1.RouteFilterSpec{Filters: listener.Filters, MaxRequestBytes: listener.MaxRequestBytes, Shadow: listener.Shadow}
	return Filters{spec, listener.Mandatory, by}
}

// mandatory returns those that rules do not replace.
func (f *Filters) mandatory() []model.Mandatory {
	var all []model.Mandatory
	for _, from := range f.Mandatory {
		to := model.Mandatory{Filter: string(from.Type), By: f.By}
		for _, exception := range from.Exceptions {
			to.Exceptions = append(to.Exceptions, model.Exception{
				Namespaces: converted[string](exception.Namespaces), Hostnames: converted[string](exception.Hostnames), Paths: converted[string](exception.Paths),
			})
		}
		all = append(all, to)
	}
	return all
}

// ListenerFilters returns the filters of a listener and its limit of bodies, nil if there are none. The Services that
// they name are in the namespace.
func ListenerFilters(listener, namespace string, from Filters) *model.Action {
	if len(from.Filters) == 0 && from.MaxRequestBytes == nil {
		return nil
	}
	var to model.Rule
	newDoor(namespace).rule(&to, &appv1.RouteRule{Filters: from.Filters, MaxRequestBytes: from.MaxRequestBytes, Shadow: from.Shadow})
	for i := range to.RateLimits {
		to.RateLimits[i].Listener = listener
	}
	filters := *to.Action
	filters.Mandatory = from.mandatory()
	return &filters
}

func listenerTLS(spec *appv1.ListenerTLS) *model.ListenerTLS {
	if spec == nil || spec.Mode == appv1.TLSModePassthrough {
		return nil
	}
	tls := &model.ListenerTLS{Secrets: namesOf(spec.CertificateRefs)}
	tls.MinVersion, tls.HSTS = TLSSettings(appv1.TLSSettings{MinVersion: spec.MinVersion, CipherProfile: spec.CipherProfile, HSTS: spec.HSTS})
	if validation := spec.ClientValidation; validation != nil {
		tls.ClientRequired = validation.Mode != appv1.ClientValidationOptional
		tls.ClientCAs = namesOf(validation.CACertificateRefs)
	}
	return tls
}

// TLSSettings returns the lowest version of TLS, and the value of Strict-Transport-Security, "" for none.
func TLSSettings(spec appv1.TLSSettings) (minVersion, hsts string) {
	minVersion = cmp.Or(string(spec.MinVersion), string(appv1.TLSVersion12))
	if spec.CipherProfile == appv1.CipherProfileModern {
		minVersion = string(appv1.TLSVersion13)
	}
	if spec.HSTS == nil {
		return minVersion, ""
	}
	hsts = "max-age=" + strconv.Itoa(int(ptr.Deref(spec.HSTS.MaxAgeSeconds, 31536000)))
	if spec.HSTS.IncludeSubDomains {
		hsts += "; includeSubDomains"
	}
	if spec.HSTS.Preload {
		hsts += "; preload"
	}
	return minVersion, hsts
}

func namesOf(refs []appv1.ObjectReference) []string {
	var names []string
	for _, ref := range refs {
		names = append(names, ref.Name)
	}
	return names
}

func converted[To, From ~string](from []From) []To {
	var all []To
	for _, s := range from {
		all = append(all, To(s))
	}
	return all
}

// duration returns 0 for an invalid duration, which the schema does not admit.
func duration(d appv1.Duration) time.Duration {
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return parsed
}
