package dataplanetest_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
)

const underwayWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      hostnames: [shop.example.com]
      rules:
        - matches: [{path: {value: /asks}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: hangs, port: 80}, timeout: 1m}}]
          backendRefs: [{name: works, port: 80}]
        - matches: [{path: {value: /hangs}}]
          backendRefs: [{name: hangs, port: 80}]
        - matches: [{path: {value: /queue}}]
          backendRefs: [{name: full, port: 80}]
        - matches: [{path: {value: /works}}]
          backendRefs: [{name: works, port: 80}]
  backends: [{name: full, port: 80, connections: {maxPerEndpoint: 1}}]
backends: [{service: works, port: 80}, {service: hangs, port: 80}, {service: full, port: 80}]
`

// TestUnderWay: HAProxy tells which requests are under way, and what each waits for, and nothing of their queries.
func TestUnderWay(t *testing.T) {
	t.Parallel()
	ctx, release := context.WithCancel(t.Context())
	defer release()
	hangs := func(http.ResponseWriter, *http.Request) { <-ctx.Done() }
	streams := func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("begun"))
		_ = http.NewResponseController(w).Flush()
		<-ctx.Done()
	}
	g := startServing(t, rendertest.Parse(t, underwayWorld), handlers{"works": streams, "hangs": hangs, "full": hangs})
	worker := runtime.NewWorker(g.WorkerSocket)
	want, found := []string{}, []string{}
	t.Cleanup(func() { t.Logf("found %q", found) })
	for _, one := range []struct{ request, waitsFor string }{
		{"GET /asks?token=secret", "GET /asks question"}, {"GET /hangs", "GET /hangs endpoint hangs_80"}, {"GET /queue", "GET /queue endpoint full_80"},
		{"GET /queue/2", "GET /queue/2 queue full_80"}, {"POST /hangs/body", "POST /hangs/body body hangs_80"}, {"GET /works", "GET /works response works_80"},
		{"GET http://shop.example.com/hangs/absolute", "GET /hangs/absolute endpoint hangs_80"},
	} {
		body := ""
		if strings.HasPrefix(one.request, "POST") {
			body = "Content-Length: 1000\r\n"
		}
		must.Get(fmt.Fprintf(dial(t, g.ports[80]), "%s HTTP/1.1\r\nHost: shop.example.com\r\n%s\r\n", one.request, body))(t)
		want = append(want, one.waitsFor)
		// One after the other: the second one to /queue is to wait for the first.
		slices.Sort(want)
		eventually(t, fmt.Sprintf("under way are %q", want), func() bool {
			requests := must.Get(worker.UnderWay(t.Context(), 0))(t)
			found = found[:0]
			for _, r := range requests {
				backend, _, _ := strings.Cut(r.Backend, ".")
				found = append(found, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.Path, r.WaitsFor, backend)))
				if r.Client != "127.0.0.1" || r.Port != g.ports[80] || time.Since(r.Started) > time.Minute || r.Host != "" && r.Host != "shop.example.com" {
					t.Fatalf("%+v", r)
				}
			}
			slices.Sort(found)
			return slices.Equal(found, want)
		})
	}
	eventually(t, "they are a second old", func() bool {
		requests, err := worker.UnderWay(t.Context(), time.Second)
		return err == nil && len(requests) == len(want)
	})
	if requests, err := worker.UnderWay(t.Context(), time.Hour); err != nil || len(requests) != 0 {
		t.Errorf("%v (%v) are an hour old", requests, err)
	}
}
