package dataplanetest_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
)

func TestLoadBalancing(t *testing.T) {
	t.Parallel()
	for algorithm, sticky := range map[string]bool{
		"algorithm: Random": false, "algorithm: RoundRobin": false, "algorithm: LeastConnections": false, "algorithm: SourceIP": true,
		"algorithm: URI": true, "algorithm: Header, header: X-User": true,
	} {
		var servers []ir.Server
		for i := range 4 {
			servers = append(servers, serve(t, named(fmt.Sprint(i)), nil))
		}
		g := startBackends(t, "", ", loadBalancing: {"+algorithm+"}", "", servers...)
		c, seen, users := newClient(t, g.ports[80]), map[string]bool{}, map[string]bool{}
		for i := range 100 {
			seen[c.send("GET /same HTTP/1.1\r\nHost: x\r\nX-User: same\r\n\r\n").Header.Get("Backend")] = true
			users[c.send(fmt.Sprintf("GET /%d HTTP/1.1\r\nHost: x\r\nX-User: %d\r\n\r\n", i, i)).Header.Get("Backend")] = true
		}
		if (len(seen) == 1) != sticky {
			t.Errorf("%s: equal requests went to %d of 4 endpoints", algorithm, len(seen))
		}
		if (len(users) == 1) != (algorithm == "algorithm: SourceIP") {
			t.Errorf("%s: different requests went to %d of 4 endpoints", algorithm, len(users))
		}
	}
}

// TestBoundedLoad: requests that are all for one endpoint go to others, as far as it has too many. Those for endpoints
// that have room stay where they are.
func TestBoundedLoad(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"URI", "Header, header: X-User", "SourceIP"} {
		const endpoints, hot, most = 4, 16, 6 // 150 % of the average
		end, begun := make(chan struct{}), make(chan string)
		var servers []ir.Server
		for i := range endpoints {
			servers = append(servers, serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Backend", fmt.Sprint(i))
				if r.URL.Path == "/hot" {
					begun <- fmt.Sprint(i)
					<-end
				}
			}, nil))
		}
		g := startBackends(t, "", ", loadBalancing: {algorithm: "+algorithm+", hashBalanceFactor: 150}", "", servers...)
		get := func(key string) string { return "GET /" + key + " HTTP/1.1\r\nHost: x\r\nX-User: " + key + "\r\n\r\n" }
		send := func(key string) string {
			c := newClientFrom(t, "127.0.1."+key, g.ports[80])
			endpoint := c.send(get(key)).Header.Get("Backend")
			// HAProxy reads another request once it does not count this one any more, which would be a load.
			c.send("TRACE / HTTP/1.1\r\nHost: x\r\n\r\n")
			return endpoint
		}
		before, load := map[string]string{}, map[string]int{}
		for i := range 50 {
			before[fmt.Sprint(i)] = send(fmt.Sprint(i))
		}
		for range hot {
			_, _ = io.WriteString(dial(t, g.ports[80]), get("hot"))
			load[<-begun]++
		}
		if len(load) < 3 || slices.Max(slices.Collect(maps.Values(load))) > most {
			t.Errorf("%s: of %d requests with one key, endpoints have %v", algorithm, hot, load)
		}
		for key, endpoint := range before {
			if now := send(key); now != endpoint && load[endpoint] < most {
				t.Errorf("%s: %s goes to endpoint %s, not to %s as before, which has room: %v", algorithm, key, now, endpoint, load)
			}
		}
		close(end)
	}
}

// TestBoundedLoadOfConnections: the connections of one client go to several endpoints, as far as one has too many.
func TestBoundedLoadOfConnections(t *testing.T) {
	t.Parallel()
	const endpoints, connections, most = 4, 16, 6 // 150 % of the average
	ca := certtest.NewAuthority(t)
	servers := map[string][]ir.Server{}
	for i := range endpoints {
		servers["db"] = append(servers["db"], startEcho(t, fmt.Sprint(i), nil))
		servers["vault"] = append(servers["vault"], startEcho(t, fmt.Sprint(i), &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "vault.io")}}))
	}
	g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: tcp, port: 80, protocol: TCP}, {name: tls, port: 81, protocol: TLS, tls: {mode: Passthrough}}]
  tcpRoutes: [{name: t, rules: [{backendRefs: [{name: db, port: 80}]}]}]
  tlsRoutes: [{name: s, hostnames: [vault.io], rules: [{backendRefs: [{name: vault, port: 80}]}]}]
  backends:
    - {name: db, port: 80, loadBalancing: {algorithm: SourceIP, hashBalanceFactor: 150}}
    - {name: vault, port: 80, loadBalancing: {algorithm: SourceIP, hashBalanceFactor: 150}}
backends: [{service: db, port: 80}, {service: vault, port: 80}]
`), func(in *render.Input) {
		for name := range servers {
			in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{Exists: true, Servers: servers[name]}
		}
	})
	for _, port := range []int32{80, 81} {
		load := map[string]int{}
		for range connections {
			conn := dial(t, g.ports[port])
			if port == 81 {
				conn = tls.Client(conn, &tls.Config{ServerName: "vault.io", RootCAs: ca.Pool()})
			}
			greeting, err := talk(t, conn, "hello", 1)
			if err != nil {
				t.Fatalf("port %d: %v", port, err)
			}
			load[greeting[0]]++
		}
		if len(load) < 3 || slices.Max(slices.Collect(maps.Values(load))) > most {
			t.Errorf("port %d: of %d connections of one client, endpoints have %v", port, connections, load)
		}
	}
}
