// Package grpc has tests with a client of gRPC.
package grpc

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/must"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

const errorsSpec = `
routes:
  - name: r
    rules:
      - {matches: [{path: {value: /empty}}], backendRefs: [{name: empty, port: 80}]}
      - {matches: [{path: {value: /missing}}], backendRefs: [{name: missing, port: 80}]}
      - {matches: [{path: {value: /small}}], maxRequestBytes: 10, backendRefs: [{name: closed, port: 80}]}
      - {matches: [{path: {value: /closed}}], backendRefs: [{name: closed, port: 80}]}
      - matches: [{path: {value: /denied}}]
        filters: [{type: ClientAddress, clientAddress: {allow: [192.0.2.0/24]}}]
        backendRefs: [{name: empty, port: 80}]
      - matches: [{path: {value: /token}}]
        filters: [{type: JWT, jwt: {issuers: [{issuer: a, audiences: [b], keys: {inline: '{"keys":[{"kty":"EC","crv":"P-256","kid":"a","alg":"ES256",
          "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}'}}]}}]
        backendRefs: [{name: empty, port: 80}]
`

// TestErrorPages: a client gets the same code with a page and without. Its message quotes the page.
func TestErrorPages(t *testing.T) {
	t.Parallel()
	const page = "<h1>We are sorry</h1>"
	bare := start(t, errorsSpec)
	paged := start(t, errorsSpec+"errorPages: [{statuses: [401, 403, 404, 413, 500, 503], body: "+page+"}]")
	for method, want := range map[string]codes.Code{
		"/token/Call":   codes.Unauthenticated,
		"/denied/Call":  codes.PermissionDenied,
		"/other/Call":   codes.Unimplemented,
		"/small/Call":   codes.Unknown,
		"/missing/Call": codes.Unknown,
		"/empty/Call":   codes.Unavailable,
		"/closed/Call":  codes.Unavailable,
	} {
		for name, connection := range map[string]*grpc.ClientConn{"without a page": bare, "with a page": paged} {
			question := &grpc_health_v1.HealthCheckRequest{Service: strings.Repeat("a", 20)}
			err := connection.Invoke(t.Context(), method, question, &grpc_health_v1.HealthCheckResponse{})
			if status.Code(err) != want || strings.Contains(fmt.Sprint(err), page) != (connection == paged) {
				t.Errorf("%s %s: got %v, want %s", method, name, err, want)
			}
		}
	}
}

// start runs HAProxy for a part of a spec, and returns a connection to it. The Service empty has no endpoints, and
// nobody listens at the endpoint of closed.
func start(t *testing.T, part string) *grpc.ClientConn {
	t.Helper()
	gateway := &appv1.Gateway{}
	port := haproxytest.FreePort(t)
	spec := fmt.Sprintf("listeners: [{name: http, port: %d, protocol: HTTP}]\n", port) + part
	must.Do(t, yaml.UnmarshalStrict([]byte(spec), &gateway.Spec))
	table, _ := routing.Compile(source.Translate(gateway), filters.Problem)
	in := render.Input{
		Table: table, Paths: haproxytest.NewPaths(t),
		Bind: render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)},
		Backends: map[routing.Backend]render.BackendState{
			{Service: "empty", Port: 80}:  {Exists: true},
			{Service: "closed", Port: 80}: {Exists: true, Servers: []ir.Server{{Address: "127.0.0.1", Port: haproxytest.FreePort(t)}}},
		},
	}
	haproxytest.Start(t, in.Paths, render.Render(in).AllFiles())
	connection := must.Get(grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}
