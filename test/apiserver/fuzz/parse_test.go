package fuzz

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"gateway/internal/haproxy/ir"
)

// The names of defaults sections that backends take their settings from.
const (
	requests    = `requests(\.[0-9A-Za-z]{22})?`
	connections = `tcp(\.[0-9A-Za-z]{22})?`
)

// The words that may begin a line of haproxy.cfg. Whatever a Gateway holds, no line begins with anything else.
var (
	sectionHeaders = regexp.MustCompile(`^(global( # (programs|requests of programs|copies of requests|questions about requests|questions to gateway-waf|large bodies|counted bodies|answers in place of errors|addresses in answers|bodies of requests|claims of tokens))?|listen (mirrors|auth|overrides|passage) from common|` +
		`defaults (common|tcp|(routing|backends) from common|` + requests + ` from backends|` + connections + ` from tcp)|` +
		`peers pods|cache responses|ring (measured|traced|watched)|log-profile (measured|traced)|frontend ([0-9]{1,5} from (routing|tcp)|[0-9]{1,5}[.]sni from tcp|metrics from common)|` +
		`backend (((connections|requests)-of|decisions|concurrent|traced|no-(route|backend)|too-long|answer|certificates|jwt-keys|users|login|bodies|large-bodies|limited) from common|[0-9]{1,5}[.]tls from tcp|` +
		`[a-z0-9]([-a-z0-9]*[a-z0-9])?_[a-z]([-a-z0-9]*[a-z0-9])?_[0-9]{1,5}((\.[0-9A-Za-z]{22})? from ` + requests + `|\.tcp(\.[0-9A-Za-z]{22})? from ` + connections + `)))$`)

	directives = map[string][]string{
		"global": {"log", "stats", "hard-stop-after", "thread-hard-limit", "mworker-max-reloads", "fd-hard-limit", "tune.h2.fe.max-concurrent-streams", "tune.h2.fe.glitches-threshold", "ssl-load-extra-files",
			"ssl-default-bind-options", "tune.ssl.cachesize", "httpclient.ssl.verify", "tune.bufsize", "tune.bufsize.small", "tune.bufsize.large", "tune.http.maxhdr", "tune.h2.max-frame-size", "tune.memory.hot-size",
			"tune.pattern.cache-size", "tune.max-rules-at-once", "tune.lua.bool-sample-conversion", "tune.lua.openlibs", "tune.lua.maxmem",
			"tune.lua.log.loggers", "lua-load-per-thread", "localpeer", "tune.stick-counters"},
		"peers": {"bind", "server", "table"},
		"ring":  {"format", "maxlen", "size", "timeout", "server"}, "log-profile": {"on"},
		"cache":  {"total-max-size", "max-object-size", "max-age", "process-vary"},
		"listen": {"filter", "bind", "stick-table", "timeout", "option", "http-request", "http-response", "use_backend"},
		"defaults": {"mode", "timeout", "retries", "retry-on", "option", "srvtcpka-idle", "srvtcpka-intvl", "srvtcpka-cnt", "http-error", "log", "log-format", "error-log-format", "http-request", "http-response",
			"http-after-response", "tcp-request", "balance", "hash-type", "hash-balance-factor", "cookie", "http-check", "compression"},
		"frontend": {"#", "acl", "bind", "monitor-uri", "http-request", "http-response", "tcp-request", "log", "option", "log-format", "use_backend", "default_backend"},
		"backend":  {"stick-table", "filter", "http-error", "http-request", "http-after-response", "dynamic-cookie-key", "default-server", "server", "timeout"},
	}
	// actions are the second words of rules.
	actions = map[string][]string{
		"http-request": {"set-bandwidth-limit", "track-sc0", "track-sc1", "track-sc2", "track-sc3", "track-sc4", "track-sc5", "track-sc6", "track-sc7", "track-sc8", "track-sc9", "track-sc10", "track-sc11", "track-sc12", "set-log-level", "sc-inc-gpc", "sc-add-gpc", "set-var", "set-var-fmt", "unset-var", "deny", "allow", "reject", "return", "redirect", "set-header", "add-header", "del-header", "add-headers-bin", "del-headers-bin", "set-path",
			"set-timeout", "pause", "disable-l7-retry", "use-service", "wait-for-body", "lua.auth", "lua.waf", "lua.mirror", "set-method", "set-uri", "set-pathq", "set-query", "replace-path", "replace-header", "replace-value", "cache-use"},
		"http-response":       {"set-bandwidth-limit", "allow", "deny", "return", "wait-for-body", "set-timeout", "set-var", "set-var-fmt", "unset-var", "lua.override_ask", "lua.override_note", "lua.override_give", "lua.rewrite_response", "cache-store", "set-header", "add-header", "del-header", "add-headers-bin", "del-headers-bin", "replace-header"},
		"http-after-response": {"allow", "set-status", "set-header", "add-header", "del-header", "replace-header", "set-var", "set-var-fmt", "unset-var", "sc-inc-gpc", "add-headers-bin", "lua.override_keep"},
		"http-check":          {"send", "expect"},
		"http-error":          {"status"},
		"compression":         {"algo-res", "type-res", "minsize-res"},
		"tcp-request":         {"content", "inspect-delay", "connection", "session"},
		"option": {"dontlognull", "http-ignore-probes", "httpclose", "redispatch", "httpchk", "idle-close-on-response", "srvtcpka", "use-small-buffers",
			"http-drop-request-trailers", "allbackups"},
	}
)

// checkText checks that a file is printable ASCII and line breaks.
func checkText(name string, content []byte) error {
	for i, c := range content {
		if (c < ' ' && c != '\n') || c > '~' {
			return fmt.Errorf("%s has the byte 0x%02X in %q", name, c, line(content, i))
		}
	}
	if len(content) > 0 && content[len(content)-1] != '\n' {
		return fmt.Errorf("the last line of %s has no end", name)
	}
	return nil
}

// line returns the line that holds a byte.
func line(content []byte, i int) []byte {
	start := bytes.LastIndexByte(content[:i], '\n') + 1
	end := bytes.IndexByte(content[i:], '\n')
	if end < 0 {
		end = len(content) - i
	}
	return content[start : i+end]
}

// checkConfig parses haproxy.cfg back: it consists of sections and directives that are known.
func checkConfig(content []byte) error {
	kind := ""
	seen := map[string]bool{}
	for text := range strings.Lines(string(content)) {
		text = strings.TrimSuffix(text, "\n")
		body, indented := strings.CutPrefix(text, "    ")
		switch {
		case text == "":
		case !indented && sectionHeaders.MatchString(text):
			kind = strings.Fields(text)[0]
			if id, _, _ := strings.Cut(text, " from "); seen[id] {
				return fmt.Errorf("haproxy.cfg has %q twice", id)
			} else {
				seen[id] = true
			}
		case !indented:
			return fmt.Errorf("haproxy.cfg has a line that is no section: %q", text)
		default:
			if err := checkDirective(kind, body); err != nil {
				return err
			}
		}
	}
	for _, want := range []string{"global", "defaults common", "frontend metrics"} {
		if !seen[want] {
			return fmt.Errorf("haproxy.cfg has no %s", want)
		}
	}
	return nil
}

func checkDirective(kind, body string) error {
	word, rest, _ := strings.Cut(body, " ")
	if !contains(directives[kind], word) {
		return fmt.Errorf("haproxy.cfg has a line in a section %s that starts with %q: %q", kind, word, body)
	}
	if known, ok := actions[word]; ok {
		action, _, _ := strings.Cut(rest, " ")
		action, _, _ = strings.Cut(action, "(")
		if !contains(known, action) {
			return fmt.Errorf("haproxy.cfg has the rule %q", body)
		}
	}
	return nil
}

func contains(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// maxEntry is how long a line of a map may be that is set at run time: a command of internal/haproxy/runtime has 15
// KiB.
const maxEntry = 14 << 10

// checkMap checks that every line is one key and one value.
func checkMap(name string, entries []ir.MapEntry, content []byte) error {
	lines := strings.SplitAfter(string(content), "\n")
	if len(lines)-1 != len(entries) {
		return fmt.Errorf("%s has %d lines for %d entries", name, len(lines)-1, len(entries))
	}
	for i, entry := range entries {
		switch {
		case lines[i] != entry.Key+" "+entry.Value+"\n" || strings.Count(lines[i], " ") != 1:
			return fmt.Errorf("%s has a line that is not a key and a value: %q", name, lines[i])
		case entry.Key == "" || entry.Value == "" || entry.Key[0] == '#':
			return fmt.Errorf("%s has a line that HAProxy ignores: %q", name, lines[i])
		case len(lines[i]) > maxEntry:
			return fmt.Errorf("%s has a line of %d bytes: %.200q", name, len(lines[i]), lines[i])
		}
	}
	return nil
}

// A line of a list of certificates is a file, options, and names; the names of a certificate are anyone's text.
var certificateLine = regexp.MustCompile(`^(# [0-9a-f]+|\S+/tls\.pem \[(verify (optional|required) ca-file \S+ )?ssl-min-ver TLSv1\.[23]\]( [^ #\[\]]+)* ?)$`)

func checkCertificates(name string, content []byte) error {
	for text := range strings.Lines(string(content)) {
		if !certificateLine.MatchString(strings.TrimSuffix(text, "\n")) {
			return fmt.Errorf("%s has the line %q", name, text)
		}
	}
	return nil
}
