package gatewayapi_test

import (
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/source/gatewayapi"
)

// TestTheCertificateForBackendsIsThatOfTheGateway: an agent takes it from the Gateway itself, though our own says
// something else yet.
func TestTheCertificateForBackendsIsThatOfTheGateway(t *testing.T) {
	objects := read(t, "testdata/backend-certificates.yaml")
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "own", OwnerReferences: ownedBy("own")}}
	own.Spec.BackendClientCertificateRef = &appv1.ObjectReference{Name: "old"}
	translated := gatewayapi.Translate(objects)
	if plane := translated.For(own); plane == nil || plane.BackendCertificate != "proxies" {
		t.Errorf("got %+v, want the certificate proxies", plane)
	}
	first := slices.Clone(translated.For(own).Origins)
	if second := translated.For(own).Origins; !slices.Equal(first, second) {
		t.Errorf("asked twice, the agent has other origins: %v and %v", first, second)
	}
}

// ownedBy is in a Gateway of our own that was made for one of the Gateway API.
func ownedBy(name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: name, Controller: ptr.To(true)}}
}

// TestConfigsAreMerged: the Gateway's own GatewayConfig comes before the one of its class.
func TestConfigsAreMerged(t *testing.T) {
	configs := map[string]*appv1.GatewayConfig{
		"class": {Spec: appv1.GatewayConfigSpec{
			Compression: &appv1.Compression{MinBytes: ptr.To[int32](1)}, DrainTimeout: "7s", Watch: appv1.WatchCluster,
			ErrorPages: []appv1.ErrorPage{{Statuses: []appv1.ErrorStatus{503}, Body: "class"}}, MaxRequestBytes: ptr.To[int64](1),
		}},
		"bare": {},
		"own": {Spec: appv1.GatewayConfigSpec{
			Compression: &appv1.Compression{MinBytes: ptr.To[int32](2)}, ErrorPages: []appv1.ErrorPage{{Statuses: []appv1.ErrorStatus{404}, Body: "own"}},
			MaxRequestBytes: ptr.To[int64](2),
		}},
	}
	objects := gatewayapi.Objects{
		Classes: []*gatewayv1.GatewayClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "ours"},
			Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName, ParametersRef: &gatewayv1.ParametersReference{
				Group: appv1.GroupName, Kind: "GatewayConfig", Namespace: ptr.To[gatewayv1.Namespace]("infra"), Name: "class",
			}},
		}},
		Config: func(_, name string) *appv1.GatewayConfig { return configs[name] },
	}
	for _, name := range []string{"bare", "own"} {
		objects.Gateways = append(objects.Gateways, &gatewayv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "ours", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
				Infrastructure: &gatewayv1.GatewayInfrastructure{
					ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: name},
				},
			},
		})
	}
	planes := gatewayapi.Translate(objects).DataPlanes()
	if len(planes) != 2 {
		t.Fatalf("got %d data planes, want 2", len(planes))
	}
	for i, want := range []struct {
		minBytes int32 // and maxRequestBytes
		page     string
	}{{1, "class"}, {2, "own"}} {
		spec := planes[i].Spec
		if spec == nil || spec.Compression == nil || *spec.Compression.MinBytes != want.minBytes || spec.DrainTimeout != "7s" || spec.Watch != appv1.WatchCluster ||
			len(spec.ErrorPages) != 1 || spec.ErrorPages[0].Body != want.page || *spec.Listeners[0].MaxRequestBytes != int64(want.minBytes) {
			t.Errorf("%s: got %+v, want %+v and a drainTimeout of 7s, and to watch the cluster", planes[i].Gateway.Name, spec, want)
		}
	}
}

// TestConfigsAreWhole: a Gateway has each field of a GatewayConfig that the spec of our own kind has, too.
func TestConfigsAreWhole(t *testing.T) {
	objects := read(t, "testdata/auth.yaml")
	objects.Gateways[0].Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
		ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "own"},
	}
	fields := reflect.TypeFor[appv1.GatewayConfigSpec]()
	checked := 0
	for i := range fields.NumField() {
		var config appv1.GatewayConfig
		set := reflect.ValueOf(&config.Spec).Elem().Field(i)
		if _, isShared := reflect.TypeFor[appv1.GatewaySpec]().FieldByName(fields.Field(i).Name); !isShared {
			continue
		}
		fill(set)
		objects.Config = func(string, string) *appv1.GatewayConfig { return &config }
		spec := gatewayapi.Translate(objects).DataPlanes()[0].Spec
		got := reflect.ValueOf(spec).Elem().FieldByName(fields.Field(i).Name)
		if got.IsZero() || !reflect.DeepEqual(reflect.Indirect(got).Interface(), reflect.Indirect(set).Interface()) {
			t.Errorf("%s is %+v, want %+v", fields.Field(i).Name, got, set)
		}
		checked++
	}
	if checked < 10 {
		t.Errorf("only %d fields were compared", checked)
	}
}

// TestHTTP3IsMissing: a Gateway whose GatewayConfig asks for HTTP/3 is accepted, and its status names a port that lacks
// it.
func TestHTTP3IsMissing(t *testing.T) {
	objects := read(t, "testdata/listeners.yaml")
	gateway := objects.Gateways[0].DeepCopy()
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	objects.Gateways[0] = gateway
	gateway.Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
		ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "own"},
	}
	for want, http3 := range map[string]*appv1.HTTP3{"": nil, "http3 has no effect: no listener is of protocol HTTPS": {}} {
		objects.Config = func(string, string) *appv1.GatewayConfig {
			return &appv1.GatewayConfig{Spec: appv1.GatewayConfigSpec{Http3: http3}}
		}
		status := gatewayapi.Translate(objects).Status(nil, allLive{}).Gateways[types.NamespacedName{Namespace: gateway.Namespace, Name: gateway.Name}]
		accepted := meta.FindStatusCondition(status.Conditions, "Accepted")
		if accepted == nil || accepted.Status != metav1.ConditionTrue || accepted.Reason != "Accepted" || accepted.Message != want {
			t.Errorf("Accepted is %+v, want the message %q", accepted, want)
		}
	}
}

// fill sets a field to something, and all that is in it.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.String:
		v.SetString("a")
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	}
}

// TestShadowOfConfigs: what a GatewayConfig has in shadow is its own, and not what another one has in place of it.
func TestShadowOfConfigs(t *testing.T) {
	limit := appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{{Requests: 1, Unit: appv1.RateLimitHour}}}}
	most, shadow := ptr.To[int64](10), []appv1.ShadowFilter{"RateLimit", "maxRequestBytes"}
	objects := read(t, "testdata/auth.yaml")
	objects.Classes[0].Spec.ParametersRef = &gatewayv1.ParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "class", Namespace: ptr.To(gatewayv1.Namespace("team"))}
	objects.Gateways[0].Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
		ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "own"},
	}
	class := appv1.GatewayConfigSpec{Filters: []appv1.RuleFilter{limit}, MaxRequestBytes: most, Shadow: shadow}
	for name, test := range map[string]struct {
		own  appv1.GatewayConfigSpec
		want []string
	}{
		"nothing":            {appv1.GatewayConfigSpec{}, []string{"RateLimit", "maxRequestBytes"}},
		"filters":            {appv1.GatewayConfigSpec{Filters: []appv1.RuleFilter{limit}}, []string{"maxRequestBytes"}},
		"a limit":            {appv1.GatewayConfigSpec{MaxRequestBytes: most}, []string{"RateLimit"}},
		"both":               {appv1.GatewayConfigSpec{Filters: []appv1.RuleFilter{limit}, MaxRequestBytes: most}, nil},
		"a limit in shadow":  {appv1.GatewayConfigSpec{MaxRequestBytes: most, Shadow: shadow[1:]}, []string{"RateLimit", "maxRequestBytes"}},
		"a filter in shadow": {appv1.GatewayConfigSpec{Filters: []appv1.RuleFilter{limit}, MaxRequestBytes: most, Shadow: shadow[:1]}, []string{"RateLimit"}},
	} {
		objects.Config = func(_, name string) *appv1.GatewayConfig {
			return &appv1.GatewayConfig{Spec: map[string]appv1.GatewayConfigSpec{"class": class, "own": test.own}[name]}
		}
		planes := gatewayapi.Translate(objects).DataPlanes()
		if len(planes) != 1 || planes[0].Spec == nil {
			t.Fatalf("%s: got the data planes %+v", name, planes)
		}
		own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "gw", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: "gw", Controller: ptr.To(true),
		}}}, Spec: *planes[0].Spec}
		seen := gatewayapi.AttachedTo(own, nil)
		seen.Service = objects.Service
		seen.AddAttached(objects.Gateways[0])
		if got := gatewayapi.Translate(seen).For(own).Listeners[0].Filters.Shadow; !slices.Equal(got, test.want) {
			t.Errorf("beside a class, a Gateway that sets %s: agents see %v in shadow, want %v", name, got, test.want)
		}
	}
}

// TestTLSOfConfigs: listeners that terminate TLS have the settings of the GatewayConfig, at the operator and at the
// agents, which see them in our own Gateway. HSTS is for HTTPS alone.
func TestTLSOfConfigs(t *testing.T) {
	objects := read(t, "testdata/backend-certificates.yaml")
	objects.Gateways = objects.Gateways[:1]
	gateway := objects.Gateways[0]
	certificate := &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: "shop"}}}
	gateway.Spec.Listeners = []gatewayv1.Listener{
		{Name: "https", Port: 443, Protocol: gatewayv1.HTTPSProtocolType, TLS: certificate},
		{Name: "tls", Port: 444, Protocol: gatewayv1.TLSProtocolType, TLS: certificate},
	}
	gateway.Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
		ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "config"},
	}
	objects.Config = func(_, _ string) *appv1.GatewayConfig {
		return &appv1.GatewayConfig{Spec: appv1.GatewayConfigSpec{TLS: &appv1.TLSSettings{
			CipherProfile: appv1.CipherProfileModern, HSTS: &appv1.HSTS{MaxAgeSeconds: ptr.To[int32](60)},
		}}}
	}
	expect := func(who string, listeners []model.Listener) {
		t.Helper()
		if len(listeners) != 2 {
			t.Fatalf("%s: got the listeners %+v, want two", who, listeners)
		}
		for i, hsts := range []string{"max-age=60", ""} {
			if tls := listeners[i].TLS; tls.MinVersion != "TLSv1.3" || tls.HSTS != hsts {
				t.Errorf("%s: listener %s: got %+v, want TLSv1.3 and the HSTS %q", who, listeners[i].Name, tls, hsts)
			}
		}
	}
	result := gatewayapi.Translate(objects)
	expect("operator", result.Planes[gatewayapi.GatewayParent(gateway.Namespace, gateway.Name)].Listeners)
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: gateway.Namespace, Name: gateway.Name, OwnerReferences: ownedBy(gateway.Name)}}
	own.Spec = *result.DataPlanes()[0].Spec
	seen := gatewayapi.AttachedTo(own, nil)
	seen.AddAttached(gateway)
	expect("agent", gatewayapi.Translate(seen).For(own).Listeners)
}

// TestFiltersOfConfigs: the filters of a GatewayConfig are on all listeners for requests, and its PROXY protocol is on
// all listeners. That holds at the operator and at the agents, which see it in our own Gateway.
func TestFiltersOfConfigs(t *testing.T) { //nolint:funlen // one story
	config := &appv1.GatewayConfig{Spec: appv1.GatewayConfigSpec{MaxRequestBytes: ptr.To[int64](10), ProxyProtocol: appv1.ProxyProtocolAny, Filters: []appv1.RuleFilter{
		{Type: appv1.RuleFilterExternalAuth, ExternalAuth: &appv1.ExternalAuth{BackendRef: appv1.ExternalAuthBackendRef{Name: "auth", Port: 443}}},
		{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{{Requests: 1, Unit: appv1.RateLimitHour}}}},
	}}}
	objects := read(t, "testdata/auth.yaml")
	gateway := objects.Gateways[0]
	gateway.Spec.Listeners = append(gateway.Spec.Listeners, gatewayv1.Listener{Name: "tcp", Port: 81, Protocol: gatewayv1.TCPProtocolType})
	gateway.Spec.Infrastructure = &gatewayv1.GatewayInfrastructure{
		ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "config"},
	}
	objects.Config = func(_, _ string) *appv1.GatewayConfig { return config }
	result := gatewayapi.Translate(objects)
	planes := result.DataPlanes()
	if len(planes) != 1 || planes[0].Spec == nil || len(planes[0].Spec.Listeners) != 2 || planes[0].Spec.Listeners[0].Filters == nil || planes[0].Spec.Listeners[1].Filters != nil {
		t.Fatalf("got the data planes %+v, want the filters at the listener http, and none at tcp", planes)
	}
	auth := model.Backend{Namespace: "team", Service: "auth", Port: 443}
	expect := func(who string, plane *model.Gateway, names ...string) {
		t.Helper()
		for _, listener := range plane.Listeners {
			want := slices.Contains(names, listener.Name)
			if want != (listener.Filters != nil) || want && (listener.Filters.ExternalAuth.Backend != auth || listener.Filters.RateLimits[0].Listener != listener.Name || *listener.Filters.MaxBody != 10) {
				t.Errorf("%s: listener %s: got the filters %+v", who, listener.Name, listener.Filters)
			}
			if !listener.ProxyProtocol {
				t.Errorf("%s: listener %s takes no PROXY headers", who, listener.Name)
			}
		}
		if plane.Policies[auth].TLS == nil {
			t.Errorf("%s: the question is asked without the TLS of its BackendTLSPolicy: %+v", who, plane.Policies)
		}
	}
	expect("operator", result.Planes[gatewayapi.GatewayParent("team", "gw")], "http")

	// The Gateway got another listener, which our own has not yet.
	gateway.Spec.Listeners = append(gateway.Spec.Listeners, gatewayv1.Listener{Name: "new", Port: 82, Protocol: gatewayv1.HTTPProtocolType})
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "gw", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: "gw", Controller: ptr.To(true),
	}}}, Spec: *planes[0].Spec}
	seen := gatewayapi.AttachedTo(own, nil)
	seen.Service, seen.Policies = objects.Service, objects.Policies
	seen.AddAttached(gateway)
	expect("agent", gatewayapi.Translate(seen).For(own), "http", "new")

	// It has no listener for requests yet, so nobody knows their filters.
	own.Spec.Listeners = own.Spec.Listeners[1:]
	seen = gatewayapi.AttachedTo(own, nil)
	seen.AddAttached(gateway)
	if plane := gatewayapi.Translate(seen).For(own); len(plane.Listeners) != 1 || plane.Listeners[0].Name != "tcp" {
		t.Errorf("got the listeners %+v, want tcp alone", plane.Listeners)
	}

	// The Service that a filter names does not exist.
	config.Spec.Filters[0].ExternalAuth.BackendRef.Name = "gone"
	resolved := func() string {
		status := gatewayapi.Translate(objects).Status(nil, allLive{}).Gateways[types.NamespacedName{Namespace: "team", Name: "gw"}]
		return meta.FindStatusCondition(status.Conditions, string(gatewayv1.GatewayConditionResolvedRefs)).Message
	}
	if got := resolved(); got != "GatewayConfig: filters: there is no Service team/gone: create it or change the reference" {
		t.Errorf("got %q, want a Service that is not there", got)
	}
	noRange := &appv1.ClientAddress{Deny: []appv1.AddressRange{"300.0.0.0/8"}}
	config.Spec.Filters[0] = appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: noRange}
	if got := resolved(); got != "GatewayConfig: filters: clientAddress.deny[0] is no range of addresses: write one such as 10.0.0.0/8 or fd00::/8" {
		t.Errorf("got %q, want a range that is none", got)
	}
}
