package tracing

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/ring"
	"gateway/internal/routing"
)

// proxied is a line about a request that took 5 ms, of which the backend had the last 3 ms.
const proxied = `{"number":1,"start":1795885703458207,"end":1795885703463207,"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"149c8f1e0a2caf75",` +
	`"parentId":"00f067aa0ba902b7","client":"192.0.2.1","scheme":"https","version":"2.0","serverAddress":"192.0.2.2","serverPort":"8080","clientPort":55964,"port":"443",` +
	`"method":"GET","host":"shop.example.com","path":"/cart","userAgent":"curl","status":200,"bytesIn":104,"bytesOut":99,"msRequest":0,"msQueue":2,"msConnect":0,"msResponse":1,` +
	`"msTotal":5,"route":"shop/web","rule":"0","listener":"https","backend":"shop_web_80","filter":"-","server":"192.0.2.2_8080","retries":"0","termination":"--"}`

// with returns proxied with other values, as key and value in JSON.
func with(pairs ...string) string {
	changed := proxied
	for i := 0; i < len(pairs); i += 2 {
		at := strings.Index(changed, `"`+pairs[i]+`":`) + len(pairs[i]) + 3
		end := at + strings.IndexAny(changed[at:], ",}")
		changed = changed[:at] + pairs[i+1] + changed[end:]
	}
	return changed
}

// attributes returns attributes as text.
func attributes(all []*commonpb.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range all {
		if _, ok := a.GetValue().GetValue().(*commonpb.AnyValue_IntValue); ok {
			found[a.GetKey()] = fmt.Sprint(a.GetValue().GetIntValue())
		} else {
			found[a.GetKey()] = a.GetValue().GetStringValue()
		}
	}
	return found
}

func mustParse(t *testing.T, text string) *line {
	t.Helper()
	l := must.Get(parse([]byte(text)))(t)
	return l
}

// TestSpans: the backend's span is in the request's span, which is in the client's.
func TestSpans(t *testing.T) {
	spans := mustParse(t, proxied).spans("/cart")
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2", len(spans))
	}
	server, client := spans[0], spans[1]
	for _, span := range spans {
		if hex.EncodeToString(span.TraceId) != "4bf92f3577b34da6a3ce929d0e0e4736" || span.Status != nil || span.EndTimeUnixNano != 1795885703463207000 {
			t.Errorf("got %v", span)
		}
	}
	if server.Kind != tracepb.Span_SPAN_KIND_SERVER || server.Name != "GET /cart" || server.StartTimeUnixNano != 1795885703458207000 ||
		hex.EncodeToString(server.SpanId) != "eb6370e1f5d3508a" || hex.EncodeToString(server.ParentSpanId) != "00f067aa0ba902b7" || server.Flags != 0x301 {
		t.Errorf("the request's span is %v", server)
	}
	if client.Kind != tracepb.Span_SPAN_KIND_CLIENT || client.Name != "GET" || client.StartTimeUnixNano != 1795885703460207000 ||
		hex.EncodeToString(client.SpanId) != "149c8f1e0a2caf75" || string(client.ParentSpanId) != string(server.SpanId) || client.Flags != 0x101 {
		t.Errorf("the backend's span is %v", client)
	}
	if got, want := attributes(server.Attributes), map[string]string{
		"http.request.method": "GET", "url.scheme": "https", "url.path": "/cart", "http.response.status_code": "200", "network.protocol.version": "2",
		"client.address": "192.0.2.1", "client.port": "55964", "network.peer.address": "192.0.2.1", "network.peer.port": "55964",
		"server.address": "shop.example.com", "server.port": "443", "user_agent.original": "curl",
		"gateway.listener": "https", "gateway.route": "shop/web", "gateway.rule": "0", "gateway.backend": "shop_web_80", "http.route": "/cart",
	}; !maps.Equal(got, want) {
		t.Errorf("the request's span has %v, want %v", got, want)
	}
	if got, want := attributes(client.Attributes), map[string]string{
		"http.request.method": "GET", "http.response.status_code": "200", "server.address": "192.0.2.2", "server.port": "8080",
		"network.peer.address": "192.0.2.2", "network.peer.port": "8080", "gateway.backend": "shop_web_80",
	}; !maps.Equal(got, want) {
		t.Errorf("the backend's span has %v, want %v", got, want)
	}
}

// TestSpansOfOtherRequests: they are as many, have errors and attributes as what HAProxy says.
func TestSpansOfOtherRequests(t *testing.T) {
	for name, test := range map[string]struct {
		line string
		// want is, for each span, its attribute error.type and some more.
		want []map[string]string
	}{
		"a new trace over HTTP/1.1": {with("parentId", `"-"`, "version", `"1.1"`), []map[string]string{{"network.protocol.version": "1.1"}, {}}},
		"the proxy answers": {with("serverAddress", `"-"`, "status", "401", "filter", `"JWT"`, "termination", `"LR"`), []map[string]string{
			{"gateway.filter": "JWT", "gateway.termination": "LR", "http.response.status_code": "401"},
		}},
		"the backend does not know it": {with("status", "404"), []map[string]string{{}, {"error.type": "404"}}},
		"the backend fails":            {with("status", "500"), []map[string]string{{"error.type": "500"}, {"error.type": "500"}}},
		"the backend does not answer": {with("status", "504", "msResponse", "-1", "termination", `"sH"`), []map[string]string{
			{"error.type": "504"}, {"error.type": "sH", "http.response.status_code": ""},
		}},
		"the client goes away": {with("status", "-1", "msResponse", "-1", "termination", `"CD"`), []map[string]string{{"error.type": "CD"}, {"error.type": "CD"}}},
		"it is tried again":    {with("retries", `"+2"`), []map[string]string{{}, {"http.request.resend_count": "2"}}},
		"a method of its own":  {with("method", `"BREW"`), []map[string]string{{"http.request.method": "_OTHER", "http.request.method_original": "BREW"}, {"http.request.method": "_OTHER"}}},
		"a socket of the pod":  {with("serverAddress", `"unix"`), []map[string]string{{}}},
	} {
		spans := mustParse(t, test.line).spans("")
		if len(spans) != len(test.want) {
			t.Errorf("%s: %d spans, want %d", name, len(spans), len(test.want))
			continue
		}
		for i, want := range test.want {
			got := attributes(spans[i].Attributes)
			if got["error.type"] != want["error.type"] || (spans[i].Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR) != (want["error.type"] != "") {
				t.Errorf("%s: span %d has the error %q and the status %v", name, i, got["error.type"], spans[i].Status)
			}
			for key, value := range want {
				if got[key] != value {
					t.Errorf("%s: %s of span %d is %q, want %q", name, key, i, got[key], value)
				}
			}
		}
	}
}

func TestBrokenLines(t *testing.T) {
	for _, text := range []string{"", "{", "[]", `{}`, with("traceId", `"-"`), with("spanId", `"ab"`), with("spanId", `"x"`), with("status", `"-"`)} {
		if _, err := parse([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// collector is a collector whose answers a test decides about.
type collector struct {
	*httptest.Server
	mu sync.Mutex
	// got are the spans of each request that it has taken.
	got [][]*tracepb.Span
	// answer answers a request, given how many came before.
	answer func(w http.ResponseWriter, n int) (taken bool)
	asked  int
}

func startCollector(t *testing.T, answer func(w http.ResponseWriter, n int) bool) *collector {
	t.Helper()
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &request) != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("the collector is asked for %s with %q", r.URL, body)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked++
		if c.answer(w, c.asked-1) {
			c.got = append(c.got, request.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans())
		}
	}))
	t.Cleanup(c.Close)
	return c
}

// tableOf returns a table whose collector is at an address.
func tableOf(address string) routing.Table {
	return routing.Table{Settings: model.Settings{Tracing: &model.Tracing{Endpoint: strings.TrimPrefix(address, "http://")}}}
}

// counted returns how many spans were exported and lost.
func counted(t *testing.T) (taken, gone int) {
	t.Helper()
	value := func(counter prometheus.Counter) int {
		var m dto.Metric
		must.Do(t, counter.Write(&m))
		return int(m.GetCounter().GetValue())
	}
	for _, reason := range []string{lostInRing, lostInQueue, lostAtCollector} {
		gone += value(lost.WithLabelValues(reason))
	}
	return value(exported), gone
}

// export sends as many requests to a collector at an address, and returns how many spans it took and how many were
// lost.
func export(t *testing.T, address string, requests int) (taken, gone int) {
	t.Helper()
	e := New(Source{"shop", "web", "web-1", "uid"})
	e.client.backoff.Duration = time.Millisecond
	e.Update(tableOf(address))
	takenBefore, goneBefore := counted(t)
	var frames strings.Builder
	for i := range requests {
		line := with("number", fmt.Sprint(i+1))
		fmt.Fprintf(&frames, "%d %s", len(line), line)
	}
	must.Do(t, ring.Read(strings.NewReader(frames.String()), e.connected()))
	e.send(t.Context(), e.queued())
	taken, gone = counted(t)
	return taken - takenBefore, gone - goneBefore
}

// partialSuccess is an ExportTraceServiceResponse whose partial_success has an error_message behind other fields.
func partialSuccess(fields []byte) []byte {
	message := protowire.AppendString(protowire.AppendTag(fields, 2, protowire.BytesType), "too old")
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), message)
}

// TestExport: what a collector does not take is sent again if it asks for that, and counted if not.
func TestExport(t *testing.T) { //nolint:paralleltest // the process shares the metrics
	taken := func(_ http.ResponseWriter, _ int) bool { return true }
	status := func(status int) func(http.ResponseWriter, int) bool {
		return func(w http.ResponseWriter, _ int) bool {
			w.WriteHeader(status)
			return false
		}
	}
	for name, test := range map[string]struct {
		answer             func(http.ResponseWriter, int) bool
		requests           int
		taken, lost, asked int
	}{
		"all are taken": {taken, 3, 6, 0, 1},
		"the collector is busy at first": {func(w http.ResponseWriter, n int) bool {
			if n < 2 {
				return status([]int{503, 429}[n])(w, n)
			}
			return true
		}, 1, 2, 0, 3},
		"the collector stays busy":       {status(503), 1, 0, 2, 6},
		"the collector does not want it": {status(400), 1, 0, 2, 1},
		"the collector is elsewhere": {func(w http.ResponseWriter, _ int) bool {
			w.Header().Set("Location", "http://192.0.2.1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
			return false
		}, 1, 0, 2, 1},
		"some are rejected": {func(w http.ResponseWriter, _ int) bool {
			_, _ = w.Write(partialSuccess(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 4)))
			return true
		}, 3, 2, 4, 1},
		"a warning": {func(w http.ResponseWriter, _ int) bool {
			_, _ = w.Write(partialSuccess(nil))
			return true
		}, 1, 2, 0, 1},
		"nonsense": {func(w http.ResponseWriter, _ int) bool {
			_, _ = io.WriteString(w, "ok")
			return true
		}, 1, 2, 0, 1},
	} {
		c := startCollector(t, test.answer)
		taken, gone := export(t, c.URL, test.requests)
		if taken != test.taken || gone != test.lost || c.asked != test.asked {
			t.Errorf("%s: %d spans are taken, %d lost, in %d requests; want %d, %d and %d", name, taken, gone, c.asked, test.taken, test.lost, test.asked)
		}
	}
	c := startCollector(t, taken)
	c.Close()
	if taken, gone := export(t, c.URL, 1); taken != 0 || gone != 2 {
		t.Errorf("without a collector, %d spans are taken and %d lost, want 0 and 2", taken, gone)
	}
}

// TestTooManySpans: HAProxy's lines are read while the collector takes nothing, and the spans that find no room are
// counted.
func TestTooManySpans(t *testing.T) { //nolint:paralleltest // the process shares the metrics
	c := startCollector(t, func(http.ResponseWriter, int) bool { return true })
	if taken, gone := export(t, c.URL, maxQueued+10); taken != 2*maxQueued || gone != 20 {
		t.Errorf("%d spans are taken and %d lost, want %d and 20", taken, gone, 2*maxQueued)
	}
	e := New(Source{})
	_, before := counted(t)
	take := e.connected()
	take([]byte(with("number", "1")))
	take([]byte(with("number", "1001")))
	take([]byte("{"))
	if _, gone := counted(t); gone-before != 1000 {
		t.Errorf("%d spans are lost, want 1000", gone-before)
	}
}

// TestRun: spans are sent without waiting for a batch to be full, and what is left when the agent ends.
func TestRun(t *testing.T) { //nolint:paralleltest // the process shares the metrics
	got := make(chan int, 10)
	c := startCollector(t, func(http.ResponseWriter, int) bool {
		got <- 1
		return true
	})
	e := New(Source{})
	e.Update(tableOf(c.URL))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { e.Run(ctx) })
	take := e.connected()
	take([]byte(proxied))
	<-got
	take([]byte(with("number", "2")))
	cancel()
	running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.got) != 2 {
		t.Errorf("%d batches are sent, want 2", len(c.got))
	}
}

// BenchmarkLine is what a sampled request costs the agent, but for what is sent.
func BenchmarkLine(b *testing.B) {
	b.ReportAllocs()
	text := []byte(proxied)
	for b.Loop() {
		l := must.Get(parse(text))(b)
		must.Get(proto.Marshal(&tracepb.ScopeSpans{Spans: l.spans("")}))(b)
	}
}
