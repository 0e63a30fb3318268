package ingress

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/regex"
)

// pathMatch is how the path of a request is compared. One without a value stands for a location that cannot be carried
// over.
type pathMatch struct {
	kind  gatewayv1.PathMatchType
	value string
}

const (
	exact      = gatewayv1.PathMatchExact
	prefix     = gatewayv1.PathMatchPathPrefix
	expression = gatewayv1.PathMatchRegularExpression
)

// matches returns the match of each location, in an order that is then that of the locations.
func (h *host) matches() []pathMatch {
	regex := slices.ContainsFunc(h.locations, func(l *location) bool { return l.useRegex || l.rewrites() })
	// What is wide has to be guarded as a whole, which an expression does. Expressions are tried in order.
	ordered := regex || slices.ContainsFunc(h.locations, func(l *location) bool { return l.isGuarded() && l.isWide() })
	prefixes := false
	if ordered { // nginx tries the longest first
		slices.SortStableFunc(h.locations, func(a, b *location) int {
			return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(b.path, a.path))
		})
		prefixes = regex && slices.ContainsFunc(h.locations, func(l *location) bool { return l.newPrefix() != "" })
	}
	var all []pathMatch
	for _, l := range h.locations {
		l.closeRewrite(h)
		var path pathMatch
		literal, _, ok := splitPath(l.path)
		isPrefix := prefixes && ok
		// What else nginx takes for the path has to be guarded, too.
		isSafe := literal == "/" || h.isOf(l.ingress)
		if isPrefix && !isSafe && l.hasGuards() && l.newPrefix() != "" {
			l.loseGuards(h, rangesPrefix)
		}
		switch {
		case !regex:
			path = l.pathMatch(h, ordered)
		case isPrefix && !l.closed && (isSafe || !l.hasGuards()): // what is closed has to be so in any case
			path = pathMatch{prefix, literal}
		default:
			path = l.expression()
		}
		if path.kind == expression && l.isGuarded() {
			if over, ok := overDecoded(path.value); ok && isExpression(over) {
				path.value = over
			} else {
				path.value = "" // it is not usable
			}
		}
		if l.hasGuards() && !isUsable(path) {
			l.loseGuards(h, rangesPath)
		}
		switch {
		case l.closed && !isUsable(path):
			path = l.start()
			l.note(l.name(), "%s%s: it cannot be given: all paths that %s matches answer 503", h, l.path, path.value)
		case !isMatch(path):
			l.note(l.name(), "%s%s: the path is left out: it has an empty, \".\" or \"..\" segment, %%2F, a character to encode, or more than 1024 of them", h, l.path)
			path.value = ""
		}
		all = append(all, path)
	}
	if prefixes {
		h.notePrefixes(all)
	}
	return all
}

// pathMatch returns the match of a location on a host without expressions.
func (l *location) pathMatch(h *host, ordered bool) pathMatch {
	shorter := strings.TrimSuffix(l.path, "/")
	switch {
	case l.pathType == networkingv1.PathTypeExact:
		return pathMatch{exact, l.path}
	case l.path == "/":
	case ordered && l.isWide():
		return pathMatch{expression, regexp.QuoteMeta(l.path) + ".*"}
	case shorter != l.path:
		l.note(l.name(), "%s%s: %s is passed on too, where nginx redirects to %[2]s", h, l.path, shorter)
	case l.isWide():
		l.note(l.name(), "%s%s: it is a prefix by whole segments: nginx takes %[2]ssomething too", h, l.path)
	}
	if ordered && l.path != "/" {
		return pathMatch{expression, regexp.QuoteMeta(shorter) + "(/.*)?"}
	}
	return pathMatch{prefix, l.path}
}

// expression returns the match of a location on a host with expressions. nginx ignores case, and what comes after.
func (l *location) expression() pathMatch {
	path := l.path
	if strings.Contains(path, "|") {
		path = "(" + path + ")"
	}
	if !strings.HasSuffix(path, ".*") && !strings.HasSuffix(path, "(.*)") && !strings.HasSuffix(path, "$") {
		path += ".*"
	}
	return pathMatch{expression, "(?i)" + path}
}

// isUsable reports whether requests can have the path.
func isUsable(path pathMatch) bool {
	_, _, err := regex.Translate(path.value)
	return isMatch(path) && (err == nil || path.kind != expression)
}

// start returns a match for more than an expression matches: for all that begins as it does.
func (l *location) start() pathMatch {
	literal := "/"
	if !strings.Contains(l.path, "|") {
		literal = plain.FindString(l.path)
	}
	return pathMatch{expression, "(?i)" + regexp.QuoteMeta(literal) + ".*"}
}

// plain is what an expression begins with and stands for itself, with a character after it that may be optional.
var plain = regexp.MustCompile(`^[-A-Za-z0-9_~/]*/`)

// tails are what expressions for a prefix end with, and the reference to what comes after the prefix and a slash.
var tails = []struct{ tail, rest string }{
	{`(/|$)(.*)`, "/$2"}, {`(/?)(.*)`, "/$2"}, {`/?(.*)`, "/$1"}, {`(/.*)?`, "$1"}, {`/(.*)`, "/$1"}, {`(.*)`, "$1"}, {`/.*`, ""}, {`.*`, ""}, {"", ""},
}

// splitPath divides an expression for a prefix. Rest is how a rewrite-target refers to what comes after the prefix,
// with its slash.
func splitPath(path string) (literal, rest string, ok bool) {
	for _, t := range tails {
		if literal, ok := strings.CutSuffix(path, t.tail); ok && !strings.ContainsAny(literal, `()[]{}|?*+^$\`) {
			return cmp.Or(literal, "/"), t.rest, true
		}
	}
	return "", "", false
}

// rewrites reports whether the backend gets another path.
func (l *location) rewrites() bool { return l.rewriteTarget != "" && l.rewriteTarget != l.path }

// newPrefix returns what replaces the prefix that a path is for, "" if the rewrite-target is of another kind.
func (l *location) newPrefix() string {
	_, rest, ok := splitPath(l.path)
	if !ok || rest == "" || !l.rewrites() {
		return ""
	}
	before, ok := strings.CutSuffix(l.rewriteTarget, rest)
	if before = cmp.Or(before, "/"); !ok || !isURLPath(before) || strings.Contains(before, "$") {
		return ""
	}
	return before
}

// group is a reference to a capture of an expression.
var group = regexp.MustCompile(`\$[0-9]`)

// newPath returns what replaces the whole path. False: the rewrite-target is of another kind.
func (l *location) newPath() (string, bool) {
	target := l.rewriteTarget
	if parsed, err := regexp.Compile(l.path); err == nil {
		target = group.ReplaceAllStringFunc(target, func(ref string) string {
			return either(int(ref[1]-'0') > parsed.NumSubexp(), "", ref) // there is nothing to refer to
		})
	}
	return target, isURLPath(target) && !strings.Contains(target, "$")
}

// closeRewrite closes a location whose rewrite-target cannot be given: the backend must not get other paths than with
// nginx.
func (l *location) closeRewrite(h *host) {
	if _, ok := l.newPath(); ok || !l.rewrites() || l.newPrefix() != "" {
		return
	}
	own := l.own()
	text := own.close(Prefix+"rewrite-target", "rewrite-target "+l.rewriteTarget+" is neither a whole path nor one in place of a prefix")
	l.note(l.name(), "%s%s: %s", h, l.path, text)
}

// pathModifier returns the path for the backend, nil if it stays as it is.
func (l *location) pathModifier(match pathMatch) *gatewayv1.HTTPPathModifier {
	before := l.newPrefix()
	path, ok := l.newPath()
	switch {
	case !l.rewrites(), before != "" && before == match.value:
		return nil
	case before != "" && match.kind == prefix:
		return &gatewayv1.HTTPPathModifier{Type: gatewayv1.PrefixMatchHTTPPathModifier, ReplacePrefixMatch: &before}
	case ok:
		return fullPath(path)
	}
	return nil
}

// notePrefixes notes the differences of a host whose expressions became prefixes.
func (h *host) notePrefixes(matches []pathMatch) {
	l := h.locations[0]
	l.note(l.name(), "%s: case matters in its paths. nginx ignores case", h)
	l.note(l.name(), "%s: its paths are prefixes by whole segments. nginx takes /apis for /api, too", h)
	for i, a := range matches {
		for j := i + 1; j < len(matches); j++ {
			if b := matches[j]; before(b, a) {
				h.locations[j].note(h.locations[j].name(), "%s: %s is tried before %s here: nginx tries the longer expression first", h, h.locations[j].path, h.locations[i].path)
			}
		}
	}
}

// before reports whether nginx tries a path before another one that may match the same requests.
func before(a, b pathMatch) bool {
	if b.kind == expression {
		return false
	}
	return a.kind == expression || len(a.value) > len(b.value) && strings.HasPrefix(a.value, b.value)
}
