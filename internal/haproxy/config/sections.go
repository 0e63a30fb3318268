package config

// The parts of haproxy.cfg that are the same for every Gateway, with what HAProxy 2.6 was seen to do.

// globalSection wants the Gateway's namespace and name and the worker's socket.
//
// There is no mworker-max-reloads: HAProxy 2.6 counts failed reloads against the worker that keeps running, and ends it,
// requests and all, with the next reload that succeeds. hard-stop-after bounds old workers.
//
// fd-hard-limit: without it, HAProxy reserves memory for as many connections as the container runtime allows files, which
// may be a billion.
const globalSection = `global
    description "gateway %s/%s load="
    log stdout len 16384 format raw local0 info
    stats socket %s mode 600 level admin expose-fd listeners
    hard-stop-after 30s
    fd-hard-limit 100000
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
    http-reuse safe
    http-error status 400 content-type text/plain hdr cache-control no-store string "the request is malformed\n"
    http-error status 405 content-type text/plain hdr cache-control no-store string "the method is not allowed\n"
    http-error status 408 content-type text/plain hdr cache-control no-store string "the request did not arrive in time\n"
    http-error status 500 content-type text/plain hdr cache-control no-store string "the proxy failed\n"
    http-error status 502 content-type text/plain hdr cache-control no-store string "the backend closed the connection or sent an invalid response\n"
    http-error status 503 content-type text/plain hdr cache-control no-store string "no endpoint of the backend is available\n"
    http-error status 504 content-type text/plain hdr cache-control no-store string "the backend did not answer in time\n"
`

// routingHead starts the section that all frontends of listeners get their rules from: the rules of a defaults section
// are run in every frontend that names it, so haproxy.cfg does not repeat them for every port.
//
// One access log line is one JSON object. Strings of the client pass the json converter, after they were cut, so that the
// line is never cut by HAProxy and always parses. What was not found out, as for a request that does not parse, is "-",
// which is why rule and generation are strings.
const routingHead = `
defaults routing from common
    log global
    option dontlognull
    option disable-h2-upgrade
    log-format '{"time":"%[date(0,ms),div(1000),utime(%Y-%m-%dT%H:%M:%S)].%[date(0,ms),mod(1000),add(1000),concat(),bytes(1,3)]Z","client":"%ci","clientPort":%cp,"port":"%f","method":"%[var(txn.method),bytes(0,32),json(utf8s)]","host":"%[var(txn.host),bytes(0,253),json(utf8s)]","path":"%[var(txn.path),bytes(0,1024),json(utf8s)]","status":%ST,"bytesIn":%U,"bytesOut":%B,"msRequest":%TR,"msQueue":%Tw,"msConnect":%Tc,"msResponse":%Tr,"msTotal":%Ta,"listener":"%[var(txn.listener)]","route":"%[var(txn.hit),word(1,|)]","rule":"%[var(txn.hit),word(2,|)]","backend":"%b","server":"%s","retries":"%rc","generation":"%[var(txn.version),word(1,|)]","termination":"%ts"}'
`

// routingRequest normalises what the lookups use. It does what routing.NormalizeHost does.
//
// req.fhdr, because req.hdr would take a part of a Host header with a comma. The header is checked before host_only,
// which HAProxy 2.6 lets remove anything after the last colon. Only a checked host takes part in keys: a slash in it could
// pass for a path. HAProxy 2.6 accepts HTTP/1.1 without a Host, and does not make one from an absolute URI: neither is
// routed. A request without a path ("OPTIONS *", "GET http://example.com") is routed as "/".
//
// What clients say about where they come from is not believed.
const routingRequest = `    http-request set-var(txn.port) fe_name
    http-request set-var(txn.method) method
    http-request set-var(txn.path) path
    http-request set-var(txn.path) str(/) if !{ var(txn.path) -m found }
    http-request set-var(txn.host) req.fhdr(host),lower
    http-request deny deny_status 405 if { method CONNECT }
    http-request deny deny_status 400 if { var(txn.host) -m found } !{ var(txn.host) -m reg ^(([a-z0-9_-]+\.)*[a-z0-9_-]+\.?|\[[0-9a-f:.]+\])?(:[0-9]*)?$ }
    http-request deny deny_status 400 if !{ req.fhdr_cnt(host) gt 0 } { req.ver 1.1 }
    http-request deny deny_status 400 if !{ req.fhdr_cnt(host) gt 0 } !{ url_beg / }
    http-request set-var(txn.host) var(txn.host),host_only,regsub(\.$,)
    http-request deny deny_status 400 if { var(txn.host) -m len gt 253 }
    http-request set-header X-Forwarded-For %[src]
    http-request set-header X-Forwarded-Proto http
    http-request set-header X-Forwarded-Host %[req.fhdr(host)]
    http-request set-header X-Forwarded-Port %[fe_name]
    http-request del-header Forwarded
    http-request set-var(txn.random) rand(16777216),hex,bytes(10,6)
`

// routingAnswer answers what has no backend. hex wrote the random number with 16 digits; it has splitDigits.
const routingAnswer = `    http-request return status 404 content-type text/plain hdr cache-control no-store string "no route matches the host and path\n" if !{ var(txn.hit) -m found }
    http-request return status 500 content-type text/plain hdr cache-control no-store string "the backend of the route does not exist\n" if { var(txn.target) -m str 500 }
`

// metricsSection wants the lines that bind it.
const metricsSection = `
frontend metrics from common
%s    monitor-uri /healthz
    http-request use-service prometheus-exporter if { path /metrics }
    http-request return status 404 content-type text/plain string "here are /metrics and /healthz\n"
`
