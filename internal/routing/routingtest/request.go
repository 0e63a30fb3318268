package routingtest

import (
	"fmt"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/routing"
)

// Request is a request: what the reference matcher has to know of it, but for Host, which is the header as it is sent,
// and the bytes that are sent.
type Request struct {
	routing.Request
	Bytes string
}

// Request returns a random request to one of the ports, more often than not one that has to do with the spec.
func (g *Generator) Request(spec appv1.GatewaySpec, ports [2]int32) Request {
	r := Request{Request: routing.Request{
		Port: pick(g, ports[:]), Host: g.requestHost(spec), Path: g.encodeSome(g.requestPath(spec)), Query: g.requestQuery(), Method: "GET",
	}}
	if g.IntN(3) == 0 {
		r.Method = pick(g, append(methods, "PROPFIND"))
	}
	query := ""
	if r.Query != "" || g.IntN(8) == 0 {
		query = "?" + r.Query
	}
	var lines string
	r.Header, lines = g.requestHeaders(nil)
	if g.IntN(2) == 0 {
		query, lines = g.aim(&r, spec)
	}
	switch g.IntN(16) {
	case 0:
		// Without a Host, as only HTTP/1.0 may.
		r.Host = ""
		r.Bytes = fmt.Sprintf("%s %s%s HTTP/1.0\r\nConnection: keep-alive\r\n%s\r\n", r.Method, r.Path, query, lines)
	case 1:
		// A Host that differs from the URI, if only by case, is refused, and so is one that HAProxy cannot parse.
		r.Host = g.hostBelow("test")
		r.Bytes = fmt.Sprintf("%s http://%s%s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", r.Method, r.Host, r.Path, query, r.Host, lines)
	default:
		r.Bytes = fmt.Sprintf("%s %s%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", r.Method, r.Path, query, r.Host, lines)
	}
	return r
}

// aim changes a request so that it may meet one of the spec's matches, and returns its query and headers as they are
// sent.
func (g *Generator) aim(r *Request, spec appv1.GatewaySpec) (query, lines string) {
	route := pick(g, spec.Routes)
	rule := pick(g, route.Rules)
	matches := rule.Matches
	if len(route.Hostnames) > 0 {
		r.Host = strings.Replace(string(pick(g, route.Hostnames)), "*", "a", 1)
	}
	match := appv1.RouteMatch{Path: appv1.PathMatch{Value: "/"}}
	if len(matches) > 0 {
		match = pick(g, matches)
	}
	if match.Path.Type != appv1.PathMatchRegularExpression {
		r.Path = g.encodeSome(match.Path.Value)
	}
	if match.Method != "" {
		r.Method = string(match.Method)
	}
	var headers [][2]string
	for _, header := range match.Headers {
		headers = append(headers, [2]string{strings.ToLower(string(header.Name)), g.meet(header.Type, header.Value)})
	}
	if rule.SessionPersistence != nil && len(rule.BackendRefs) > 0 && g.IntN(4) > 0 {
		headers = append(headers, [2]string{"cookie", g.sessionCookie(pick(g, rule.BackendRefs).Name) + "=x"})
	}
	var pairs []string
	for _, param := range match.QueryParams {
		value := strings.NewReplacer(" ", "+", "%41", "A").Replace(g.meet(param.Type, param.Value))
		pairs = append(pairs, g.encodeSome(param.Name)+"="+g.encodeSome(value))
	}
	r.Query = strings.Join(pairs, "&")
	r.Header, lines = g.requestHeaders(headers)
	return "?" + r.Query, lines
}

// meet returns a value that may meet a condition.
func (g *Generator) meet(kind appv1.ValueMatchType, value string) string {
	if kind == appv1.ValueMatchRegularExpression {
		return pick(g, []string{"a", "b", "ab", "aaa"})
	}
	return value
}

// requestHeaders returns the given headers, by name and as they are sent, or else some that conditions may be on: some
// several times, some empty, some with what looks like another one.
func (g *Generator) requestHeaders(given [][2]string) (map[string][]string, string) {
	header, lines := map[string][]string{}, ""
	for _, h := range given {
		header[h[0]] = append(header[h[0]], h[1])
		lines += g.upperSome(h[0]) + ": " + h[1] + "\r\n"
	}
	if g.IntN(3) == 0 {
		cookie := g.cookies()
		header["cookie"] = append(header["cookie"], cookie)
		lines += "Cookie: " + cookie + "\r\n"
	}
	if given != nil && g.IntN(4) > 0 {
		return header, lines
	}
	for range g.IntN(5) {
		name, value := pick(g, headers), pick(g, append([]string{"", "aaa", "x", "\xe4", "b\tb", "q:q"}, values...))
		if g.IntN(8) == 0 {
			name = pick(g, []string{"x-ab", "xx-a", "rol", "other"})
		}
		header[name] = append(header[name], value)
		lines += g.upperSome(name) + ":" + pick(g, []string{" ", "", "  "}) + value + pick(g, []string{"", " "}) + "\r\n"
	}
	return header, lines
}

// cookies returns some that sessions may go by, and some that are like these.
func (g *Generator) cookies() string {
	var pairs []string
	for range 1 + g.IntN(3) {
		name := g.sessionCookie(pick(g, Services))
		pairs = append(pairs, pick(g, []string{name, name, name, "x" + name, name + "x", "a"})+pick(g, []string{"=x", "=", "=a=b", "=x", ""}))
	}
	return strings.Join(pairs, pick(g, []string{"; ", ";", ",", "; a=b; "}))
}

func (g *Generator) sessionCookie(service string) string {
	return (&routing.Affinity{Name: "gateway-session"}).Cookie(routing.Backend{Namespace: g.Namespace, Service: service, Port: 80})
}

// requestQuery returns parameters that conditions may be on, in some of the ways to write them.
func (g *Generator) requestQuery() string {
	var pairs []string
	for range g.IntN(4) {
		name := pick(g, append([]string{"qq", "Q", "", "xrole"}, params...))
		value := strings.ReplaceAll(pick(g, append([]string{"", "aaa", "a+b", "a%2Bb", "a%2bb", "%00a", "a%0ah:role", "%c3%a4", "100%", "%zz", "a=b", "two+words"}, values...)), " ", "%20")
		pair := g.encodeSome(name) + "=" + g.encodeSome(value)
		if g.IntN(12) == 0 {
			pair = name
		}
		pairs = append(pairs, pair)
	}
	return strings.Join(pairs, "&")
}

// encodeSome percent-encodes some letters, in either case.
func (g *Generator) encodeSome(s string) string {
	if g.IntN(3) > 0 {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		encoded := i > 0 && s[i-1] == '%' || i > 1 && s[i-2] == '%'
		if letter := s[i] >= 'a' && s[i] <= 'z' || s[i] == '.' || s[i] == '['; letter && !encoded && g.IntN(4) == 0 {
			b.WriteString(g.upperSome(fmt.Sprintf("%%%02x", s[i])))
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// requestHost returns a Host header: mostly a hostname of the spec, with something in place of the wildcard, in one of
// the ways clients write it.
func (g *Generator) requestHost(spec appv1.GatewaySpec) string {
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
		host = g.upperSome(host)
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
func (g *Generator) requestPath(spec appv1.GatewaySpec) string {
	known := []string{"/"}
	for _, route := range spec.Routes {
		for _, rule := range route.Rules {
			for _, match := range rule.Matches {
				if match.Path.Type == appv1.PathMatchRegularExpression {
					known = append(known, pick(g, []string{"/aa", "/a/b/x", "/b.b", "/A/x", "/%C3%A4x", "/a/b/b", "/b/a", "/ab", "/" + strings.Repeat("a", 60) + "b"}))
				} else {
					known = append(known, match.Path.Value)
				}
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
		return path + pick(g, []string{"//", "/.", "/../a", ";v=1", "%2F", "/a%00", "/%2e", "%2f%2E%2e", "%zz", "%", "/a%3Fb+c", "/" + strings.Repeat("a", 2000), "/" + strings.Repeat("%c3", 1000) + "/../a", "/" + strings.Repeat("%c3", 1100), "/..;a/b", `/a\..`, "/a%5c%2e", `\a`, "%5Ca", "%255c"})
	case 6:
		return "/" + path
	default:
		return path
	}
}

// upperSome makes some letters upper case.
func (g *Generator) upperSome(s string) string {
	b := []byte(s)
	for i := range b {
		if g.IntN(2) == 0 {
			b[i] = strings.ToUpper(s)[i]
		}
	}
	return string(b)
}
