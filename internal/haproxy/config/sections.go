package config

import (
	"strings"

	"gateway/internal/routing"
)

// The parts of haproxy.cfg that are the same for every Gateway.

// globalSection wants the worker's socket, how long connections may keep an old worker from ending, and how many files may be open.
//
// mworker-max-reloads has to be out of reach: HAProxy counts refused reloads against the worker that keeps running, too, and ends it,
// requests and all, with the next one that succeeds. The default is 50. hard-stop-after bounds old workers.
//
// Nothing is beside a certificate that HAProxy is to load. HAProxy's own HTTP client, which nothing here uses, would load the
// authorities of the system at every start, which takes as long as everything else together.
//
// tune.pattern.cache-size: HAProxy would keep the results of the last 10,000 comparisons with expressions and parts of texts. To find
// one there takes longer than most comparisons do, and with many hosts and paths it is seldom there.
//
// tune.memory.hot-size: what a thread keeps of freed memory. Requests that are kept for another try need buffers, for which 512 KiB are too
// little with some dozens of busy connections; HAProxy then gives them back to the C library and asks for them again, request by request.
//
// tune.bufsize.small: what a request usually takes, with its headers and what HAProxy notes about them.
//
// fd-hard-limit: without it, HAProxy reserves memory for as many connections as the container runtime allows files, which
// may be a billion. What it is: admission.go.
//
// tune.h2.fe.glitches-threshold: a client that breaks the rules of HTTP/2 so often, or works the proxy for nothing, loses its connection.
// HAProxy's manual asks for hundreds or thousands, because usual clients do it at times.
const globalSection = `global
    log stdout len 16384 format raw local0 info
    stats socket %s mode 600 level admin expose-fd listeners
    hard-stop-after %sms
    mworker-max-reloads 2147483647
    fd-hard-limit %d
    tune.pattern.cache-size 0
    tune.memory.hot-size 2097152
    tune.bufsize.small 4096
    tune.h2.fe.max-concurrent-streams 100 rq-load auto min 15
    tune.h2.fe.glitches-threshold 1000
    httpclient.ssl.verify none
    ssl-load-extra-files none
    ssl-default-bind-options ssl-min-ver TLSv1.2
`

// noSessions keeps clients from resuming a TLS session: one that was made with a client certificate for one listener could be
// resumed at another, which trusts other authorities. Tickets are switched off for the ports concerned.
const noSessions = `    tune.ssl.cachesize 0
`

// serverKeepalive finds out within some 20 s that the node behind an idle connection is gone, so that no request is sent there.
const serverKeepalive = `    option srvtcpka
    srvtcpka-idle 10s
    srvtcpka-intvl 3s
    srvtcpka-cnt 3
`

// commonSection holds the defaults of all sections. "safe" reuse sends the first request of a client on a connection to
// a server that is known to work, or on a new one. A connection that fails is tried again on another server.
const commonSection = `
defaults common
    mode http
    timeout connect 2s
    timeout client 60s
    timeout client-fin 10s
    timeout server 60s
    timeout tunnel 1h
    timeout queue 10s
    timeout http-request 10s
    timeout http-keep-alive 60s
    retries 3
    option redispatch 1
` + serverKeepalive + `    http-reuse safe
    http-error status 400 content-type text/plain hdr cache-control no-store string "the request is malformed\n"
    http-error status 405 content-type text/plain hdr cache-control no-store string "the method is not allowed\n"
    http-error status 408 content-type text/plain hdr cache-control no-store string "the request did not arrive in time\n"
    http-error status 500 content-type text/plain hdr cache-control no-store string "the proxy failed\n"
    http-error status 502 content-type text/plain hdr cache-control no-store string "the backend closed the connection or sent an invalid response\n"
    http-error status 503 content-type text/plain hdr cache-control no-store string "no endpoint of the backend is available\n"
    http-error status 504 content-type text/plain hdr cache-control no-store string "the backend did not answer in time\n"
`

// routingHead starts the section that all frontends of HTTP listeners get their rules from: the rules of a defaults section
// are run in every frontend that names it, so haproxy.cfg does not repeat them for every port.
//
// One access log line is one JSON object, which HAProxy never cuts: routingChecks see to it that txn.host and txn.path can be written as they
// are, and HAProxy takes no method with a quote or a backslash. What was not found out, as for a request that does not parse, is "-",
// which is why rule and generation are strings, and its method "<BADREQ>".
//
// txn.hit is a part of the line as it is, as it takes time to take a text apart. What ends before there is a request is logged by
// error-log-format, which can say why.
//
// An old worker leaves idle connections open, and closes each after its next answer: a request that is on its way when the
// worker is told to stop must not meet a closed connection.
const routingHead = `
defaults routing from common
    log global
    option dontlognull
    option idle-close-on-response
    log-format '{` + logTime + `,"client":"%[var(sess.client)]",` + logRequest + `,"route":"%[var(txn.hit,'\''` + nothing + `'\'')]",` + logEnd + `}'
    error-log-format '{` + logTime + `,"client":"%ci",` + logRequest + `,"route":"` + nothing + `",` + logEnd + `,"error":"%[fc_err_str,regsub(^Success$,-)]","tlsError":"%[ssl_fc_err_str]"}'
`

const (
	logTime    = `"time":"%[date,utime(%Y-%m-%dT%H:%M:%S)].%[date_us,add(1000000),concat(),bytes(1,3)]Z"`
	logRequest = `"clientPort":%cp,"port":"%f","method":"%HM","host":"%[var(txn.host)]","path":"%[var(txn.path)]","status":%ST,"bytesIn":%U,"bytesOut":%B,"msRequest":%TR,"msQueue":%Tw,"msConnect":%Tc,"msResponse":%Tr,"msTotal":%Ta`
	logEnd     = `"server":"%s","retries":"%rc","generation":"%[var(txn.version),word(1,|)]","termination":"%ts"`
	// nothing is a HIT of a request that nothing was found out about.
	nothing = `-","rule":"-","listener":"-","backend":"-`
)

// patientTimeout keeps idle connections for longer than trusted proxies do, so that none sends a request on one that is just being closed, and
// answers 502: Google's load balancers keep theirs for 600 s, those of AWS for 60 s by default.
const patientTimeout = "    timeout http-keep-alive 620s\n"

// sessionRules keep what is the same for all requests of a connection: HAProxy would make a text of the client's address anew for each
// use of it. The converter of texts, which changes nothing here, makes it one. They are in the section of each port. sess.forwarded is what Forwarded begins with, which ends in the host (RFC 7239).
const sessionRules = `    tcp-request session set-var(sess.client) src,lower
    tcp-request session set-var-fmt(sess.forwarded) "for=%[var(sess.client)];proto=%[var(sess.scheme)];host=\"" unless { var(sess.client) -m sub : }
    tcp-request session set-var-fmt(sess.forwarded) "for=\"[%[var(sess.client)]]\";proto=%[var(sess.scheme)];host=\"" if { var(sess.client) -m sub : }
`

// clearSessionRules and tlsSessionRules do it for ports without TLS and with it. The latter keep what to look up to learn whose
// certificate HAProxy has shown: the name that was asked for, its wildcard, any name.
const (
	clearSessionRules = `    tcp-request session set-var(sess.scheme) str(http)
`
	tlsSessionRules = `    tcp-request session set-var(sess.scheme) str(https)
    tcp-request session set-var-fmt(sess.name) "n/%f/%[ssl_fc_sni,lower]"
    tcp-request session set-var-fmt(sess.wildcard) 'n/%f/%[ssl_fc_sni,lower,regsub("^[^.]*","*")]'
    tcp-request session set-var-fmt(sess.any) "l/%f/*"
`
)

// routingChecks normalise what the lookups use. They do what routing.NormalizeHost and routing.CanonicalPath do. They are rules about
// content since those can be left at any point: a request whose headers, host and path are of the usual kind skips what is about the
// unusual, and one that is malformed what follows. txn.odd marks what is unusual, whose path is in txn.clean if nothing is wrong with it; a
// request that cannot be marked has no host and no path, and is refused.
//
// Usual is a request with one Host, in lower case and without a port, without headers that oddRules may remove or change and without
// control characters, with a path of characters that a path may have as they are, without a double slash or a segment that begins with a
// dot, and not too long for the access log. What cannot be compared, for whatever reason, is unusual. The expressions are possessive: they
// need no stack.
//
// The host and the path of a usual request are text of JSON as they are. Those of an unusual one are cut and made such text before anything
// else happens to it; txn.given and txn.sent are what it has. A host that passed its check needs that no more.
//
// req.fhdr, because req.hdr would take a part of a Host header with a comma. The header is checked before host_only,
// which HAProxy lets remove anything after the last colon. Only a checked host takes part in keys: a slash in it could
// pass for a path. HAProxy accepts HTTP/1.1 without a Host, and does not make one from an absolute URI: neither is
// routed. A request without a path ("OPTIONS *", "GET http://example.com") is routed as "/"; HAProxy finds none in "GET example.com/a"
// either, of which backends may see one.
//
// An odd path grows to up to five times its length on the way.
//
// The version of HTTP and NUL in a header are checked whatever HAProxy's own parser refuses.
//
// HTTP/1.0 knows no chunks. HAProxy reads them, but sends them on as HTTP/1.0 again, and the backend takes them for the
// next request.
//
// The method is in no variable: kept there, HAProxy would forget the name of one that it has no number for, PATCH among them.
var routingChecks = `    tcp-request content set-var(txn.path) path
    tcp-request content set-var(txn.host) req.fhdr(host,1)
    tcp-request content accept if { req.ver 1.1 2.0 } { req.hdrs -m reg '` + usualHeaders + `' } { var(txn.path) -m reg '` + usualPath + `' }
    tcp-request content unset-var(txn.path)
    tcp-request content unset-var(txn.host)
    tcp-request content set-var(txn.odd) bool(true)
    tcp-request content accept unless { var(txn.odd) -m found }
    tcp-request content set-var(txn.given) req.fhdr(host),lower
    tcp-request content set-var(txn.sent) path
    tcp-request content set-var(txn.sent) str(/) if !{ var(txn.sent) -m found }
    tcp-request content set-var(txn.host) var(txn.given),bytes(0,253),json(utf8s)
    tcp-request content set-var(txn.path) var(txn.sent),bytes(0,1024),json(utf8s)
    tcp-request content accept unless { req.ver 1.1 2.0 1.0 3.0 }
    tcp-request content accept if { req.ver 1.0 } { req.fhdr_cnt(transfer-encoding) gt 0 }
    tcp-request content accept if { req.hdrs -m reg '\x00' }
    tcp-request content accept if { var(txn.given) -m found } !{ var(txn.given) -m reg ^(([a-z0-9_-]+\.)*[a-z0-9_-]+\.?|\[[0-9a-f:.]+\])?(:[0-9]*)?$ }
    tcp-request content accept if !{ req.fhdr_cnt(host) gt 0 } { req.ver 1.1 }
    tcp-request content accept if !{ req.fhdr_cnt(host) gt 0 } !{ url_beg / }
    tcp-request content accept if !{ path -m found } !{ url -m reg '^(\*|[^/?]+://[^/?]*(\?.*)?)$' }
    tcp-request content set-var(txn.given) var(txn.given),host_only,regsub(\.$,)
    tcp-request content accept if { var(txn.given) -m len gt 253 }
    tcp-request content set-var(txn.host) var(txn.given)
    tcp-request content set-var(txn.clean) var(txn.sent) if { var(txn.sent) -m reg '` + plainPath + `' }
    tcp-request content accept if { var(txn.clean) -m found }
    tcp-request content accept if { var(txn.sent) -m sub %00 }
    tcp-request content accept if { var(txn.sent) -m len gt 3200 }
    tcp-request content set-var(txn.decoded) 'var(txn.sent),url_dec,url_enc,` + decodeOnly(encodedPath) + `,regsub("//+","/",g)'
    tcp-request content accept if { var(txn.decoded) -m reg '/\.\.?(;[^/]*)?(/|$)|%5C' }
    tcp-request content set-var(txn.clean) var(txn.decoded)
`

const (
	usualHeaders = `^` + otherHeaders + `host: (?=[^\x0D]{1,253}\x0D)[a-z0-9-]++(?>\.[a-z0-9-]++)*+\x0D\x0A` + otherHeaders + `\x0D\x0A$`
	otherHeaders = `(?>(?!(?:host|upgrade|` + routing.RemovedHeaders + `|` + routing.ClaimedHeaders + `):|connection: (?!(?i:keep-alive|close)\x0D))` +
		`[a-z0-9-]++:[^\x00-\x1F]*+\x0D\x0A)*+`
	usualPath = `^(?=.{1,1024}+$)` + segments
	plainPath = `^` + segments
	segments  = `(?>/(?![/.])[!$&-.0-;=@-Z_a-z~]*+)++$`
)

// isOdd is the condition that a request is not of the usual kind.
const isOdd = "{ var(txn.odd) -m found }"

// routingRequest refuses what routingChecks did not come to the end of, before anything is made of it: HAProxy answers 500 where a header
// finds no room. It refuses CONNECT, also with an absolute URI: what follows the backend's answer would go past all rules. It refuses
// TRACE: the answer shows the client the headers that the proxy has set.
const routingRequest = `    http-request deny deny_status 405 if { method CONNECT TRACE }
    http-request deny deny_status 400 if ` + isOdd + ` !{ var(txn.clean) -m found }
`

// routingRest is for requests that are not done with after the first lookup. It refuses those that could not be marked.
const routingRest = `    http-request set-var(txn.clean) var(txn.path) unless ` + isOdd + `
    http-request deny deny_status 400 unless { var(txn.clean) -m found }
`

// oddRules remove headers, see routing.RemovedHeaders.
//
// An upgrade to HTTP/2 in clear text would take the rest of the connection past the rules. Over HTTP/2, what asks for
// an upgrade is a CONNECT that HAProxy makes GET of, with the length that the client says: backends would take for a
// body what nothing has waited for. Nobody here sets Client-Cert-Chain, but backends may take it for what belongs to
// Client-Cert (RFC 9440, section 2.4). What Connection names, a proxy behind this one would remove: headers that were
// set here among them.
const oddRules = `    http-request deny deny_status 400 if { var(txn.odd) -m found } { req.ver 2.0 } { req.fhdr_cnt(upgrade) gt 0 } { req.fhdr_cnt(content-length) gt 0 }
    http-request del-header upgrade if { var(txn.odd) -m found } { req.hdr(upgrade) -i -m sub h2c }
    http-request replace-value connection '^(?!(?i:upgrade|te|close|keep-alive)$).*' keep-alive if { var(txn.odd) -m found }
    http-request del-header [^A-Za-z0-9-] -m reg if { var(txn.odd) -m found }
    http-request del-header '^(?:` + routing.RemovedHeaders + `)$' -m reg if { var(txn.odd) -m found }
`

const claimedRule = `    http-request del-header '^(?:` + routing.ClaimedHeaders + `)$' -m reg if { var(txn.odd) -m found }`

// forwardedRules put what is so in the place of whatever the client says.
const forwardedRules = `    http-request set-header Forwarded "%[var(sess.forwarded)]%[var(txn.host)]\""
    http-request del-header X-Forwarded- -m beg
    http-request add-header X-Forwarded-For %[var(sess.client)]
    http-request add-header X-Forwarded-Proto %[var(sess.scheme)]
    http-request add-header X-Forwarded-Host %[var(txn.host)]
    http-request add-header X-Forwarded-Port %f
`

// oddForwardedRules do it for other headers that say where a request comes from, and for hosts that txn.host does not have as the client sent
// them.
const oddForwardedRules = claimedRule + `
    http-request set-header Forwarded "%[var(sess.forwarded)]%[req.fhdr(host)]\"" if { var(txn.odd) -m found }
    http-request set-header X-Forwarded-Host %[req.fhdr(host)] if { var(txn.odd) -m found }
`

// trustedRules do the same for clients that are no trusted proxies; what those say, for which sess.trusted is set, is added to. Where one
// says another scheme than that of its connection, and no port, the connection's would not go with it: backends would make URLs like
// https://example.com:80/ of them.
const trustedRules = `    http-request del-header Forwarded unless { var(sess.trusted) -m found }
    http-request del-header X-Forwarded- -m beg unless { var(sess.trusted) -m found }
    http-request add-header Forwarded "%[var(sess.forwarded)]%[req.fhdr(host)]\""
    http-request add-header X-Forwarded-For %[var(sess.client)]
    http-request set-header X-Forwarded-Port 443 if { req.fhdr(x-forwarded-proto,-1) -i https } !{ ssl_fc } !{ req.fhdr_cnt(x-forwarded-port) gt 0 }
    http-request set-header X-Forwarded-Port 80 if { req.fhdr(x-forwarded-proto,-1) -i http } { ssl_fc } !{ req.fhdr_cnt(x-forwarded-port) gt 0 }
    http-request set-header X-Forwarded-Proto %[var(sess.scheme)] unless { req.fhdr_cnt(x-forwarded-proto) gt 0 }
    http-request set-header X-Forwarded-Host %[req.fhdr(host)] unless { req.fhdr_cnt(x-forwarded-host) gt 0 }
    http-request set-header X-Forwarded-Port %f unless { req.fhdr_cnt(x-forwarded-port) gt 0 }
`

const oddTrustedRules = claimedRule + ` !{ var(sess.trusted) -m found }
`

// routingSimple ends the search of ordinary requests for whom the first lookup tells all. It wants the condition that the map has not
// changed.
const routingSimple = `    http-request allow if { var(txn.hit) -m found } !{ var(txn.hit) -m beg ` + moreToSay + ` ? } %s
`

// routingFound ends the search of requests that met an entry without conditions, or none, while the map did not change. It wants
// that as a condition. What follows costs them nothing.
const routingFound = `    http-request allow if !{ var(txn.hit) -m beg ? } %s
`

// routingFoundAtLast ends it after the last try.
const routingFoundAtLast = `    http-request allow unless { var(txn.hit) -m beg ? }
`

// routedHead starts the section that all backend sections for requests get their rules from. A request that a server closes the
// connection on instead of answering is sent to another one, unless it may not be sent twice: that server may have carried
// it out.
//
// For that HAProxy keeps a copy of each request: of the whole buffer of 16 KiB, or in a small one.
//
// Rules do not see the trailers of a request, and some backends add them to its headers. gRPC has trailers in answers only.
const routedHead = ` from common
    retry-on conn-failure empty-response
    option use-small-buffers l7-retries
    option http-drop-request-trailers
    http-request disable-l7-retry unless { method GET HEAD PUT DELETE OPTIONS }
`

// clientCertificateRules tell backends whose certificate a client has shown.
const clientCertificateRules = `    http-request set-header Client-Cert ":%[ssl_c_der,base64]:" if { ssl_fc } { ssl_c_used }
    http-request set-header X-SSL-Client-Subject "%{+Q}[ssl_c_s_dn]" if { ssl_fc } { ssl_c_used }
    http-request set-header X-SSL-Client-Fingerprint "%[ssl_c_der,sha2(256),hex,lower]" if { ssl_fc } { ssl_c_used }
`

// programHead ends the rules for requests whose rule has no program, also those for the answer.
var programHead = fields(`    http-request allow if !{ var(txn.program) -m found }
    http-response allow unless { var(txn.program) -m found }
    http-after-response allow unless { var(txn.program) -m found }
    http-request set-var(txn.flags) <flags>
`)

// programBody checks the size of bodies. With HTTP/2, that there is a body of unknown length only shows when it comes, and in HAProxy 3.4
// only in what has come: its req.body_size is 0 then.
var programBody = fields(`    http-request return status 411 content-type text/plain hdr cache-control no-store string "the request must say how long its body is\n" if <bounded> !{ req.fhdr_cnt(content-length) gt 0 } { req.fhdr_cnt(transfer-encoding) gt 0 }
    http-request wait-for-body time 10s at-least 1 if <bounded> !{ req.fhdr_cnt(content-length) gt 0 }
    http-request return status 411 content-type text/plain hdr cache-control no-store string "the request must say how long its body is\n" if <bounded> !{ req.fhdr_cnt(content-length) gt 0 } { req.body_len gt 0 }
    http-request set-var(txn.max) <maxbody>,add(0) if <bounded>
    http-request return status 413 content-type text/plain hdr cache-control no-store string "the body of the request is too long\n" if <bounded> { req.body_size,sub(txn.max) gt 0 }
`)

// programRedirect answers with a redirect (Gateway API, HTTPRequestRedirectFilter). The port of the listener is named if
// the rule gives no scheme, but none is named that is the scheme's own. X-Forwarded-Proto and -Port are the connection's, unless a trusted
// proxy says that the client asked in another way.
var programRedirect = fields(`    http-request set-var(txn.scheme) <scheme> if <redirect>
    http-request set-var(txn.scheme) req.fhdr(x-forwarded-proto,-1),lower if <redirect> { var(txn.scheme) -m len 0 } { req.fhdr(x-forwarded-proto,-1) -i http https }
    http-request set-var(txn.scheme) str(https) if <redirect> { var(txn.scheme) -m len 0 } { ssl_fc }
    http-request set-var(txn.scheme) str(http) if <redirect> { var(txn.scheme) -m len 0 }
    http-request set-var(txn.authority) <locationhost> if <redirect>
    http-request set-var(txn.authority) var(txn.host) if <redirect> { var(txn.authority) -m len 0 }
    http-request deny deny_status 400 if <redirect> { var(txn.authority) -m len 0 }
    http-request set-var(txn.number) <locationport> if <redirect>
    http-request set-var(txn.number) req.fhdr(x-forwarded-port,-1) if <redirect> { var(txn.number) -m str * } { req.fhdr(x-forwarded-port,-1) -m reg ^[1-9][0-9]{0,4}$ }
    http-request set-var(txn.number) var(txn.port) if <redirect> { var(txn.number) -m str * }
    http-request unset-var(txn.number) if <redirect> { var(txn.number) -m len 0 }
    http-request unset-var(txn.number) if <redirect> { var(txn.scheme) -m str http } { var(txn.number) -m str 80 }
    http-request unset-var(txn.number) if <redirect> { var(txn.scheme) -m str https } { var(txn.number) -m str 443 }
    http-request set-var-fmt(txn.authority) "%[var(txn.authority)]:%[var(txn.number)]" if <redirect> { var(txn.number) -m found }
    http-request set-var(txn.newpath) str(/) if <redirect> { var(txn.kind) -m len 0 }
    http-request set-var(txn.newpath) path if <redirect> { var(txn.kind) -m len 0 }
    http-request set-var-fmt(txn.location) "%[var(txn.scheme)]://%[var(txn.authority)]%[var(txn.newpath)]" if <redirect>
    http-request set-var-fmt(txn.location) "%[var(txn.location)]?%[query]" if <redirect> { query -m found }
    http-request redirect location "%[var(txn.location)]" code 301 if <redirect> { <status> -m str 301 }
    http-request redirect location "%[var(txn.location)]" code 302 if <redirect> { <status> -m str 302 }
    http-request redirect location "%[var(txn.location)]" code 303 if <redirect> { <status> -m str 303 }
    http-request redirect location "%[var(txn.location)]" code 307 if <redirect> { <status> -m str 307 }
    http-request redirect location "%[var(txn.location)]" code 308 if <redirect> { <status> -m str 308 }
`)

// programRequest changes what a backend gets. While a client has not ended its request, as in gRPC both ways, HAProxy waits for it
// as long as for any client, and not as long as for the backend. Before the answer has begun that is as
// it should be, or else nothing would bound how long a client may take to send a request.
var programRequest = fields(`    http-request disable-l7-retry if <once>
    http-request set-timeout server <timeout>,add(0) if <timed>
    http-response set-timeout client <timeout>,add(0) if <timed> { <timeout>,add(0) -m int gt 60000 }
    http-request set-header Host "%[<host>]" if <rehosted>
    http-request set-path "%[var(txn.newpath)]" if <rerouted>
`)

// corsRules answer preflight requests and mark other answers. What a backend says on the matter does not count. Browsers take
// "*" literally in answers to requests with credentials, so those get what they asked for.
var corsRules = fields(`    http-request set-var(txn.preflight) bool(true) if <cors> { method OPTIONS } { req.fhdr_cnt(origin) gt 0 } { req.fhdr_cnt(access-control-request-method) gt 0 }
    http-request set-var(txn.methods) <methods> if <preflight>
    http-request set-var(txn.methods) req.fhdr(access-control-request-method) if <preflight> { var(txn.methods) -m str * } <credentials>
    http-request set-var(txn.headers) <allowheaders> if <preflight>
    http-request set-var(txn.headers) req.fhdr(access-control-request-headers) if <preflight> { var(txn.headers) -m str * } <credentials>
    http-request return status 204 if <preflight>
    http-response del-header access-control- -m beg if <cors>
    http-after-response set-header access-control-allow-origin "%[var(txn.allowed)]" if <allowed>
    http-after-response set-header access-control-allow-credentials true if <allowed> <credentials>
    http-after-response set-header access-control-allow-methods "%[var(txn.methods)]" if <allowed> <preflight> !{ var(txn.methods) -m len 0 }
    http-after-response set-header access-control-allow-headers "%[var(txn.headers)]" if <allowed> <preflight> { var(txn.headers) -m found } !{ var(txn.headers) -m len 0 }
    http-after-response set-header access-control-max-age "%[<maxage>]" if <allowed> <preflight>
    http-after-response set-header access-control-expose-headers "%[<exposeheaders>]" if <allowed> !<preflight> !{ <exposeheaders> -m len 0 }
    http-after-response add-header vary Origin if <cors> !{ <origins> -m str * }
`)

// fields puts expressions in place of the names of fields, and conditions in place of those of flags.
func fields(rules string) string {
	return strings.NewReplacer(
		"<flags>", field(fieldFlags), "<timeout>", field(fieldTimeout), "<maxbody>", field(fieldMaxBody), "<host>", text(fieldHost),
		"<status>", field(fieldStatus), "<scheme>", field(fieldScheme), "<locationhost>", text(fieldLocationHost),
		"<locationport>", field(fieldLocationPort), "<methods>", text(fieldMethods), "<allowheaders>", text(fieldAllowHeaders),
		"<exposeheaders>", text(fieldExposeHeaders), "<maxage>", field(fieldMaxAge), "<origins>", text(fieldOrigins),
		"<credentials>", "{ "+field(fieldCredentials)+" -m str true }", "<preflight>", "{ var(txn.preflight) -m found }",
		"<allowed>", "{ var(txn.allowed) -m found }", "<cors>", flagged(flagCORS), "<redirect>", flagged(flagRedirect),
		"<bounded>", flagged(flagMaxBody), "<timed>", flagged(flagTimeout), "<once>", flagged(flagOnce), "<rehosted>", flagged(flagHost), "<rerouted>", flagged(flagPath),
	).Replace(rules)
}

// connectionsSection holds the defaults of everything about connections of TCP and TLS listeners.
const connectionsSection = `
defaults connections
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout client-fin 10s
    timeout server 1h
    timeout queue 10s
    retries 3
    option redispatch 1
` + serverKeepalive

// connectionHead starts the rules of a port with connections.
const connectionHead = `    log global
    option dontlognull
    log-format '{` + logTime + `,"client":"%ci","clientPort":%cp,"port":"%f","host":"%[var(txn.host),bytes(0,253),json(utf8s)]","bytesIn":%U,"bytesOut":%B,"msQueue":%Tw,"msConnect":%Tc,"msTotal":%Tt,"listener":"%[var(txn.listener)]","route":"%[var(txn.hit),field(1,'\''"'\'')]","backend":"%b",` + logEnd + `}'
    tcp-request content set-var(txn.clean) str(/)
`

// helloRule cannot stay in the running skeleton once nothing wants it: it refuses connections.
const helloRule = `    tcp-request content reject unless { req.ssl_hello_type 1 }`

// trustRule believes what trusted proxies say about where a request comes from.
const trustRule = `    tcp-request session set-var(sess.trusted) bool(true) if trusted
`

// helloRules wait for a TLS ClientHello and take the server name from it.
const helloRules = `    tcp-request inspect-delay 5s
` + helloRule + `
    tcp-request content set-var(txn.host) req.ssl_sni,lower
    tcp-request content reject if { var(txn.host) -m found } !{ var(txn.host) -m reg ^[a-z0-9._-]+$ }
`

// connectionAnswer ends connections that no backend is for.
const connectionAnswer = `    tcp-request content reject unless { var(txn.target) -m found }
    tcp-request content reject if { var(txn.target) -m str no-backend }
    use_backend %[var(txn.target)]
`

// frontendEnd ends the section of a port with requests.
// It wants the path of the map of spares. A backend whose name is computed and that does not exist ends the search, so spares are
// asked for first.
var frontendEnd = `    use_backend %%[var(txn.hit),field(-1,` + mark + `),map_str(%[1]s)] if { var(txn.hit),field(-1,` + mark + `),map_str(%[1]s) -m found }
    use_backend %%[var(txn.hit),field(-1,` + mark + `)]
    default_backend no-route
`

// answerSections answer requests that get no backend. Their names are no Service's, which have a "_", and no port's.
var answerSections = []struct{ name, answer string }{
	{"no-route", `    http-request return status 404 content-type text/plain hdr cache-control no-store string "no route matches the request\n"
`},
	{targetNone, `    http-request return status 500 content-type text/plain hdr cache-control no-store string "the backend of the route does not exist\n"
`},
	{targetTooLong, `    http-request return status 400 content-type text/plain hdr cache-control no-store string "the request has a value that is too long to be compared\n"
`},
}

// metricsSection wants the lines that bind it.
const metricsSection = `
frontend metrics from common
%s    monitor-uri /healthz
    http-request use-service prometheus-exporter if { path /metrics }
    http-request return status 404 content-type text/plain string "here are /metrics and /healthz\n"
`
