package try_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
	"gateway/internal/testbuild"
)

const traced = `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: shop}
spec:
  listeners: [{name: http, port: PORT, protocol: HTTP}]
  trustedProxies: [127.0.0.0/8]
  tracing: {endpoint: "COLLECTOR", samplingRatePerMillion: 0}
  routes: [{name: shop, rules: [{backendRefs: [{name: web, port: 80}]}]}]
`

// TestTraces: an OpenTelemetry collector takes the spans of a request, and a backend with the SDK continues the trace.
// The spans are nested: the backend's, the proxy's about the backend, the request's, the client's.
func TestTraces(t *testing.T) {
	t.Parallel()
	plain, collector, backend := freePort(t), "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	spans := startCollector(t, collector, backend)
	content := strings.Replace(ports(traced, plain, "0"), "COLLECTOR", collector, 1)
	out := start(t, "try", "-f", clitest.WriteFile(t, "shop.yaml", content), "--endpoint", "web:80="+backend)
	out.expect(t, "Ctrl-C ends it")
	const trace, client = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for _, flags := range []string{"00", "01"} {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+plain+"/cart?secret", http.NoBody))(t)
		request.Header.Set("Traceparent", "00-"+trace+"-"+client+"-"+flags)
		answer, err := http.DefaultClient.Do(request)
		must.Do(t, err)
		_ = answer.Body.Close()
	}
	// Kind 2 is SERVER, and 3 is CLIENT.
	parent := client
	for _, want := range []span{{service: "shop", Name: "GET /", Kind: 2}, {service: "shop", Name: "GET", Kind: 3}, {service: "backend", Name: "GET", Kind: 2}} {
		got := spans.in(t, parent)
		parent, want.TraceID, want.SpanID, want.ParentSpanID = got.SpanID, trace, got.SpanID, parent
		if got != want {
			t.Errorf("got the span %+v, want %+v", got, want)
		}
	}
	if len(spans.seen) != 3 {
		t.Errorf("the collector has %v", spans.seen)
	}
}

// span is a part of what a collector gets.
type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	service                             string
}

// collected are the spans that a collector gets.
type collected struct {
	lines *bufio.Scanner
	seen  []span
}

// startCollector runs hack/collector at two addresses.
func startCollector(t *testing.T, collector, backend string) *collected {
	t.Helper()
	command := exec.CommandContext(t.Context(), testbuild.Program(t, "hack/collector"), collector, backend)
	output := must.Get(command.StdoutPipe())(t)
	command.Env, command.Stderr = append(os.Environ(), "OTEL_SERVICE_NAME=backend"), t.Output()
	must.Do(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() }) // the context ends it
	c := &collected{lines: bufio.NewScanner(output)}
	c.lines.Buffer(nil, 1<<20)
	if !c.lines.Scan() {
		t.Fatalf("the collector does not start: %v", c.lines.Err())
	}
	return c
}

// in waits for the span in another one.
func (c *collected) in(t *testing.T, parent string) span {
	t.Helper()
	for {
		if i := slices.IndexFunc(c.seen, func(s span) bool { return s.ParentSpanID == parent }); i >= 0 {
			return c.seen[i]
		}
		if !c.lines.Scan() {
			t.Fatalf("the collector ends: %v", c.lines.Err())
		}
		var traces struct {
			ResourceSpans []struct {
				Resource struct {
					Attributes []struct {
						Key   string
						Value struct{ StringValue string }
					}
				}
				ScopeSpans []struct{ Spans []span }
			}
		}
		if err := json.Unmarshal(c.lines.Bytes(), &traces); err != nil {
			t.Fatalf("the collector prints %q: %v", c.lines.Bytes(), err)
		}
		for _, of := range traces.ResourceSpans {
			service := ""
			for _, attribute := range of.Resource.Attributes {
				if attribute.Key == "service.name" {
					service = attribute.Value.StringValue
				}
			}
			for _, got := range of.ScopeSpans[0].Spans {
				got.service = service
				c.seen = append(c.seen, got)
			}
		}
	}
}
