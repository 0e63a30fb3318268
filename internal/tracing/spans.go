package tracing

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"gateway/internal/routing"
)

// Attributes are as in OpenTelemetry's semantic conventions for HTTP, which GEP-5253 of the Gateway API names. Those of
// our own begin with "gateway.".

// flags are the flags of all spans: they are sampled, and it is known whether their parent is remote. isRemote is the
// flag of a remote parent.
const (
	flags    = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK) | 1
	isRemote = uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
)

// versionNames are OpenTelemetry's names of HTTP's versions.
var versionNames = map[string]string{"1.0": "1.0", "1.1": "1.1", "2.0": "2", "3.0": "3"}

// routePath returns the path that the rule of a request has in a table; "": that is not known.
func (l *line) routePath(table *routing.Table) string {
	rule, err := strconv.Atoi(l.Rule)
	if err != nil {
		return ""
	}
	return table.RoutePath(l.Listener, l.Host, l.Route, rule, l.Path)
}

// spans returns the spans of a request, the one of the kind SERVER first. routePath is the path of its rule.
func (l *line) spans(routePath string) []*tracepb.Span {
	server := l.span(tracepb.Span_SPAN_KIND_SERVER, l.SpanID)
	server.ParentSpanId, server.Flags = l.ParentID, flags|isRemote
	server.Name = method(l.Method)
	server.Attributes = append(server.Attributes, l.serverAttributes()...)
	if routePath != "" {
		server.Name += " " + routePath
		server.Attributes = append(server.Attributes, text("http.route", routePath))
	}
	l.end(server, 500)
	address, err := netip.ParseAddr(l.ServerAddress)
	if err != nil {
		return []*tracepb.Span{server}
	}
	client := l.span(tracepb.Span_SPAN_KIND_CLIENT, l.SpanID)
	server.SpanId = inverted(l.SpanID)
	client.ParentSpanId, client.Flags = server.SpanId, flags
	client.Name = method(l.Method)
	client.StartTimeUnixNano = nanoseconds(min(l.Start+1000*(max(l.MsRequest, 0)+max(l.MsQueue, 0)), l.End))
	client.Attributes = append(client.Attributes,
		text("server.address", address.String()), text("network.peer.address", address.String()), text("gateway.backend", l.Backend),
	)
	if port, err := strconv.ParseInt(l.ServerPort, 10, 64); err == nil {
		client.Attributes = append(client.Attributes, number("server.port", port), number("network.peer.port", port))
	}
	if retries, err := strconv.ParseInt(strings.TrimPrefix(l.Retries, "+"), 10, 64); err == nil && retries > 0 {
		client.Attributes = append(client.Attributes, number("http.request.resend_count", retries))
	}
	if l.MsResponse < 0 {
		// The status is the proxy's own.
		l.fail(client, l.Termination)
	} else {
		l.end(client, 400)
	}
	return []*tracepb.Span{server, client}
}

// span returns what both kinds have in common.
func (l *line) span(kind tracepb.Span_SpanKind, id hexID) *tracepb.Span {
	span := &tracepb.Span{
		TraceId: l.TraceID, SpanId: id, Kind: kind, StartTimeUnixNano: nanoseconds(l.Start), EndTimeUnixNano: nanoseconds(l.End),
		Attributes: []*commonpb.KeyValue{text("http.request.method", method(l.Method))},
	}
	if method(l.Method) != l.Method && !strings.HasPrefix(l.Method, "<") {
		span.Attributes = append(span.Attributes, text("http.request.method_original", l.Method))
	}
	return span
}

func (l *line) serverAttributes() []*commonpb.KeyValue {
	all := []*commonpb.KeyValue{
		text("url.scheme", l.Scheme), text("client.address", l.Client), text("network.peer.address", l.Client),
		number("client.port", l.ClientPort), number("network.peer.port", l.ClientPort),
		text("network.protocol.version", versionNames[l.Version]),
	}
	for _, optional := range []struct{ name, value string }{
		{"url.path", l.Path}, {"server.address", l.Host}, {"user_agent.original", l.UserAgent},
		{"gateway.listener", l.Listener}, {"gateway.route", l.Route}, {"gateway.rule", l.Rule}, {"gateway.backend", l.Backend},
		{"gateway.filter", l.Filter}, {"gateway.termination", l.Termination},
	} {
		if known(optional.value) {
			all = append(all, text(optional.name, optional.value))
		}
	}
	if port, err := strconv.ParseInt(l.Port, 10, 64); err == nil {
		all = append(all, number("server.port", port))
	}
	return all
}

// end says how a request ended. Statuses from least are errors.
func (l *line) end(span *tracepb.Span, least int64) {
	if l.Status <= 0 {
		l.fail(span, l.Termination)
		return
	}
	span.Attributes = append(span.Attributes, number("http.response.status_code", l.Status))
	if l.Status >= least {
		l.fail(span, strconv.FormatInt(l.Status, 10))
	}
}

// fail says that a request ended in an error.
func (l *line) fail(span *tracepb.Span, why string) {
	span.Attributes = append(span.Attributes, text("error.type", why))
	span.Status = &tracepb.Status{Code: tracepb.Status_STATUS_CODE_ERROR}
}

// known reports whether HAProxy knew a value: it writes "-" otherwise, and "--" for how a request usually ends.
func known(value string) bool { return strings.Trim(value, "-") != "" }

// method returns a method, or what stands for those that a client has made up.
func method(name string) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY"}, name) {
		return name
	}
	return "_OTHER"
}

func inverted(id hexID) hexID {
	other := make(hexID, len(id))
	for i, b := range id {
		other[i] = ^b
	}
	return other
}

func nanoseconds(microseconds int64) uint64 { return uint64(max(microseconds, 0)) * 1000 } //nolint:gosec // it is not negative

func text(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func number(key string, value int64) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: value}}}
}
