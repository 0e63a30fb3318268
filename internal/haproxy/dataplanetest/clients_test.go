package dataplanetest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing/routingtest"
)

const clientsWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: limited
      rules:
        - matches: [{path: {value: /inside}}]
          filters: [{type: ClientAddress, clientAddress: {allow: [127.0.0.0/8, 192.0.2.0/25, "2001:db8::/32"], deny: [192.0.2.7/32, "::ffff:192.0.2.8/128"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /outside}}]
          filters: [{type: ClientAddress, clientAddress: {deny: [127.0.0.0/8, "::/0"]}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /unreadable}}]
          filters: [{type: ClientAddress, clientAddress: {deny: [999.0.0.0/8]}}]
          backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
`

// TestClientAddresses: nobody is believed about the address of a client but trusted proxies, and those about the last
// address that is not theirs.
func TestClientAddresses(t *testing.T) { //nolint:funlen // a flat table
	t.Parallel()
	gateways := map[string]*gateway{}
	start := func(w rendertest.World) *gateway {
		key := fmt.Sprint(w.Spec.TrustedProxies)
		if gateways[key] == nil {
			gateways[key] = startGateway(t, w)
		}
		return gateways[key]
	}
	for _, test := range []struct {
		trusted   []appv1.CIDR
		path      string
		forwarded []string
		status    int
	}{
		{nil, "/inside", nil, 200},
		{nil, "/inside/more", nil, 200},
		{nil, "/%69nside", nil, 200},
		{nil, "/outside", nil, 403},
		{nil, "/%6futside", nil, 403},
		{nil, "//outside", nil, 403},
		{nil, "/unreadable", nil, 500},
		{nil, "/inside", []string{"203.0.113.1"}, 200},
		{nil, "/outside", []string{"203.0.113.1"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", nil, 200},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"203.0.113.1"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/outside", []string{"203.0.113.1"}, 200},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.1"}, 200},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.7"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.200"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"2001:db8:1::1"}, 200},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"2001:db9::1"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"::ffff:192.0.2.1"}, 200},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"::ffff:192.0.2.7"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.8"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/outside", []string{"::ffff:203.0.113.1"}, 200},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/outside", []string{"2001:db8:1::1"}, 403},
		// A port may follow an address of IPv4.
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.1:4711"}, 200},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.7:4711"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"[2001:db8::1]:4711"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"[2001:db8::1]"}, 200},
		// An address that contains one of IPv4 in another way is one of IPv6.
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"2002:c000:201::1"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"::192.0.2.1"}, 403},
		// The client's own header comes before the proxy's.
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.1, 203.0.113.1"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.1", "203.0.113.1"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"203.0.113.1", "192.0.2.1"}, 200},
		// Several proxies are trusted.
		{[]appv1.CIDR{"10.0.0.0/8", "127.0.0.0/8"}, "/inside", []string{"203.0.113.1, 192.0.2.1, 10.0.0.1, 10.0.0.2"}, 200},
		{[]appv1.CIDR{"10.0.0.0/8", "127.0.0.0/8"}, "/inside", []string{"192.0.2.1, 203.0.113.1, 10.0.0.1, 10.0.0.2"}, 403},
		{[]appv1.CIDR{"10.0.0.0/8", "127.0.0.0/8"}, "/inside", []string{"192.0.2.1, 10.0.0.6, 10.0.0.5, 10.0.0.4, 10.0.0.3, 10.0.0.2"}, 403},
		{[]appv1.CIDR{"10.0.0.0/8"}, "/inside", []string{"203.0.113.1"}, 200},
		// Anything but an address has no access.
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"unknown"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/outside", []string{"unknown"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/outside", []string{"203.0.113.1, "}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{"192.0.2.1,,203.0.113.1"}, 403},
		{[]appv1.CIDR{"127.0.0.0/8"}, "/inside", []string{`192.0.2.1, ", 203.0.113.1`}, 403},
	} {
		w := rendertest.Parse(t, clientsWorld)
		w.Spec.TrustedProxies = test.trusted
		name := fmt.Sprintf("%v %s %v", test.trusted, test.path, test.forwarded)
		g := start(w)
		request := "GET " + test.path + " HTTP/1.1\r\nHost: x\r\n"
		for _, value := range test.forwarded {
			request += "X-Forwarded-For: " + value + "\r\n"
		}
		if got := newClient(t, g.ports[80]).send(request + "\r\n"); got.Status != test.status {
			t.Errorf("%s: got %d, want %d", name, got.Status, test.status)
		}
	}
	g := start(rendertest.Parse(t, clientsWorld))
	got := newClient(t, g.ports[80]).send("GET /outside HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\n\r\n")
	if got.Status != http.StatusForbidden || got.Header.Get("Access-Control-Allow-Origin") != "https://a.io" {
		t.Errorf("a page may not read the refusal: %d, %v", got.Status, got.Header)
	}
}

// TestManyClientAddresses: thousands of ranges come and go without a reload.
func TestManyClientAddresses(t *testing.T) {
	t.Parallel()
	w := rendertest.Parse(t, clientsWorld)
	g := startGateway(t, w)
	ranges := make([]string, 4094)
	for i := range ranges {
		ranges[i] = fmt.Sprintf("10.%d.%d.0/25", i>>8, i&255)
	}
	for _, step := range []struct {
		deny   string
		status int
	}{{"127.0.0.1/32", 403}, {"126.0.0.1/32", 200}, {"127.0.0.0/30", 403}} {
		changed := rendertest.Parse(t, strings.Replace(clientsWorld, "deny: [127.0.0.0/8,", "deny: ["+strings.Join(ranges, ", ")+", "+step.deny+",", 1))
		changed.Spec.Listeners[0].Port = g.ports[80]
		in := g.in
		in.Table, _ = routingtest.Compile(&changed.Spec)
		desired := render.Render(in)
		p := plan.Diff(desired, render.Render(g.in))
		g.change(t, p, func() {})
		g.in = in
		if got := newClient(t, g.ports[80]).send(get("x", "/outside")); got.Status != step.status {
			t.Errorf("without %s: got %d, want %d", step.deny, got.Status, step.status)
		}
	}
}
