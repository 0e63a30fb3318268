package convert

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/regex"
)

// matches returns the match of each location, in an order that is then that of the locations. A match without a path
// stands for a location that cannot be carried over.
func (h *host) matches() []appv1.RouteMatch {
	regex := slices.ContainsFunc(h.locations, func(l *location) bool { return l.useRegex || l.rewrites() })
	prefixes := false
	if regex || slices.ContainsFunc(h.locations, (*location).hasGuards) {
		// nginx tries the longest first.
		slices.SortStableFunc(h.locations, func(a, b *location) int {
			return cmp.Or(cmp.Compare(len(b.path), len(a.path)), cmp.Compare(b.path, a.path))
		})
		prefixes = regex && slices.ContainsFunc(h.locations, func(l *location) bool { return l.newPrefix() != "" })
	}
	var all []appv1.RouteMatch
	for _, l := range h.locations {
		var path appv1.PathMatch
		literal, _, ok := splitPath(l.path)
		isPrefix := prefixes && ok
		// What else nginx takes for the path has to be guarded, too.
		isSafe := literal == "/" || h.isOf(l.ingress)
		if isPrefix && !isSafe && l.hasGuards() && l.newPrefix() != "" {
			l.loseGuards(h, rangesPrefix)
		}
		switch {
		case !regex:
			path = l.pathMatch(h)
		case isPrefix && !l.closed && (isSafe || !l.hasGuards()): // what is closed has to be so in any case
			path = appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: literal}
		default:
			path = l.expression()
		}
		if path.Type == appv1.PathMatchRegularExpression && l.isGuarded() {
			if over, ok := overDecoded(path.Value); ok && isExpression(over) {
				path.Value = over
			} else {
				path.Value = "" // it is not usable
			}
		}
		if l.hasGuards() && !isUsable(path) {
			l.loseGuards(h, rangesPath)
		}
		switch {
		case l.closed && !isUsable(path):
			path = l.start()
			l.note(l.name(), "%s%s: it cannot be given: all paths that %s matches are answered with 503", h, l.path, path.Value)
		case !isMatch(path):
			l.note(l.name(), "%s%s: a path here is without empty, \".\" and \"..\" segments, %%2F and characters that have to be percent-encoded, and has up to 1024 of them: it is left out", h, l.path)
			path.Value = ""
		}
		all = append(all, appv1.RouteMatch{Path: path})
	}
	if prefixes {
		h.notePrefixes(all)
	}
	return all
}

// pathMatch returns the match of a location on a host without expressions.
func (l *location) pathMatch(h *host) appv1.PathMatch {
	switch {
	case l.pathType == networkingv1.PathTypeExact:
		return appv1.PathMatch{Type: appv1.PathMatchExact, Value: l.path}
	case l.path == "/":
	case l.isGuarded() && l.isWide():
		h.noteLonger(l)
		return appv1.PathMatch{Type: appv1.PathMatchRegularExpression, Value: regexp.QuoteMeta(l.path) + ".*"}
	case l.isGuarded() && h.isBehind(l):
		return appv1.PathMatch{Type: appv1.PathMatchRegularExpression, Value: regexp.QuoteMeta(strings.TrimSuffix(l.path, "/")) + "(/.*)?"}
	case strings.HasSuffix(l.path, "/"):
		l.note(l.name(), "%s%s: %s is passed on too, where nginx redirects to %[2]s", h, l.path, strings.TrimSuffix(l.path, "/"))
	case l.isWide():
		l.note(l.name(), "%s%s: it is a prefix by whole segments: nginx takes %[2]ssomething too", h, l.path)
	}
	return appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: l.path}
}

// expression returns the match of a location on a host with expressions. nginx ignores case, and what comes after.
func (l *location) expression() appv1.PathMatch {
	path := l.path
	if strings.Contains(path, "|") {
		path = "(" + path + ")"
	}
	if !strings.HasSuffix(path, ".*") && !strings.HasSuffix(path, "(.*)") && !strings.HasSuffix(path, "$") {
		path += ".*"
	}
	return appv1.PathMatch{Type: appv1.PathMatchRegularExpression, Value: "(?i)" + path}
}

// isUsable reports whether requests can have the path.
func isUsable(path appv1.PathMatch) bool {
	_, _, err := regex.Translate(path.Value)
	return isMatch(path) && (err == nil || path.Type != appv1.PathMatchRegularExpression)
}

// start returns a match for more than an expression matches: for all that begins as it does.
func (l *location) start() appv1.PathMatch {
	literal := "/"
	if !strings.Contains(l.path, "|") {
		literal = plain.FindString(l.path)
	}
	return appv1.PathMatch{Type: appv1.PathMatchRegularExpression, Value: "(?i)" + regexp.QuoteMeta(literal) + ".*"}
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
func (l *location) newPrefix() appv1.URLPath {
	_, rest, ok := splitPath(l.path)
	if !ok || rest == "" || !l.rewrites() {
		return ""
	}
	before, ok := strings.CutSuffix(l.rewriteTarget, rest)
	if before = cmp.Or(before, "/"); !ok || !isURLPath(before) || strings.Contains(before, "$") {
		return ""
	}
	return appv1.URLPath(before)
}

// group is a reference to a capture of an expression.
var group = regexp.MustCompile(`\$[0-9]`)

// pathModifier returns the path for the backend, nil if it stays as it is.
func (h *host) pathModifier(l *location, match appv1.RouteMatch) *appv1.PathModifier {
	target := l.rewriteTarget
	switch prefix := l.newPrefix(); {
	case !l.rewrites():
		return nil
	case prefix != "" && string(prefix) == match.Path.Value:
		return nil
	case prefix != "":
		return &appv1.PathModifier{Type: appv1.PathModifierReplacePrefixMatch, ReplacePrefixMatch: prefix}
	}
	if parsed, err := regexp.Compile(l.path); err == nil && parsed.NumSubexp() == 0 {
		target = group.ReplaceAllString(target, "") // there is nothing to refer to
	}
	if !isURLPath(target) || strings.Contains(target, "$") {
		l.note(l.name(), "%s%s: rewrite-target %s cannot be given, as only a whole path or a prefix can be replaced: the backend gets the path as it is", h, l.path, l.rewriteTarget)
		return nil
	}
	return &appv1.PathModifier{Type: appv1.PathModifierReplaceFullPath, ReplaceFullPath: appv1.URLPath(target)}
}

// notePrefixes notes the differences of a host whose expressions became prefixes.
func (h *host) notePrefixes(matches []appv1.RouteMatch) {
	l := h.locations[0]
	l.note(l.name(), "%s: its paths are prefixes by whole segments, in which case matters: nginx takes them as expressions, which ignore case and take /apis for /api", h)
	for i, a := range matches {
		for j := i + 1; j < len(matches); j++ {
			if b := matches[j]; before(b.Path, a.Path) {
				h.locations[j].note(h.locations[j].name(), "%s: %s is tried before %s here: nginx tries the longer expression first", h, h.locations[j].path, h.locations[i].path)
			}
		}
	}
}

// before reports whether nginx tries a path before another one that may match the same requests.
func before(a, b appv1.PathMatch) bool {
	if b.Type == appv1.PathMatchRegularExpression {
		return false
	}
	return a.Type == appv1.PathMatchRegularExpression || len(a.Value) > len(b.Value) && strings.HasPrefix(a.Value, b.Value)
}
