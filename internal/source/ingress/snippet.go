package ingress

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

const (
	snippetOther = "%s cannot be given: a snippet may have more_set_headers, more_set_input_headers, more_clear_headers, add_header, proxy_hide_header and proxy_set_header, each name once"
	snippetAdds  = "add_header adds headers to answers of every status, as with always"
)

// setSnippet carries over what a snippet does to headers. Any other directive may keep clients out.
func setSnippet(s *settings, value string) string {
	directives, rest := parseSnippet(value)
	if rest != "" {
		return s.close(s.annotation, fmt.Sprintf(snippetOther, oneLine(rest)))
	}
	headers, adds := snippet{s: s}, false
	for _, d := range directives {
		if !headers.take(d[0], d[1:]) {
			return s.close(s.annotation, fmt.Sprintf(snippetOther, oneLine(strings.Join(d, " "))))
		}
		adds = adds || d[0] == "add_header" && d[len(d)-1] != "always"
	}
	headers.apply(&s.rule)
	return either(adds, snippetAdds, "")
}

// maxSnippet is how many headers of a kind a snippet may change. A rule may change more.
const maxSnippet = maxHeaders - 5

// setServerSnippet carries over what a snippet does to the answers of all paths of a host, of any Ingress.
func setServerSnippet(s *settings, value string) (text string) {
	s.serverHeaders, text = s.serverSnippet(value)
	return text
}

// redirectingServer matches a server that redirects another port to HTTPS, as ingress-nginx's manifest for load
// balancers of AWS that end TLS has it.
var redirectingServer = regexp.MustCompile(`^\s*server\s*\{\s*listen\s+\d+;\s*return\s+30[1278]\s+https://\$host\$request_uri;\s*\}\s*$`)

const noServer = "no other port redirects to HTTPS: add a listener for it to the Gateway, with an HTTPRoute that redirects"

// setGlobalSnippet carries over what a snippet of the ConfigMap does to all answers.
func setGlobalSnippet(s *settings, value string) string {
	if redirectingServer.MatchString(value) {
		return noServer
	}
	headers, text := s.serverSnippet(value)
	if headers == nil {
		return text
	}
	to := &s.responseHeaders
	for _, header := range headers.Set { // the last one counts
		to.Set = slices.DeleteFunc(to.Set, func(h appv1.Header) bool { return strings.EqualFold(string(h.Name), string(header.Name)) })
		to.Set = append(to.Set, appv1.Header{Name: appv1.ModifiedHeaderName(header.Name), Value: header.Value})
	}
	for _, name := range headers.Remove {
		if !slices.Contains(to.Remove, appv1.ModifiedHeaderName(name)) {
			to.Remove = append(to.Remove, appv1.ModifiedHeaderName(name))
		}
	}
	if most := maxHeaders - 1; len(to.Set) > most || len(to.Remove) > most { // Server is removed, too
		*to = appv1.HeaderFilter{}
		return s.close(s.annotation, fmt.Sprintf("all keys together change up to %d headers", most))
	}
	return ""
}

// serverSnippet returns what a snippet does to answers, or nil and why its paths are closed.
func (s *settings) serverSnippet(value string) (*gatewayv1.HTTPHeaderFilter, string) {
	directives, rest := parseSnippet(value)
	headers := snippet{s: s}
	for _, d := range directives {
		if d[0] != "more_set_headers" && d[0] != "more_clear_headers" || !headers.take(d[0], d[1:]) {
			rest = strings.Join(d, " ")
		}
	}
	if rest != "" {
		return nil, s.close(s.annotation, fmt.Sprintf("%s cannot be given: a snippet of the server may have more_set_headers and more_clear_headers, each name once", oneLine(rest)))
	}
	return &headers.response, ""
}

// oneLine returns a text for a note, of which each line is another one.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// addServerHeaders adds what a snippet of the server does to headers of which the location says nothing.
func (l *location) addServerHeaders(from *gatewayv1.HTTPHeaderFilter) {
	own := l.own()
	own.rule = own.rule.deepCopy()
	to := own.rule.headers(ofAnswers)
	names := slices.Clone(to.Remove)
	for _, header := range slices.Concat(to.Set, to.Add) {
		names = append(names, string(header.Name))
	}
	isNew := func(name string) bool {
		return !slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(name, other) })
	}
	for _, header := range from.Set {
		if isNew(string(header.Name)) {
			to.Set = append(to.Set, header)
		}
	}
	for _, name := range from.Remove {
		if isNew(name) {
			to.Remove = append(to.Remove, name)
		}
	}
	if len(to.Set) > maxHeaders || len(to.Remove) > maxHeaders {
		to.Set, to.Remove = to.Set[:min(len(to.Set), maxHeaders)], to.Remove[:min(len(to.Remove), maxHeaders)]
		l.note(l.name(), "%s: a rule changes up to %d headers, with those of server-snippet: others are left out", l.path, maxHeaders)
	}
}

// word is a word of nginx's configuration, or what ends a directive or is none.
var word = regexp.MustCompile(`^(?:"[^"\\]*"|'[^'\\]*'|[^\s;{}"'#\\]+)(?:[\s;]|$)`)

// parseSnippet returns the words of each directive of a snippet, and what is left where it has anything else.
func parseSnippet(text string) (directives [][]string, rest string) {
	var words []string
	for {
		switch text = strings.TrimSpace(text); {
		case text == "" && len(words) == 0:
			return directives, ""
		case strings.HasPrefix(text, "#"):
			_, text, _ = strings.Cut(text, "\n")
			continue
		case strings.HasPrefix(text, ";") && len(words) > 0:
			directives, words, text = append(directives, words), nil, text[1:]
			continue
		}
		next := strings.TrimRight(word.FindString(text), "; \t\r\n")
		if next == "" {
			return nil, strings.Join(append(words, text), " ")
		}
		text = text[len(next):]
		if next[0] == '"' || next[0] == '\'' {
			next = next[1 : len(next)-1]
		}
		words = append(words, next)
	}
}

// snippet is what a snippet does to headers.
type snippet struct {
	s                 *settings
	request, response gatewayv1.HTTPHeaderFilter
	variables         []appv1.HeaderVariable
	// names are those that it has something to say about.
	names []string
}

// take adds a directive, and reports whether that can be done here.
func (t *snippet) take(directive string, args []string) bool {
	switch {
	case directive == "add_header" && (len(args) == 2 || len(args) == 3 && args[2] == "always"):
		return t.set(&t.response.Add, "answer", args[0], args[1])
	case directive == "proxy_hide_header" && len(args) == 1, directive == "more_clear_headers" && len(args) > 0:
		return !slices.ContainsFunc(args, func(name string) bool { return !t.remove(&t.response.Remove, "answer", name) })
	case directive == "more_set_headers" && len(args) > 0:
		return !slices.ContainsFunc(args, func(arg string) bool {
			name, value, ok := strings.Cut(arg, ":")
			if value = strings.TrimSpace(value); ok && value == "" {
				return !t.remove(&t.response.Remove, "answer", name)
			}
			return !ok || !t.set(&t.response.Set, "answer", name, value)
		})
	case directive == "more_set_input_headers" && len(args) > 0:
		return !slices.ContainsFunc(args, func(arg string) bool {
			name, value, _ := strings.Cut(arg, ":")
			return !t.mayTell(name) || !t.set(&t.request.Set, "request", name, strings.TrimSpace(value))
		})
	case directive != "proxy_set_header" || len(args) != 2 || !t.mayTell(args[0]):
		return false
	case args[1] == "":
		return t.remove(&t.request.Remove, "request", args[0])
	}
	if variable, ok := snippetVariables[args[1]]; ok {
		t.variables = append(t.variables, appv1.HeaderVariable{Name: appv1.ModifiedHeaderName(args[0]), Variable: variable})
		return t.isNew("request", args[0]) && len(t.variables) <= maxSnippet
	}
	return t.set(&t.request.Set, "request", args[0], args[1])
}

// snippetVariables are the variables of nginx that are known here, too.
var snippetVariables = map[string]appv1.HeaderVariableName{
	"$remote_addr": appv1.HeaderVariableClientAddress, "$req_id": appv1.HeaderVariableRequestID,
	"$ssl_protocol": appv1.HeaderVariableTLSVersion, "$ssl_server_name": appv1.HeaderVariableTLSServerName,
}

// ofNginx are headers for backends that ingress-nginx sets itself: a snippet would add another one.
var ofNginx = regexp.MustCompile(`(?i)^(x-request-id|x-real-ip|x-forwarded-(for|host|port|proto|scheme|prefix)|x-original-.*|x-scheme|proxy|ssl-client-.*|forwarded|client-cert.*|x-ssl-client-.*)$`)

// mayTell reports whether a snippet may set a header for backends. It must not be one that checks of the client go by,
// or that they set.
func (t *snippet) mayTell(name string) bool {
	isChecked := t.s.values["auth-url"] != "" || t.s.values["auth-type"] != ""
	isOfCheck := slices.ContainsFunc(list("authorization,cookie,"+t.s.values["auth-response-headers"]), func(other string) bool {
		return strings.EqualFold(name, other)
	})
	return isMatchableHeader(name) && !ofNginx.MatchString(name) && (!isChecked || !isOfCheck)
}

func (t *snippet) set(to *[]gatewayv1.HTTPHeader, of, name, value string) bool {
	*to = append(*to, gatewayv1.HTTPHeader{Name: gatewayv1.HTTPHeaderName(name), Value: value})
	return t.isNew(of, name) && isHeaderText(value) && !strings.Contains(value, "$") && len(*to) <= maxSnippet
}

func (t *snippet) remove(to *[]string, of, name string) bool {
	*to = append(*to, name)
	return t.isNew(of, name) && len(*to) <= maxSnippet
}

// isNew reports whether a name can be changed, and the snippet says so for the first time.
func (t *snippet) isNew(of, name string) bool {
	name = strings.ToLower(name)
	isKnown := slices.Contains(t.names, of+" "+name)
	t.names = append(t.names, of+" "+name)
	return !isKnown && isChangeableHeader(name)
}

// apply adds it all to a rule.
func (t *snippet) apply(r *rule) {
	if len(t.request.Set)+len(t.request.Remove) > 0 {
		*r.headers(ofRequests) = t.request
	}
	if len(t.response.Set)+len(t.response.Add)+len(t.response.Remove) > 0 {
		*r.headers(ofAnswers) = t.response
	}
	if len(t.variables) > 0 {
		r.extension.Filters = append(r.extension.Filters, appv1.RuleFilter{ // it takes the place of the GatewayConfig's
			Type: appv1.RuleFilterHeaderVariables, HeaderVariables: &appv1.HeaderVariables{Set: append(t.s.variables(), t.variables...)},
		})
	}
}

const ofRequests, ofAnswers = gatewayv1.HTTPRouteFilterRequestHeaderModifier, gatewayv1.HTTPRouteFilterResponseHeaderModifier

// headers returns one of the filters of headers, of which a rule has one for requests and one for answers.
func (r *rule) headers(of gatewayv1.HTTPRouteFilterType) *gatewayv1.HTTPHeaderFilter {
	for _, filter := range r.Filters {
		if filter.Type == of {
			return cmp.Or(filter.RequestHeaderModifier, filter.ResponseHeaderModifier)
		}
	}
	headers := &gatewayv1.HTTPHeaderFilter{}
	filter := gatewayv1.HTTPRouteFilter{Type: of, RequestHeaderModifier: headers}
	if of == ofAnswers {
		filter = gatewayv1.HTTPRouteFilter{Type: of, ResponseHeaderModifier: headers}
	}
	r.Filters = append(r.Filters, filter)
	return headers
}
