package render

import (
	"fmt"
	"slices"
	"strings"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// routingLines are the rules of all frontends for requests: the rules of a defaults section are run in every frontend
// that names it, so haproxy.cfg does not repeat them for every port. They normalise a request, and find its host, its
// rule and its filters: see doc.go.
//
// An old worker leaves idle connections open, and closes each after its next answer: a request that is on its way when
// the worker stops must not meet a closed connection.
//
// http-ignore-probes: a client that connects ahead would take 408 for the answer to its first request.
func (r *Renderer) routingLines() []ir.Line {
	lines := []string{
		accessLog,
		watchedLog,
		"option dontlognull",
		"option http-ignore-probes",
		"option idle-close-on-response",
		"log-format '" + requestLog + traceFields(r.in.Table.Tracing) + r.clientLog() + r.shadowLog() + r.wafLog() + loggedHeaders(r.in.Table) + "}'",
		"error-log-format '" + errorLog + "'",
	}
	if r.in.Table.RequestMetrics != "" {
		lines = append(lines, measureLog)
	}
	if r.in.Table.Tracing != nil {
		lines = append(lines, traceLog)
	}
	isTrusting := len(r.in.Table.TrustedProxies) > 0
	if isTrusting {
		// Idle connections are kept for longer than trusted proxies keep them, so that none sends a request on one that
		// is just being closed, and answers 502: load balancers of Google keep theirs for 600 s, of AWS for 60 s by
		// default.
		lines = append(lines, "timeout http-keep-alive 620s")
	}
	lines = append(lines, compressionLines(r.in.Table.Compression)...)
	lines = append(lines, normalizingLines...)
	lines = append(lines, sizeLines(r.in.Table)...)
	if r.in.Table.Compression != nil {
		// HAProxy would take "*" for gzip, though the client refuses that by name.
		lines = append(lines, `http-request replace-value Accept-Encoding ^\*.*$ identity if { req.fhdr(accept-encoding) -i -m reg '(?:^|,)[\x09 ]*gzip[\x09 ]*;[\x09 ]*q=0(?:\.0*)?[\x09 ]*(?:,|$)' }`)
	}
	lines = append(lines,
		// After CONNECT, also with an absolute URI, what follows the answer would go past all rules. The answer to
		// TRACE shows the client the headers that the proxy has set. HAProxy answers 500 where a header finds no room,
		// so what is refused is refused before.
		"http-request deny deny_status 405 if { method CONNECT TRACE }",
		"http-request deny deny_status 400 if "+isOdd+" !{ var(txn.clean) -m found } or !{ url_beg -i / * http:// https:// }",
		// A backend may believe an absolute URI, and gets none. The URI of a request over HTTP/2 is one to HAProxy.
		"http-request set-uri %[pathq] if { req.ver 1.0 1.1 } { url_beg -i http } { pathq -m beg / }",
		"http-request set-uri /?%[query] if { req.ver 1.0 1.1 } { url_beg -i http }",
	)
	lines = append(lines, requestLimitLines(r.in)...)
	lines = append(lines, r.loggedHeaderLines()...)
	forwarded, odd := forwardedLines, slices.Concat(oddLines, oddForwardedLines)
	if isTrusting {
		forwarded, odd = trustedLines, slices.Concat(oddLines, oddTrustedLines)
	}
	lines = append(lines, forwarded...)
	lines = append(lines, requestIDLines(r.in.Table, isTrusting)...)
	lines = append(lines, r.hostLines("http-request")...)
	if verifiesClients(r.in, 0) || filters.HasPreRouting(r.env()) {
		// The client's own headers about certificates are removed before these are set, and others before a question.
		lines, odd = append(lines, odd...), nil
	}
	if hasTLS(r.in.Table) {
		lines = append(lines, tlsLines(r.in)...)
	}
	found := ir.Lines("", "http-request set-var(txn.hit) var(txn.hosts),field(2,|),concat(,txn.path,/>),map_beg("+r.in.Paths.Map(ir.PathsFile)+",none) unless "+isOdd)
	// The request is of the usual kind, and its rule has no conditions, weights or filters.
	const isPlain = "{ var(txn.hit) -m beg | }"
	rest := append([]string{
		watchLine(isPlain),
		"http-request allow if " + isPlain,
		"http-request set-var(txn.clean) var(txn.path) unless " + isOdd,
		"http-request deny deny_status 400 unless { var(txn.clean) -m found }",
	}, odd...)
	return slices.Concat(
		ir.Lines("", lines...), filters.PreRouting(r.env(), "var(txn.hosts),field(1,|),field(3,/)"), found, filters.TakeCookies(r.env(), isPlain+" "), ir.Lines("", rest...),
		ir.Lines(ir.ReloadNames, r.searchLines()...), ir.Lines("", r.splitLines("http-request")...), ir.Lines("", watchLine("{ var(txn.hit) -m found }")),
		r.filterLines(),
	)
}

// loggedHeaderLines keep the headers that are to be logged as the client has sent them.
func (r *Renderer) loggedHeaderLines() (lines []string) {
	for i, name := range r.in.Table.LoggedHeaders {
		if !filters.IsSecret(r.env(), name) {
			lines = append(lines, fmt.Sprintf("http-request set-var(txn.logged_%d) req.fhdr(%s),bytes(0,256)", i, name))
		}
	}
	return lines
}

// sizeLines bound the headers of a request, with its URL.
func sizeLines(table routing.Table) []string {
	return []string{
		"http-request set-var(txn.size) url,length",
		fmt.Sprintf("http-request deny deny_status 431 if { req.fhdr_cnt gt %d } or { req.hdrs,length,add(txn.size) gt %d }", table.MaxHeaders, table.MaxHeaderBytes),
	}
}

// compressionLines have answers compressed. They are of frontends: HAProxy does not compress the answers of backends
// that are added while it runs. With a least size, HAProxy 3.4.7 compresses no stored answer that it has as a whole. So
// only backends have one, and what is stored has no backend.
func compressionLines(compression *model.Compression) []string {
	if compression == nil {
		return nil
	}
	types := "compression type-res"
	for _, name := range compression.ContentTypes {
		types += " " + ir.Quote(name, ir.InConfig)
	}
	return []string{"compression algo-res gzip", types, "compression minsize-res 0"}
}

// hostLines find the listener of a host, and the contents that its paths are in: "LISTENER|CONTENT|...".
func (r *Renderer) hostLines(directive string) []string {
	return []string{
		directive + " set-var(txn.reversed) var(txn.host),reverse",
		directive + " set-var(txn.hosts) fe_name,concat(/,txn.reversed,!),map_beg(" + r.in.Paths.Map(ir.HostsFile) + ")",
	}
}

// isUnknown is the condition that nothing was found for a request, and isConditional that a list of conditions was.
const (
	isUnknown     = "{ var(txn.hit) -m str none }"
	isConditional = "{ var(txn.hit) -m beg ? }"
)

// searchLines find the first entry whose conditions a request meets. The entries of its host come before the entries
// of wildcards and of all hosts. In each, exact paths come before regular expressions and prefixes.
func (r *Renderer) searchLines() []string {
	paths, conditions, lists := r.in.Paths.Map(ir.PathsFile), r.in.Paths.Map(ir.ConditionsFile), r.in.Paths.Map(ir.ListsFile)
	headers, params := r.conditionNames()
	lines := []string{"http-request set-var(txn.hit) str(none) if " + isOdd + " or " + isConditional}
	lines = append(lines, factLines(headers, params)...)
	for i := range r.chainLength() {
		content := fmt.Sprintf("var(txn.hosts),field(%d,|)", i+2)
		for _, lookup := range []string{",concat(,txn.clean,/>),map_str(", ",concat(~),map_str(", ",concat(,txn.clean,/),map_beg("} {
			lines = append(lines, "http-request set-var(txn.hit) "+content+lookup+paths+",none) if "+isUnknown)
			lines = append(lines, "http-request set-var(txn.hit) str("+tooLongHit+") if "+isConditional+" { var(txn.facts) -m len gt 15000 }")
			if len(params) > 0 {
				lines = append(lines, "http-request set-var(txn.hit) str("+tooLongHit+") if { var(txn.long) -m found } "+isConditional+" { var(txn.hit) -m sub "+asksQuery+"| }")
			}
			lines = append(lines,
				"http-request set-var(txn.hit) var(txn.hit),concat(,txn.facts),map_regm("+conditions+",-),concat(,txn.hit),map_str("+lists+",none) if "+isConditional)
		}
	}
	return append(lines, "http-request unset-var(txn.hit) if "+isUnknown)
}

// splitLines choose among the backends of a rule by their weights.
func (r *Renderer) splitLines(directive string) []string {
	const split = " if { var(txn.hit) -m beg % }"
	splits := r.in.Paths.Map(ir.SplitsFile)
	return []string{
		directive + " set-var(txn.random) rand(16777216),hex,bytes(10,6)" + split,
		directive + " set-var(txn.hit) var(txn.hit),field(1,|),concat(/,txn.random),map_beg(" + splits + "),concat(,txn.hit),map_str(" + splits + ")" + split,
	}
}

// tlsLines answer requests over connections that were made for another listener: the request's listener may have
// another certificate, or other demands on the client. If the server name of the connection now leads to the listener
// of the request, the connection is closed: over HTTP/2, a client would go on using it, and many do not know 421.
func tlsLines(in Input) []string {
	const isOther = " if { ssl_fc } { var(txn.listener) -m found } !{ var(sess.listener),strcmp(txn.listener) eq 0 }"
	misdirected := returnText(in, 421, "this connection was made for another host")
	lines := []string{"http-request set-var(txn.listener) var(txn.hosts),field(2,|/) if { ssl_fc }"}
	lines = append(lines, listenerLines(in, "http-request set-var(txn.connected)", isOther)...)
	lines = append(lines, "http-request reject"+isOther+" { var(txn.connected),strcmp(txn.listener) eq 0 }", misdirected+isOther)
	if verifiesClients(in, 0) {
		lines = append(lines, misdirected+" if { ssl_fc } { var(txn.listener) -m beg "+needsClient+" } !{ ssl_c_used }")
		// Backends learn which certificate a client has shown, if it is valid.
		const used = " if { ssl_fc } { ssl_c_used } { ssl_c_verify 0 }"
		lines = append(lines,
			`http-request set-header Client-Cert ":%[ssl_c_der,base64]:"`+used,
			`http-request set-header X-SSL-Client-Subject "%{+Q}[ssl_c_s_dn]"`+used,
			`http-request set-header X-SSL-Client-Fingerprint "%[ssl_c_der,sha2(256),hex,lower]"`+used,
		)
	}
	return lines
}

// requestIDLines give each request an ID, for the access log and for the backend, unless a trusted proxy has given it
// one.
func requestIDLines(table routing.Table, isTrusting bool) []string {
	lines := append([]string{"http-request set-var(txn.id) uuid()"}, traceLines(table.Tracing, isTrusting)...)
	if isTrusting {
		lines = append(lines, "http-request set-var(txn.id) req.fhdr(x-request-id) if { var(sess.trusted) -m found } { req.fhdr(x-request-id) -m reg ^[A-Za-z0-9._=+/-]{1,128}$ }")
	}
	return append(lines, "http-request set-header X-Request-Id %[var(txn.id)]", "http-request set-var(txn.agent) req.fhdr(user-agent),bytes(0,256)")
}

// sessionLines keep values that are the same for all requests of a connection: HAProxy would otherwise make a text of
// the client's address for each use. The converter makes the text, and changes nothing else. sess.forwarded is the
// beginning of Forwarded, which ends in the host (RFC 7239).
//
// sess.trusted is set if the client is a trusted proxy. Only a trusted proxy's forwarding headers are kept.
func sessionLines(in Input, isTLS bool) []string {
	scheme := "http"
	if isTLS {
		scheme = "https"
	}
	lines := []string{
		"tcp-request session set-var(sess.scheme) str(" + scheme + ")",
		"tcp-request session set-var(sess.client) src,lower",
		`tcp-request session set-var-fmt(sess.forwarded) "for=%[var(sess.client)];proto=` + scheme + `;host=\"" unless { var(sess.client) -m sub : }`,
		`tcp-request session set-var-fmt(sess.forwarded) "for=\"[%[var(sess.client)]]\";proto=` + scheme + `;host=\"" if { var(sess.client) -m sub : }`,
	}
	if isTLS {
		lines = append(lines, connectedLines(in)...)
	}
	if len(in.Table.TrustedProxies) > 0 {
		lines = append(lines, "tcp-request session set-var(sess.trusted) bool(true) if trusted")
	}
	return lines
}

// connectedLines keep, in sess.listener, the listener whose certificate HAProxy has shown: by the server name, its
// wildcard, any name.
func connectedLines(in Input) []string {
	return append([]string{
		"tcp-request session set-var(sess.name) ssl_fc_sni,lower",
		`tcp-request session set-var(sess.wildcard) 'ssl_fc_sni,lower,regsub("^[^.]*","*")'`,
	}, listenerLines(in, "tcp-request session set-var(sess.listener)", "")...)
}

// listenerLines set a variable to the listener of a connection's server name.
func listenerLines(in Input, directive, condition string) []string {
	names := in.Paths.Map(ir.NamesFile)
	return []string{
		directive + " fe_name,concat(/" + ir.AnyName + "),map_str(" + names + ")" + condition,
		directive + " fe_name,concat(/,sess.wildcard),map_str(" + names + ")" + condition,
		directive + " fe_name,concat(/,sess.name),map_str(" + names + ")" + condition,
	}
}

// An access log line is one JSON object, which HAProxy never cuts: normalizingLines see to it that txn.host and
// txn.path can be written as they are, and HAProxy takes no method with a quote or a backslash. What was not found out,
// as for a request that does not parse, is "-", which is why rule is a string. The method is "<BADREQ>" then. What ends
// before there is a request is logged by error-log-format, which can say why.
const (
	logTime    = `"time":"%[date,utime(%Y-%m-%dT%H:%M:%S)].%[date_us,add(1000000),concat(),bytes(1,3)]Z"`
	logRequest = `"clientPort":%cp,"port":"%f","method":"%HM","host":"%[var(txn.host)]","path":"%[var(txn.path)]","userAgent":"%[var(txn.agent),json(utf8s)]",` +
		`"status":%ST,"bytesIn":%U,"bytesOut":`
	logTimes = `,"msRequest":%TR,"msQueue":%Tw,"msConnect":%Tc,"msResponse":%Tr,"msTotal":%Ta,`
	logRoute = `"route":"%[var(txn.hit),field(2,|)]","rule":"%[var(txn.hit),field(3,|)]","listener":"%[var(txn.hosts),field(1,|/)]",` +
		`"backend":"%[var(txn.hit),field(4,|)]"`
	// %B is what the backend sent. A connection without a request has no logSent.
	logSent = "%[res.bytes_out]"
	logEnd  = `"server":"%s","retries":"%rc","termination":"%ts"`

	requestLog = `{` + logTime + `,"requestId":"%[var(txn.id)]","client":"%[var(sess.client)]",` + logRequest + logSent + logTimes + logRoute + `,"filter":"%[var(txn.guard)]",` + logEnd
	errorLog   = `{` + logTime + `,"requestId":"-","client":"%ci",` + logRequest + "%B" + logTimes + `"route":"-","rule":"-","listener":"-","backend":"-","filter":"-",` + logEnd +
		`,"error":"%[fc_err_str,regsub(^Success$,-)]","tlsError":"%[ssl_fc_err_str]"}`
	connectionLog = `{` + logTime + `,"client":"%ci","clientPort":%cp,"port":"%f","host":"%[var(txn.host),bytes(0,253),json(utf8s)]",` +
		`"bytesIn":%U,"bytesOut":` + logSent + `,"msQueue":%Tw,"msConnect":%Tc,"msTotal":%Tt,` + logRoute + `,` + logEnd + `}`
)

// loggedHeaders is the key of the access log with headers of requests. Their names need no quotes.
func loggedHeaders(table routing.Table) string {
	if len(table.LoggedHeaders) == 0 {
		return ""
	}
	fields := make([]string, len(table.LoggedHeaders))
	for i, name := range table.LoggedHeaders {
		fields[i] = fmt.Sprintf(`"%s":"%%[var(txn.logged_%d),json(utf8s)]"`, name, i)
	}
	return `,"requestHeaders":{` + strings.Join(fields, ",") + `}`
}

// clientLog is what names of clients add to a line.
func (r *Renderer) clientLog() string {
	if !filters.HasClients(r.env()) {
		return ""
	}
	return `,"clientName":"%[` + filters.ClientLog + `,json(utf8s)]"`
}

// shadowLog is what filters in shadow add to a line.
func (r *Renderer) shadowLog() string {
	if !filters.HasShadows(r.env()) {
		return ""
	}
	return `,"shadow":%[` + filters.ShadowLog + `]`
}

// wafLog is what WAFs add to a line.
func (r *Renderer) wafLog() string {
	if !filters.HasWAF(r.env()) {
		return ""
	}
	return `,"waf":%[` + filters.WAFLog + `]`
}

// isOdd is the condition that a request is not of the usual kind.
const isOdd = "{ var(txn.odd) -m found }"

// normalizingLines normalise what is looked up. They do what routing.NormalizeHost and routing.CanonicalPath do. They
// are rules about content since those can be left at any point: a request whose headers, host and path are of the usual
// kind skips what is about the unusual, and one that is malformed what follows. txn.odd marks what is unusual, whose
// path is in txn.clean if nothing is wrong with it; a request that cannot be marked has no host and no path, and is
// refused.
//
// Usual is a request with one Host, in lower case and without a port, without headers that oddLines may remove or
// change and without control characters, with a path of characters that a path may have as they are, without a double
// slash or a segment that begins with a dot, and not too long for the access log. What cannot be compared, for whatever
// reason, is unusual. The expressions are possessive: they need no stack.
//
// The host and the path of a usual request are text of JSON as they are. Those of an unusual one are cut and made such
// text before anything else happens to it; txn.given and txn.sent are what it has. A host that passed its check needs
// that no more.
//
// req.fhdr, because req.hdr would take a part of a Host header with a comma. The header is checked before host_only,
// which HAProxy lets remove anything after the last colon. Only a checked host takes part in keys: a slash in it could
// pass for a path. HAProxy accepts later versions than HTTP/1.0 without a host, and does not make one from an absolute
// URI: none is routed. A request without a path ("OPTIONS *", "GET http://example.com") is routed as "/"; HAProxy finds
// none in "GET example.com/a" either, of which backends may see one.
//
// An odd path grows to up to three times its length on the way, and to five times where something is not encoded that
// should be. HAProxy would cut it without a word where it does not fit tune.bufsize.
//
// The version of HTTP and NUL in a header are checked whatever HAProxy's own parser refuses.
//
// HTTP/1.0 knows no chunks. HAProxy reads them, but sends them on as HTTP/1.0 again, and the backend takes them for the
// next request.
//
// The method is in no variable: kept there, HAProxy would forget the name of one that it has no number for, PATCH among
// them.
var normalizingLines = []string{
	`tcp-request content set-var(txn.path) path`,
	`tcp-request content set-var(txn.host) req.fhdr(host,1)`,
	`tcp-request content accept if { req.ver 1.1 2.0 } { req.hdrs -m reg '` + usualHeaders + `' } { var(txn.path) -m reg '` + usualPath + `' }`,
	`tcp-request content unset-var(txn.path)`,
	`tcp-request content unset-var(txn.host)`,
	`tcp-request content set-var(txn.odd) bool(true)`,
	`tcp-request content accept unless { var(txn.odd) -m found }`,
	`tcp-request content set-var(txn.given) req.fhdr(host),lower`,
	`tcp-request content set-var(txn.sent) path`,
	`tcp-request content set-var(txn.sent) str(/) if !{ var(txn.sent) -m found }`,
	`tcp-request content set-var(txn.host) var(txn.given),bytes(0,253),json(utf8s)`,
	`tcp-request content set-var(txn.path) var(txn.sent),bytes(0,1024),json(utf8s)`,
	`tcp-request content accept if !{ req.ver 1.1 2.0 1.0 3.0 } or { req.ver 1.0 } { req.fhdr_cnt(transfer-encoding) gt 0 } or { req.hdrs -m reg '\x00' }`,
	`tcp-request content accept if { var(txn.given) -m found } !{ var(txn.given) -m reg ^(([a-z0-9_-]+\.)*[a-z0-9_-]+\.?|\[[0-9a-f:.]+\])?(:[0-9]*)?$ }`,
	`tcp-request content accept if !{ req.fhdr_cnt(host) gt 0 } { req.ver 1.1 } or !{ req.fhdr_cnt(host) gt 0 } !{ url_beg / } or !{ req.fhdr(host) -m len gt 0 } { req.ver 2.0 3.0 }`,
	`tcp-request content accept if !{ path -m found } !{ url -m reg '^(\*|[^/?]+://[^/?]*(\?.*)?)$' }`,
	`tcp-request content set-var(txn.given) var(txn.given),host_only,regsub(\.$,)`,
	`tcp-request content accept if { var(txn.given) -m len gt 253 }`,
	`tcp-request content set-var(txn.host) var(txn.given)`,
	`tcp-request content set-var(txn.clean) var(txn.sent) if { var(txn.sent) -m reg '` + plainPath + `' }`,
	`tcp-request content accept if { var(txn.clean) -m found }`,
	`tcp-request content accept if { var(txn.sent) -m sub %00 } or { var(txn.sent) -m len gt 10900 } or { var(txn.sent) -m len gt 3200 } !{ var(txn.sent) -m reg '` + encodedRest + `' }`,
	`tcp-request content set-var(txn.decoded) 'var(txn.sent),url_dec,url_enc,` + decodeOnly(encodedPath) + `,regsub("//+","/",g)'`,
	`tcp-request content accept if { var(txn.decoded) -m reg '/\.\.?(;[^/]*)?(/|$)|%5C' }`,
	`tcp-request content set-var(txn.clean) var(txn.decoded)`,
}

const (
	usualHeaders = `^` + otherHeaders + `host: (?=[^\x0D]{1,253}\x0D)[a-z0-9-]++(?>\.[a-z0-9-]++)*+\x0D\x0A` + otherHeaders + `\x0D\x0A$`
	otherHeaders = `(?>(?!(?:host|upgrade|` + routing.RemovedHeaders + `|` + routing.ClaimedHeaders + `):|connection: (?!(?i:keep-alive|close)\x0D))` +
		`[a-z0-9-]++:[^\x00-\x1F]*+\x0D\x0A)*+`
	usualPath   = `^(?=.{1,1024}+$)` + segments
	plainPath   = `^` + segments
	encodedRest = `^(?>[!$&-;=@-Z_a-z~]++|%[0-9A-Fa-f]{2})*+$`
	segments    = `(?>/(?![/.])[!$&-.0-;=@-Z_a-z~]*+)++$`
)
