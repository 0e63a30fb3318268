package config_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	appv1 "gateway/api/app/v1"
)

// request is a request with what the reference matcher has to know of it.
type request struct {
	port int32
	// host is the Host header, path the path it is routed by.
	host, path string
	bytes      string
}

// request returns a random request, more often than not one that has to do with the spec.
func (g *generator) request(spec appv1.GatewaySpec, ports map[int32]int32) request {
	r := request{port: ports[80+g.Int32N(2)], host: g.requestHost(spec), path: g.requestPath(spec)}
	query := ""
	if g.IntN(4) == 0 {
		query = "?q=/a/b"
	}
	switch g.IntN(16) {
	case 0:
		// Without a Host, as only HTTP/1.0 may.
		r.host = ""
		r.bytes = fmt.Sprintf("GET %s%s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", r.path, query)
	case 1:
		// A Host that differs from the URI, if only by case, is refused, and so is one that HAProxy cannot parse.
		r.host = g.hostBelow("test")
		r.bytes = fmt.Sprintf("GET http://%s%s%s HTTP/1.1\r\nHost: %s\r\n\r\n", r.host, r.path, query, r.host)
	default:
		r.bytes = fmt.Sprintf("GET %s%s HTTP/1.1\r\nHost: %s\r\n\r\n", r.path, query, r.host)
	}
	return r
}

// requestHost returns a Host header: mostly a hostname of the spec, with something in place of the wildcard, in one of
// the ways clients write it.
func (g *generator) requestHost(spec appv1.GatewaySpec) string {
	known := []string{}
	for _, listener := range spec.Listeners {
		known = append(known, string(listener.Hostname))
	}
	for _, route := range spec.Routes {
		for _, hostname := range route.Hostnames {
			known = append(known, string(hostname))
		}
	}
	host := pick(g, known)
	if suffix, ok := strings.CutPrefix(host, "*."); ok {
		host = g.hostBelow(suffix)
	}
	if host == "" || g.IntN(6) == 0 {
		host = g.hostBelow(pick(g, suffixes))
	}
	if g.IntN(4) == 0 {
		host = upperSome(g.Rand, host)
	}
	if g.IntN(6) == 0 {
		host += "."
	}
	if g.IntN(4) == 0 {
		host += pick(g, []string{":80", ":8080", ":", ":0", ":65536"})
	}
	if g.IntN(12) == 0 {
		return pick(g, []string{
			"", ".", "a..test", host + "..", "." + host, "*.test", host + "/a", host + ":x", host + ":80:80", host + ",a.test", "a b.test",
			"[::1]", "[::1]:80", "[::1", "::1", "[a.test]", "1.2.3.4", "xn--nxasmq6b.test", "-.test", "%61.test", host + "@a.test",
		})
	}
	return host
}

// requestPath returns a path: mostly one of the spec, as it is or with something added or cut off.
func (g *generator) requestPath(spec appv1.GatewaySpec) string {
	known := []string{"/"}
	for _, route := range spec.Routes {
		for _, rule := range route.Rules {
			for _, match := range rule.Matches {
				known = append(known, match.Path.Value)
			}
		}
	}
	path := pick(g, known)
	switch g.IntN(8) {
	case 0:
		return g.path()
	case 1:
		return path + "/"
	case 2:
		return path + pick(g, segments)
	case 3:
		return strings.TrimSuffix(path, "/") + "/" + pick(g, segments)
	case 4:
		return strings.TrimSuffix(path, "/") + g.path()
	case 5:
		return path + pick(g, []string{"//", "/.", "/../a", ";v=1", "%2F", "/a%00", "/" + strings.Repeat("a", 2000)})
	case 6:
		return "/" + path
	default:
		return path
	}
}

func upperSome(r *rand.Rand, s string) string {
	b := []byte(s)
	for i := range b {
		if r.IntN(2) == 0 {
			b[i] = strings.ToUpper(s)[i]
		}
	}
	return string(b)
}
