package render

import "gateway/internal/routing"

// oddLines remove headers, see routing.RemovedHeaders.
//
// An upgrade to HTTP/2 in clear text would take the rest of the connection past the rules. Over HTTP/2, an upgrade is
// a CONNECT, which HAProxy turns into GET with the client's content-length: backends would read data as a body that no
// filter has waited for. The proxy does not set Client-Cert-Chain, but backends may take it as a part of Client-Cert
// (RFC 9440, section 2.4). A proxy behind this one would remove the headers that Connection names, even headers that
// were set here.
var oddLines = []string{
	`http-request deny deny_status 400 if ` + isOdd + ` { req.ver 2.0 3.0 } { req.fhdr_cnt(upgrade) gt 0 } { req.fhdr_cnt(content-length) gt 0 }`,
	`http-request del-header upgrade if ` + isOdd + ` { req.hdr(upgrade) -i -m sub h2c }`,
	`http-request replace-value connection '^(?!(?i:upgrade|te|close|keep-alive)$).*' keep-alive if ` + isOdd,
	`http-request del-header [^A-Za-z0-9-] -m reg if ` + isOdd,
	`http-request del-header '^(?:` + routing.RemovedHeaders + `)$' -m reg if ` + isOdd,
}

// forwardedLines replace the client's forwarding headers with the true values.
var forwardedLines = []string{
	`http-request set-header Forwarded "%[var(sess.forwarded)]%[var(txn.host)]\""`,
	`http-request del-header X-Forwarded- -m beg`,
	`http-request add-header X-Forwarded-For %[var(sess.client)]`,
	`http-request add-header X-Forwarded-Proto %[var(sess.scheme)]`,
	`http-request add-header X-Forwarded-Host %[var(txn.host)]`,
	`http-request add-header X-Forwarded-Port %f`,
}

// oddForwardedLines do the same for other headers about the origin of a request, and for hosts that txn.host does not
// have as the client sent them.
var oddForwardedLines = []string{
	`http-request del-header '^(?:` + routing.ClaimedHeaders + `)$' -m reg if ` + isOdd,
	`http-request set-header Forwarded "%[var(sess.forwarded)]%[req.fhdr(host)]\"" if ` + isOdd,
	`http-request set-header X-Forwarded-Host %[req.fhdr(host)] if ` + isOdd,
	`http-request del-header X-Forwarded-Host if ` + hasNoHost,
	`http-request replace-header Forwarded '^(.*);host=""$' \1 if ` + hasNoHost,
}

// hasNoHost is the condition that a request of HTTP/1.0 has no host, or an empty one.
const hasNoHost = isOdd + ` !{ req.fhdr(host) -m len gt 0 }`

// trustedLines do the same where some clients are trusted proxies, for which sess.trusted is set: their headers stay,
// and the connection is added. If a trusted proxy names another scheme than its connection's, and no port, the
// connection's port would not fit: backends would make URLs like https://example.com:80/.
var trustedLines = []string{
	`http-request del-header Forwarded unless { var(sess.trusted) -m found }`,
	`http-request del-header X-Forwarded- -m beg unless { var(sess.trusted) -m found }`,
	`http-request add-header Forwarded "%[var(sess.forwarded)]%[req.fhdr(host)]\""`,
	`http-request add-header X-Forwarded-For %[var(sess.client)]`,
	`http-request set-header X-Forwarded-Port 443 if { req.fhdr(x-forwarded-proto,-1) -i https } !{ ssl_fc } !{ req.fhdr_cnt(x-forwarded-port) gt 0 }`,
	`http-request set-header X-Forwarded-Port 80 if { req.fhdr(x-forwarded-proto,-1) -i http } { ssl_fc } !{ req.fhdr_cnt(x-forwarded-port) gt 0 }`,
	`http-request set-header X-Forwarded-Proto %[var(sess.scheme)] unless { req.fhdr_cnt(x-forwarded-proto) gt 0 }`,
	`http-request set-header X-Forwarded-Host %[req.fhdr(host)] if !{ req.fhdr_cnt(x-forwarded-host) gt 0 } { req.fhdr(host) -m len gt 0 }`,
	`http-request set-header X-Forwarded-Port %f unless { req.fhdr_cnt(x-forwarded-port) gt 0 }`,
}

// oddTrustedLines remove other headers about the origin of a request, unless a trusted proxy sends them.
var oddTrustedLines = []string{
	`http-request del-header '^(?:` + routing.ClaimedHeaders + `)$' -m reg if ` + isOdd + ` !{ var(sess.trusted) -m found }`,
	`http-request replace-header Forwarded '^(.*);host=""$' \1 if ` + hasNoHost,
}
