package dataplanetest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
)

const limitsWorld = `
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: proxied, port: 81, protocol: HTTP, proxyProtocol: Any}
  trustedProxies: [127.0.0.1/32]
  routes:
    - {name: r, rules: [{backendRefs: [{name: one, port: 80}]}]}
    - {name: silent, hostnames: [silent], rules: [{backendRefs: [{name: silent, port: 80}]}]}
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: silent, port: 80}
`

// startLimits runs HAProxy with limits. The Service silent takes requests and never answers; their number is returned.
func startLimits(t *testing.T, connections, perAddress int32) (*gateway, *atomic.Int32) {
	t.Helper()
	w, taken := rendertest.Parse(t, limitsWorld), &atomic.Int32{}
	w.Spec.ClientLimits = appv1.ClientLimits{MaxConnections: &connections, MaxPerAddress: &perAddress}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("failed to listen: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			go func() { _, _ = io.Copy(io.Discard, conn) }()
		}
	}()
	return startGatewayWith(t, w, func(in *render.Input) {
		server := ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)}
		in.Backends[routing.Backend{Service: "silent", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{server}}
	}), taken
}

// takes reports whether a request over a new connection from an address is answered with 200. The connection stays
// open, idle.
func takes(t *testing.T, address string, port int32, first string) bool {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, first+get("x", "/"))
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.HasPrefix(line, "HTTP/1.1 200")
}

// checkHealth fails the test unless kubelet and Prometheus are answered.
func checkHealth(t *testing.T, g *gateway) {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for _, path := range []string{"/healthz", "/metrics"} {
		resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", g.in.Bind.MetricsPort, path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
}

// TestIdleClientsTakeNoHealth: clients that hold all connections that there are for them keep nobody from /healthz.
func TestIdleClientsTakeNoHealth(t *testing.T) {
	t.Parallel()
	g, _ := startLimits(t, 50, 0)
	for i := range 50 {
		if !takes(t, "127.0.0.2", g.ports[80], "") {
			t.Fatalf("connection %d is refused", i)
		}
	}
	for range 1000 {
		// Some are closed before they are there.
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", g.ports[80])); err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
	checkHealth(t, g)
	if takes(t, "127.0.0.3", g.ports[80], "") {
		t.Error("a connection beyond the limit is taken")
	}
}

// TestFewFiles: where HAProxy may open fewer files than three for each connection, it takes fewer connections.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	for files, want := range map[int]string{0: "10000", 1 << 20: "10000", 20_000: "6333", 4096: "1032", 100: "1"} {
		in := rendertest.Parse(t, limitsWorld).Input(t)
		in.Bind.Files = files
		cfg := string(render.Render(in).Content(ir.ConfigFile))
		if !strings.Contains(cfg, "reject if { act_conn gt "+want+" }") {
			t.Errorf("with %d files, not %s connections:\n%s", files, want, cfg)
		}
	}
}

// TestConnectionsOfAnAddress: one client leaves connections to the others, and trusted proxies have no limit of their
// own.
func TestConnectionsOfAnAddress(t *testing.T) {
	t.Parallel()
	g, _ := startLimits(t, 1000, 3)
	const proxy, header = "127.0.0.1", "PROXY TCP%d %s %s 1234 81\r\n"
	v4 := func(address string) string { return fmt.Sprintf(header, 4, address, "192.0.2.1") }
	v6 := func(address string) string { return fmt.Sprintf(header, 6, address, "2001:db8::1") }
	for _, step := range []struct {
		address, first string
		port           int32
		want           bool
	}{
		{"127.0.0.2", "", 80, true}, {"127.0.0.2", "", 80, true}, {"127.0.0.2", "", 80, true},
		{"127.0.0.2", "", 80, false}, {"127.0.0.3", "", 80, true},
		{proxy, "", 80, true}, {proxy, "", 80, true}, {proxy, "", 80, true}, {proxy, "", 80, true},
		{proxy, v4("192.0.2.7"), 81, true}, {proxy, v4("192.0.2.7"), 81, true}, {proxy, v4("192.0.2.7"), 81, true},
		{proxy, v4("192.0.2.7"), 81, false}, {proxy, v4("192.0.2.8"), 81, true},
		{proxy, v6("2001:db8:0:7::1"), 81, true}, {proxy, v6("2001:db8:0:7::2"), 81, true}, {proxy, v6("2001:db8:0:7:a::3"), 81, true},
		{proxy, v6("2001:db8:0:7:b::4"), 81, false}, {proxy, v6("2001:db8:0:8::1"), 81, true},
	} {
		if got := takes(t, step.address, g.ports[step.port], step.first); got != step.want {
			t.Errorf("from %s, %q: taken: %t, want %t", step.address, step.first, got, step.want)
		}
	}
}

// TestRequestsOverHTTP2: a few connections hold no more requests than there are for a client, and for all. The requests
// are small and mean large headers (HPACK), so that each holds a buffer.
func TestRequestsOverHTTP2(t *testing.T) {
	t.Parallel()
	const perAddress, all, connections, streams = 200, 300, 5, 100
	g, taken := startLimits(t, all, perAddress)
	var refused atomic.Int32
	for i, most := range []int32{perAddress, all} {
		for range connections {
			beginRequests(t, fmt.Sprintf("127.0.0.%d", i+2), g.ports[80], streams, &refused)
		}
		sent := int32((i + 1) * connections * streams)
		deadline := time.Now().Add(20 * time.Second)
		for taken.Load()+refused.Load() < sent {
			if time.Now().After(deadline) {
				t.Fatalf("of %d requests, %d are in work and %d were refused", sent, taken.Load(), refused.Load())
			}
			time.Sleep(time.Millisecond)
		}
		if got := taken.Load(); got == 0 || got > most {
			t.Errorf("%d addresses have %d requests in work, want at most %d", i+1, got, most)
		}
	}
	t.Logf("%d requests are in work, %d were refused; %s", taken.Load(), refused.Load(), memoryOf(t, g))
	if !takes(t, "127.0.0.4", g.ports[80], "") {
		t.Error("another client's request is refused")
	}
	checkHealth(t, g)
}

// beginRequests begins requests over one connection, of which none gets an answer from a backend. It counts those that
// are refused: by an answer, or, when HAProxy is busy, by the reset of the stream.
func beginRequests(t *testing.T, address string, port int32, requests int, refused *atomic.Int32) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatalf("failed to connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	// GET, http, "/" and the authority; then a header of 3,900 bytes, which is put in the table, and what stands for it
	// there.
	const request, large, again = "\x82\x86\x84\x01\x06silent", "\x40\x01a\x7f\xbd\x1d", "\xbe\xbe"
	all := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(frameSettings, 0, "")
	for i := range requests {
		block := request + "\xbe" + again
		if i == 0 {
			block = request + large + strings.Repeat("a", 3900) + again
		}
		headers := []byte(frame(frameHeaders, flagEndStream|flagEndHeaders, block))
		headers[7], headers[8] = byte((2*i+1)>>8), byte(2*i+1)
		all += string(headers)
	}
	if _, err := io.WriteString(conn, all); err != nil {
		t.Fatalf("failed to send requests: %v", err)
	}
	go func() {
		header := make([]byte, 9)
		for {
			if _, err := io.ReadFull(conn, header); err != nil {
				return
			}
			if header[3] == frameHeaders || header[3] == frameReset && header[8]|header[7] != 0 {
				refused.Add(1)
			}
			if _, err := io.CopyN(io.Discard, conn, int64(header[0])<<16|int64(header[1])<<8|int64(header[2])); err != nil {
				return
			}
		}
	}()
}

// memoryOf returns a line of the kernel about how much memory HAProxy's worker had at most.
func memoryOf(t *testing.T, g *gateway) string {
	t.Helper()
	_, pid, _ := strings.Cut(g.Worker("show info"), "Pid: ")
	pid, _, _ = strings.Cut(pid, "\n")
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		t.Fatalf("failed to read how much memory HAProxy has: %v", err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ = strings.Cut(line, "\n")
	return strings.TrimSpace(line)
}
