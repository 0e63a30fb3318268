package ingress

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
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

// matches returns the match of each location, in the order of h.locations, which it may sort.
func (h *host) matches() []pathMatch {
	regex := h.hasExpressions()
	// What is wide has to be guarded as a whole, which an expression does. Expressions are tried in order.
	ordered := regex || slices.ContainsFunc(h.locations, func(l *location) bool { return l.isGuarded() && l.isWide() })
	if ordered { // nginx tries the longest first
		slices.SortStableFunc(h.locations, func(a, b *location) int {
			return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(b.path, a.path))
		})
	}
	var all []pathMatch
	for _, l := range h.locations {
		l.setRewrite(h)
		path := l.expression()
		switch {
		case !regex:
			path = l.pathMatch(h, ordered)
		case l.path == "/": // it takes what no expression takes, in any order of routes
			path = pathMatch{prefix, "/"}
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
	return all
}

// hasExpressions reports whether the paths of a host are expressions.
func (h *host) hasExpressions() bool {
	return slices.ContainsFunc(h.locations, func(l *location) bool { return l.useRegex || l.rewrites() })
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
	return pathMatch{expression, "(?i)" + toTheEnd(l.path)}
}

// innermost are groups without groups in them.
var innermost = regexp.MustCompile(`\([^()]*\)`)

// toTheEnd returns an expression that matches what comes after a path, too.
func toTheEnd(path string) string {
	rest := path
	for before := ""; rest != before; {
		before, rest = rest, innermost.ReplaceAllString(rest, "")
	}
	if strings.Contains(rest, "|") {
		return "(?:" + path + ").*"
	}
	if strings.HasSuffix(path, ".*") || strings.HasSuffix(path, "(.*)") || strings.HasSuffix(path, "$") {
		return path
	}
	return path + ".*"
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

// rewrites reports whether the backend gets another path.
func (l *location) rewrites() bool { return l.rewriteTarget != "" && l.rewriteTarget != l.path }

// group is a reference to a capture of an expression.
var group = regexp.MustCompile(`\$[0-9]`)

// setRewrite sets the path for the backend: a fixed one, or one made of captures. A location whose rewrite-target
// cannot be given is closed: the backend must not get other paths than with nginx.
func (l *location) setRewrite(h *host) {
	l.newPath, l.replacement = "", nil
	parsed, err := regexp.Compile(l.path)
	if l.rewriteTarget == l.path && l.pathType == networkingv1.PathTypePrefix && l.path != "/" {
		l.note(l.name(), "%s%s: paths below it are passed on as they are: nginx makes %[2]s of them", h, l.path)
	}
	if !l.rewrites() || l.redirect != nil {
		return
	}
	captures := false
	target := group.ReplaceAllStringFunc(l.rewriteTarget, func(ref string) string {
		if err == nil && int(ref[1]-'0') > parsed.NumSubexp() {
			return "" // there is nothing to refer to
		}
		captures = true
		return `\` + ref[1:]
	})
	if !captures && isURLPath(target) && !strings.Contains(target, "$") {
		l.newPath = target
		return
	}
	pattern := "(?i)^" + toTheEnd(l.path)
	_, err = regex.NewReplacement(pattern, target)
	if err == nil && substitutions.MatchString(target) && len(target) <= 1024 && isExpression(pattern) {
		l.replacement = &appv1.PathRegexRewrite{Pattern: pattern, Substitution: target}
		return
	}
	text := l.own().close(Prefix+"rewrite-target", "rewrite-target "+l.rewriteTarget+" is no path with captures of the expression")
	l.note(l.name(), "%s%s: %s", h, l.path, text)
}
