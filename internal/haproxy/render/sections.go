package render

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
	"gateway/internal/tree"
)

// makeSections makes the sections, and the files and entries that come with them.
func (r *Renderer) makeSections() {
	before := r.sections.Contents
	r.sections = ir.Config{
		Files: map[string][]byte{}, Authorities: map[string][]byte{}, Certificates: map[string]ir.CertificateList{},
		Maps: map[string]tree.Map[string]{
			ir.KeySetsFile: {}, ir.PodsFile: tree.Of(map[string]string{ir.PodsKey: ir.PodID("")}),
		},
	}
	r.addCertificates()
	r.addAuthorities()
	r.addSections()
	for key, content := range r.sections.Contents.All() {
		r.contents.Count(key, content, 1)
	}
	for key := range before.Keys() {
		r.contents.Count(key, nil, -1)
	}
}

// addSections adds all sections but the backends of Service ports.
func (r *Renderer) addSections() {
	in := r.in
	isRouting := slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool { return !isConnection(&l) })
	isTCP := slices.ContainsFunc(in.Table.Listeners, func(l routing.Listener) bool { return isConnection(&l) })
	r.section(ir.ReloadSettings, "global", globalLines(in)...)
	r.section(ir.ReloadSettings, "defaults common", slices.Concat(commonLines, r.errorLines())...)
	if isRouting {
		r.addRequestMetrics()
		r.addTraces()
		r.addWatched()
		filters.Add(r.env(), &r.sections)
		r.addSection(ir.Section{Header: "defaults routing from common", Reason: ir.ReloadSettings, Lines: r.routingLines()})
		r.section(ir.ReloadSettings, "defaults backends from common", backendLines(in.Table.Compression)...)
		r.addSection(r.defaultsSection(plainDefaults(false), settings{}, false))
	}
	if isTCP {
		r.section(ir.ReloadSettings, "defaults tcp", tcpLines...)
	}
	for section := range r.causes.defaults.Values() {
		r.addSection(*section)
	}
	for _, port := range r.ports() {
		r.addFrontend(port)
	}
	if isRouting {
		for _, answer := range answers {
			r.section(ir.ReloadSettings, "backend "+answer.name+" from common", returnText(in, answer.status, answer.text))
		}
	}
	metricsPort := in.Bind.MetricsPort
	if metricsPort == 0 {
		metricsPort = MetricsPort
	}
	r.section(ir.ReloadPorts, "frontend metrics from common", append(bindLines(in.Bind, metricsPort, ""), metricsLines...)...)
	for _, name := range []string{"connections-of", "requests-of"} {
		r.section(ir.ReloadSettings, "backend "+name+" from common", "stick-table type ipv6 "+filters.CurrentTable)
	}
	if in.Paths.KeysSocket != "" {
		r.section(ir.ReloadSettings, "backend "+ir.CheckBackend+" from common")
	}
}

func (r *Renderer) addSection(section ir.Section) {
	r.sections.Sections = append(r.sections.Sections, section)
}

// section adds a section whose lines must be exactly these while it is desired, and which is removed afterwards.
func (r *Renderer) section(reason, header string, lines ...string) {
	r.addSection(ir.Section{Header: header, Reason: reason, Lines: ir.Lines("", lines...)})
}

// globalLines: the worker's socket, how long connections may keep an old worker from ending, and how many files may be
// open.
//
// mworker-max-reloads has to be out of reach: HAProxy counts refused reloads against the worker that keeps running,
// too, and ends it, requests and all, with the next one that succeeds. The default is 50. hard-stop-after bounds old
// workers.
//
// HAProxy's own HTTP client, which nothing here uses, would load the CA certificates of the system at every start,
// which takes as long as everything else together. ssl-load-extra-files: there is nothing beside a certificate that
// HAProxy is to load.
//
// thread-hard-limit: HAProxy starts a thread for each CPU of the node, and knows nothing of the CPU limit of its
// container. With more threads than that, all of them stand still together once the limit is used up. The variable is
// from the pod; 1024 is all that HAProxy can have.
//
// tune.pattern.cache-size: HAProxy would keep the results of the last 10,000 comparisons with expressions and parts of
// texts. To find one there takes longer than most comparisons do, and with many hosts and paths it is seldom there.
//
// tune.memory.hot-size: what a thread keeps of freed memory. Requests that are kept for a retry need buffers, for which
// 512 KiB are too little with some dozens of busy connections: HAProxy would give them back to the C library and ask
// for them again, request by request.
//
// tune.bufsize, tune.http.maxhdr: HAProxy resets a request over HTTP/2 that has more headers than that, and a whole
// connection where they are larger than its buffer. So both are well above what rules admit. Of a buffer, only what is
// filled takes memory: a slow download takes 33 KiB with buffers of 16 KiB, 50 KiB with these, and 146 KiB with 64 KiB.
// tune.h2.max-frame-size would follow the buffer.
//
// tune.bufsize.small: what a request usually takes, with its headers and what HAProxy notes about them.
//
// fd-hard-limit: without it, HAProxy reserves memory for as many connections as the container runtime allows files,
// which may be a billion. What it is: admission.go.
//
// tune.h2.fe.glitches-threshold: a client that breaks the rules of HTTP/2 so often, or works the proxy for nothing,
// loses its connection. HAProxy's manual asks for hundreds or thousands, because usual clients do it at times.
//
// tune.ssl.cachesize: a session that was made with a client certificate for one listener could be resumed at another,
// which trusts other CAs. Tickets are switched off for the ports concerned.
//
// tune.max-rules-at-once: a request is looked up in one go.
//
// localpeer, tune.stick-counters: rate limits have four counters beside the ones of admission.go, and decisions one.
// Traces have one more: see trace.go.
//
// There is no log for all: HAProxy's HTTP client would write a line to it for each question about a request.
func globalLines(in Input) []string {
	lines := []string{
		"stats socket " + in.Paths.WorkerSocket() + " mode 600 level admin expose-fd listeners",
		"hard-stop-after " + milliseconds(in.Table.DrainTimeout) + "ms",
		"mworker-max-reloads 2147483647",
		"fd-hard-limit " + itoa(maxConnections(in)*filesPerConnection+ownFiles),
		`thread-hard-limit "${` + ir.CPULimit + `-1024}"`,
		"tune.pattern.cache-size 0",
		"tune.memory.hot-size 2097152",
		"tune.bufsize " + itoa(max(32<<10, 2*in.Table.MaxHeaderBytes)),
		"tune.bufsize.small 4096",
		"tune.http.maxhdr " + itoa(max(1000, 2*in.Table.MaxHeaders)),
		"tune.h2.max-frame-size 16384",
		"tune.h2.fe.max-concurrent-streams 100 rq-load auto min 15",
		"tune.h2.fe.glitches-threshold 1000",
		"localpeer " + ir.OwnPeer,
		"tune.stick-counters " + itoa(stickCounters(in.Table)),
		"tune.max-rules-at-once 1000",
		"httpclient.ssl.verify none",
		"ssl-load-extra-files none",
		"ssl-default-bind-options ssl-min-ver TLSv1.2",
	}
	if in.Paths.KeysSocket != "" {
		lines = append(lines, "stats socket "+in.Paths.KeysSocket+" mode 600 level admin")
	}
	if verifiesClients(in, 0) {
		lines = append(lines, "tune.ssl.cachesize 0")
	}
	return lines
}

// keepaliveLines detect within some 20 s that the node behind an idle connection is gone, so that no request is sent
// there.
var keepaliveLines = []string{"option srvtcpka", "srvtcpka-idle 10s", "srvtcpka-intvl 3s", "srvtcpka-cnt 3"}

// handshakeTimeout is ir.HandshakeTimeout.
var handshakeTimeout = milliseconds(ir.HandshakeTimeout) + "ms"

// commonLines are in all sections. HAProxy retries a connection that fails three times by default, here on another
// server. It sends the first request of a client on a connection to a server that is known to work, or on a new one.
var commonLines = append([]string{
	"mode http",
	"timeout connect 2s",
	"timeout client 60s",
	"timeout client-hs " + handshakeTimeout,
	"timeout client-fin 10s",
	"timeout server 60s",
	"timeout tunnel 1h",
	"timeout queue 10s",
	"timeout http-request 10s",
	"timeout http-keep-alive 60s",
	"option redispatch 1",
}, keepaliveLines...)

// errorTexts are the texts of HAProxy's own errors.
var errorTexts = map[int32]string{
	400: "the request is malformed",
	405: "the method is not allowed",
	408: "the request did not arrive in time",
	431: "the URL and the headers are too large, or the headers too many",
	500: "the proxy failed",
	502: "the backend closed the connection or sent an invalid response",
	503: "no endpoint of the backend is available",
	504: "the backend did not answer in time",
}

// errorLines are HAProxy's own errors, and all pages, so that a change of any takes a reload.
func (r *Renderer) errorLines() []string {
	pages := r.in.Table.ErrorPages
	for _, page := range pages {
		r.sections.Files[filters.PageFile(page)] = []byte(page.Body)
	}
	statuses := slices.AppendSeq(slices.Collect(maps.Keys(errorTexts)), maps.Keys(pages))
	slices.Sort(statuses)
	var lines []string
	for _, status := range slices.Compact(statuses) {
		lines = append(lines, "http-error "+env(r.in).Answer(status, errorTexts[status]))
	}
	return lines
}

// accessLog is where lines about requests and connections go.
const accessLog = "log stdout len 16384 format raw local0 info"

// tcpLines are in all sections about connections of TCP and TLS listeners.
var tcpLines = slices.Concat([]string{
	"mode tcp",
	"timeout connect 2s",
	"timeout client 1h",
	"timeout client-hs " + handshakeTimeout,
	"timeout client-fin 10s",
	"timeout server 1h",
	"timeout queue 10s",
	"option redispatch 1",
	balance,
}, keepaliveLines)

func env(in Input) filters.Env {
	return filters.Env{Table: in.Table, Paths: in.Paths, KeySets: in.KeySets}
}

// env has the rules, too.
func (r *Renderer) env() filters.Env {
	all := env(r.in)
	all.Rules = slices.Collect(r.causes.needs.Values())
	return all
}

func returnText(in Input, status int32, text string) string {
	return "http-request return " + env(in).Answer(status, text)
}

// answers are backends that answer requests which get no other.
var answers = []struct {
	name   string
	status int32
	text   string
}{
	{noRoute, 404, "no route matches the request"},
	{noBackend, 500, "the route has no backend that can be used"},
	{tooLong, 400, "the request has a value that is too long to be compared"},
	{answered, 500, errorTexts[500]},
}

var metricsLines = []string{
	"monitor-uri /healthz",
	"http-request use-service prometheus-exporter if { path /metrics }",
	`http-request return status 404 content-type text/plain string "here are /metrics and /healthz\n"`,
}

// addFrontend adds the section of a port, and another one where TLS is passed through beside: see mixed.go. A port with
// TLS and without a certificate has none.
func (r *Renderer) addFrontend(port int32) {
	in := r.in
	listener, passing := modes(in.Table, port)
	mixed := listener != nil && passing != nil
	if mixed {
		r.addEntrance(passing)
	} else {
		listener = cmp.Or(listener, passing)
	}
	options, defaults := "", "routing"
	if isConnection(listener) {
		defaults = "tcp"
	}
	if listener.TLS != nil {
		if !r.hasCertificates(port) {
			return
		}
		options = r.tlsOptions(listener, "h2,http/1.1")
	}
	var lines []string
	if mixed {
		lines = append([]string{"bind " + in.Paths.TLSSocket(port) + " mode 600 accept-proxy" + options}, trustLines(in)...)
	} else {
		lines = bindLines(in.Bind, port, options)
		if r.speaksHTTP3(port) {
			lines = append(lines, quicLines(in.Bind, port, r.tlsOptions(listener, "h3"))...)
		}
		lines = append(lines, admissionLines(in, listener)...)
	}
	if isConnection(listener) {
		lines = append(lines, r.connectionLines(listener)...)
	} else {
		lines = append(lines, sessionLines(in, listener.TLS != nil)...)
		lines = append(lines, r.frontend...)
		lines = append(lines, "use_backend %[var(txn.hit),field(-1,|)] if { var(txn.hit) -m found }", "default_backend "+noRoute)
	}
	r.section(ir.ReloadPorts, "frontend "+itoa(port)+" from "+defaults, lines...)
}

// tlsOptions are the options of a port that terminates TLS. alpn are the versions of HTTP.
func (r *Renderer) tlsOptions(listener *routing.Listener, alpn string) string {
	in := r.in
	options := fmt.Sprintf(" ssl crt-list %s/%s", in.Paths.ConfigDir, certificateList(listener.Port))
	if !isConnection(listener) {
		options += " alpn " + alpn
	}
	options += " ciphers " + intermediateCiphers
	if r.ofPorts[listener.Port].first == nil {
		options += " strict-sni"
	}
	if verifiesClients(in, listener.Port) {
		options += " no-tls-tickets"
	}
	if acceptsUnverified(in, listener.Port) {
		options += " ca-ignore-err all crt-ignore-err all"
	}
	return options
}

func bindLines(bind Bind, port int32, options string) []string {
	if len(bind.Addresses) == 0 {
		return []string{fmt.Sprintf("bind :%d,:::%[1]d v6only%s", port, options)}
	}
	var lines []string
	for _, address := range bind.Addresses {
		lines = append(lines, "bind "+ir.ServerAddress(ir.Server{Address: address, Port: port})+options)
	}
	return lines
}

// connectionLines are the rules by which connections of a port find their backend.
func (r *Renderer) connectionLines(listener *routing.Listener) []string {
	const onlyNames = `tcp-request content reject if { var(txn.host) -m found } !{ var(txn.host) -m reg ^[a-z0-9._-]+$ }`
	mixed := passesThrough(listener) && r.isMixed(listener.Port)
	log := connectionLog
	if mixed {
		log = strings.Replace(log, "%f", itoa(listener.Port), 1)
	}
	lines := []string{accessLog, "option dontlognull", "log-format '" + log + "'"}
	switch {
	case listener.TLS != nil:
		lines = append(lines, connectedLines(r.in)...)
		lines = append(lines, "tcp-request content set-var(txn.host) ssl_fc_sni,lower", onlyNames)
	case listener.Protocol == "TLS":
		// They wait for a TLS ClientHello and take the server name from it.
		lines = append(lines,
			"tcp-request inspect-delay 5s",
			"tcp-request content reject unless { req.ssl_hello_type 1 }",
			"tcp-request content set-var(txn.host) req.ssl_sni,lower", onlyNames,
		)
	}
	lines = append(lines, r.hostLines("tcp-request content")...)
	if mixed {
		lines = append(lines, r.handoverLines(listener.Port)...)
	}
	if listener.TLS != nil {
		lines = append(lines, foreignLines(r.in, listener.Port)...)
	}
	for i := range r.chainLength() {
		lines = append(lines, fmt.Sprintf("tcp-request content set-var(txn.hit) var(txn.hosts),field(%d,|),concat(/),map_str(%s) unless { var(txn.hit) -m found }",
			i+2, r.in.Paths.Map(ir.PathsFile)))
	}
	lines = append(lines, r.splitLines("tcp-request content")...)
	lines = append(lines,
		"tcp-request content reject unless { var(txn.hit) -m found }",
		"tcp-request content reject if { var(txn.hit),field(4,|) -m str "+noBackend+" }",
	)
	if mixed {
		lines = append(lines, "use_backend "+handover(listener.Port)+isOpened)
	}
	return append(lines, "use_backend %[var(txn.hit),field(4,|)]")
}

// foreignLines reject connections that were made for another listener: with another certificate or other demands on
// the client than the listener for the name has.
func foreignLines(in Input, port int32) []string {
	lines := []string{
		"tcp-request content set-var(txn.listener) var(txn.hosts),field(2,|/)",
		"tcp-request content reject unless { var(sess.listener),strcmp(txn.listener) eq 0 }",
	}
	if verifiesClients(in, port) {
		lines = append(lines, "tcp-request content reject if { var(txn.listener) -m beg "+needsClient+" } !{ ssl_c_used }")
	}
	return lines
}

// chainLength returns how many contents of hosts a request may be looked up in. Usually these are its host's, a
// wildcard's, and the one for all hosts.
func (r *Renderer) chainLength() int { return max(3, r.causes.chain) }

// filterLines are the rules about filters, for those requests whose rule has any.
func (r *Renderer) filterLines() []ir.Line {
	rules := filters.All(r.env())
	r.frontend = rules.Frontend
	first := ir.Lines("",
		"http-request set-var(txn.filters) var(txn.hit),field(1,|),map_str("+r.in.Paths.Map(ir.FiltersFile)+")",
		"http-request deny deny_status 500 if { var(txn.hit) -m found } !{ var(txn.hit) -m beg | } !{ var(txn.filters) -m found }",
	)
	next := ir.Lines("",
		"http-request allow unless { var(txn.filters) -m found }",
		"http-response allow unless { var(txn.filters) -m found }",
	)
	after := []string{"http-after-response set-header Connection close if { var(" + ir.StopVariable + ") -m bool } !{ status 101 }"}
	if hasTLS(r.in.Table) {
		value := "var(txn.listener),map_str(" + r.in.Paths.Map(ir.HSTSFile) + ")"
		after = append(after, `http-after-response set-header Strict-Transport-Security "%[`+value+`,url_dec]" if { `+value+" -m found }")
	}
	if ports := r.http3Ports(); len(ports) > 0 {
		after = append(after, fmt.Sprintf(`http-after-response set-header Alt-Svc "h3=\":%%[fe_name]\"; ma=%d" if { fe_name -m str %s }`,
			r.in.Table.HTTP3MaxAge, strings.Join(ports, " ")))
	}
	after = append(after, filters.AfterPreRouting(r.env())...)
	after = append(after, "http-after-response allow unless { var(txn.filters) -m found }")
	return slices.Concat(
		first, filters.TakeCookies(r.env(), ""), next, rules.Request, rules.Response,
		filters.GuardCookies(r.env()), ir.Lines("", after...), rules.AfterResponse,
	)
}
