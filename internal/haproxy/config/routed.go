package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"gateway/internal/routing"
)

// Pieces of the rules that carry out programs, see program.go.

// field returns the expression for a field of the program.
func field(i int) string { return fmt.Sprintf("var(txn.program),field(%d,|)", i) }

// text returns the expression for a field of the program that is a text.
func text(i int) string { return field(i) + ",url_dec" }

// flagged returns the condition that the program has a flag.
func flagged(flag string) string { return "{ var(txn.flags) -m sub " + flag + " }" }

// writeTLSChecks answers requests over connections that were made for another listener: their certificate, and what was
// asked of the client, may not be what the request's listener wants. It finds the listener as HAProxy finds a certificate: by
// the name itself, then by a wildcard for its first label. Requests without TLS and without a program skip this and what follows, and so
// do those for the listener that was found for an earlier request of the connection in the same map, where no client shows a certificate.
func writeTLSChecks(b *strings.Builder, in Input) {
	l := lookups{b: b, directive: "http-request", mapPath: in.Paths.MapPath()}
	b.WriteString("    http-request allow if !{ ssl_fc } !{ var(txn.program) -m found }\n")
	if !verifiesClients(in, 0) {
		b.WriteString("    http-request allow if { var(sess.connected),strcmp(txn.listener) eq 0 } { var(sess.version),strcmp(txn.version) eq 0 } !{ var(txn.program) -m found }\n")
	}
	l.writeMisdirected("")
	if verifiesClients(in, 0) {
		b.WriteString(misdirected + "{ str(m/),concat(,txn.listener)," + l.lookup("str") + " -m found } !{ ssl_c_used }\n")
		b.WriteString(clientCertificateRules)
	} else {
		b.WriteString("    http-request set-var(sess.connected) var(txn.connected) if { ssl_fc }\n    http-request set-var(sess.version) var(txn.version) if { ssl_fc }\n")
	}
}

const misdirected = `    http-request return status 421 content-type text/plain hdr cache-control no-store string "this connection was made for another host\n" if { ssl_fc } `

// writeMisdirected finds the listener that a connection was made for, and answers requests for another one.
func (l lookups) writeMisdirected(condition string) {
	unknown := "{ ssl_fc } " + miss("connected")
	l.set("connected", "var(sess.name),"+l.lookup("str"), "{ ssl_fc }")
	l.set("connected", "var(sess.wildcard),"+l.lookup("str"), unknown)
	l.set("connected", "var(sess.any),"+l.lookup("str"), unknown)
	l.b.WriteString(misdirected + condition + "!{ var(txn.connected),strcmp(txn.listener) eq 0 }\n")
}

// writeAnswerSections writes the backends of requests that get none. A hostname that no listener has is not another listener's.
func writeAnswerSections(b *strings.Builder, in Input) {
	l := lookups{b: b, directive: "http-request", mapPath: in.Paths.MapPath()}
	for _, section := range answerSections {
		fmt.Fprintf(b, "\nbackend %s from common\n", section.name)
		if hasTLS(in.Table) {
			l.writeMisdirected(has("listener") + " ")
		}
		b.WriteString(section.answer)
	}
	b.WriteString("\n" + backendPrefix + targetAnswer + fromRouted)
}

// writeHSTS tells browsers to use HTTPS only (RFC 6797), on every answer of a listener that wants it.
func writeHSTS(b *strings.Builder, in Input) {
	value := "str(h/),concat(,txn.listener),map_str(" + in.Paths.MapPath() + ")"
	fmt.Fprintf(b, "    http-after-response set-header Strict-Transport-Security \"%%[%s,url_dec]\" if { ssl_fc } { %s -m found }\n", value, value)
}

// writeSession keeps what is known of a connection, also whether its client is a trusted proxy: what those say about where a request
// comes from is kept (RFC 7239), and they are added to it. What others say is not believed.
func writeSession(b *strings.Builder, in Input, secure bool) {
	if secure {
		b.WriteString(tlsSessionRules)
	} else {
		b.WriteString(clearSessionRules)
	}
	b.WriteString(sessionRules)
	if len(in.Table.TrustedProxies) > 0 {
		b.WriteString(trustRule)
	}
}

// pathDepths returns how many segments the prefixes have that are replaced, sorted, each once.
func pathDepths(table routing.Table) []int {
	seen := map[int]bool{}
	note := func(path *routing.PathChange) {
		if path != nil && path.Full == "" {
			seen[path.Depth] = true
		}
	}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		if rule.Rewrite != nil {
			note(rule.Rewrite.Path)
		}
		if rule.Redirect != nil {
			note(rule.Redirect.Path)
		}
	})
	return slices.Sorted(maps.Keys(seen))
}

// writePathChanges sets txn.newpath. What follows the prefix is told by its number of segments, and stays as the client sent it; but where
// the prefix has encodings or slashes in a row, it is taken from the path that requests are compared by.
func writePathChanges(b *strings.Builder, table routing.Table) {
	set := func(name, value, condition string) {
		fmt.Fprintf(b, "    http-request set-var(txn.%s) %s if %s\n", name, value, condition)
	}
	set("kind", field(fieldPathKind), "TRUE")
	set("newpath", text(fieldPath), "{ var(txn.kind) -m str "+pathFull+" }")
	for _, depth := range pathDepths(table) {
		replaced := fmt.Sprintf("{ var(txn.kind) -m str %d }", depth)
		// The field is there, if empty, when the path goes on after the prefix, if only by a slash.
		set("rest", fmt.Sprintf("var(txn.clean),field(%d,/,0)", depth+2), replaced)
		plain := fmt.Sprintf(" { path -m reg '^(?>/[!$&-.0-;=@-Z_a-z~]++){%d}(?:/|$)' }", depth)
		set("rest", fmt.Sprintf("path,field(%d,/,0)", depth+2), replaced+plain)
		set("newpath", text(fieldPath), replaced)
		fmt.Fprintf(b, "    http-request set-var-fmt(txn.newpath) \"%%[%s]/%%[var(txn.rest)]\" if %s { var(txn.rest) -m found }\n", text(fieldPath), replaced)
		set("newpath", "str(/)", replaced+" { var(txn.newpath) -m len 0 }")
	}
}

// writeCORS writes the rules of the CORS protocol (Fetch standard, section 3.3). An origin that is not allowed gets no header of
// it, which is how a browser is told. Where every origin is allowed, an answer says so even if the request names none, as for a link or an
// image: a cache may give it to a script.
func writeCORS(b *strings.Builder, in Input) {
	l := lookups{b: b, directive: "http-request"}
	cors := flagged(flagCORS) + " "
	// No origin that a rule can name is longer.
	const origin = "{ req.fhdr_cnt(origin) eq 1 } { req.fhdr(origin) -m len lt 400 } "
	any := fmt.Sprintf("{ %s -m str * } ", text(fieldOrigins))
	l.set("allowed", "str(*)", cors+any)
	if slices.ContainsFunc(rulesWithCORS(in.Table), func(r *routing.Rule) bool { return !slices.Contains(r.CORS.Origins, "*") }) {
		fmt.Fprintf(b, "    http-request set-var-fmt(txn.origin) \"\\n%%[req.fhdr(origin)]\\n\" if %s\n", cors+strings.TrimSpace(origin))
		l.set("node", text(fieldOrigins), cors)
		l.writeList(in.Paths, "listed", "origin", cors+origin)
		l.set("allowed", "req.fhdr(origin)", cors+"{ var(txn.listed) -m found }")
	}
	b.WriteString(corsRules)
}

func rulesWithCORS(table routing.Table) []*routing.Rule {
	var rules []*routing.Rule
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		if rule.CORS != nil {
			rules = append(rules, rule)
		}
	})
	return rules
}

// writeResponses writes a rule for each fixed answer. HAProxy takes no status from data, and in texts that come from data
// encodes line breaks and what is not ASCII.
func writeResponses(b *strings.Builder, table routing.Table) {
	rules := map[string]string{}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		if response := rule.Response; response != nil {
			body := ""
			if response.Body != "" && response.Status != 204 && response.Status != 304 {
				body = " content-type " + quoteText(response.ContentType) + " string " + quoteText(response.Body)
			}
			name := responseName(response)
			rules[name] = fmt.Sprintf("    http-request return status %d%s if %s { %s -m str %s }\n",
				response.Status, body, flagged(flagResponse), field(fieldResponse), name)
		}
	})
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		b.WriteString(rules[name])
	}
}

// writeHeaderChanges writes, for each header that some rule changes, the rules that do it: HAProxy takes no names of headers
// from data.
func writeHeaderChanges(b *strings.Builder, table routing.Table) {
	request, response := map[string]int{}, map[string]int{}
	note := func(changes routing.HeaderChanges) {
		for _, change := range changes.Request {
			request[change.Name] = max(request[change.Name], len(change.Values))
		}
		for _, change := range changes.Response {
			response[change.Name] = max(response[change.Name], len(change.Values))
		}
	}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		note(rule.Headers)
		for _, target := range rule.Targets {
			note(targetHeaders(rule, target))
		}
	})
	for _, side := range []struct {
		letter, directive string
		names             map[string]int
	}{{"q", "http-request", request}, {"r", "http-response", response}} {
		for _, name := range slices.Sorted(maps.Keys(side.names)) {
			writeHeaderRemoval(b, side.letter, side.directive, name)
		}
		for _, name := range slices.Sorted(maps.Keys(side.names)) {
			writeHeaderAdditions(b, side.letter, side.directive, name, side.names[name])
		}
	}
}

// writeHeaderRemoval removes a header. If a request header is set whose name has another character than letters, digits and "-", some
// backends take what a client sends with "-" for the same.
func writeHeaderRemoval(b *strings.Builder, letter, directive, name string) {
	removed := ifProgram("|#" + letter + "-" + quote(name, inProgram) + "|")
	if letter == "q" && name == cookieHeader {
		fmt.Fprintf(b, "    http-request set-var(txn.cookies) req.fhdr(cookie) if %s\n", removed)
	}
	header := quoteName(name)
	if variants := notPlain.ReplaceAllString(name, "[^a-z0-9]"); letter == "q" && variants != name {
		header = "^" + variants + "$ -m reg"
	}
	fmt.Fprintf(b, "    %s del-header %s if %s\n", directive, header, removed)
}

var notPlain = regexp.MustCompile(`[^a-z0-9-]`)

func writeHeaderAdditions(b *strings.Builder, letter, directive, name string, values int) {
	header, literal := quoteName(name), routing.QuoteRegex("|#"+letter+"+"+quote(name, inProgram))
	for i := range values {
		added := ifProgram(fmt.Sprintf("|#%s+%s.%d=", letter, quote(name, inProgram), i))
		fmt.Fprintf(b, "    %s set-var(txn.value) 'var(txn.program),regsub(\"^.*%s\\x2E%d=\",\"\"),field(1,|),url_dec' if %s\n", directive, literal, i, added)
		fmt.Fprintf(b, "    %s add-header %s \"%%[var(txn.value)]\" if %s\n", directive, header, added)
	}
}

// ifProgram is the condition that the program changes headers and has a step.
func ifProgram(step string) string {
	return fmt.Sprintf("%s { var(txn.program) -m sub %q }", flagged(flagHeaders), step)
}
