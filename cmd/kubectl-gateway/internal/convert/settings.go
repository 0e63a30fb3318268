package convert

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

// settings are the values of an Ingress's annotations.
type settings struct {
	*notes
	*closings
	ingress *networkingv1.Ingress
	// values are ingress-nginx's annotations, without the prefix.
	values map[string]string

	// annotation is the one which is being carried over.
	annotation string

	// rule is what every rule of the Ingress has beside matches and backendRefs.
	rule appv1.RouteRule
	// closed says that the rules must not let requests through.
	closed bool
	// clients are those that may come in, nil: all. basic are the users that may, nil: nobody is asked for a password.
	// auth is the Service that decides about requests, nil: none does. guardsOf are the annotations that say so.
	clients  *appv1.ClientAddress
	basic    *appv1.BasicAuth
	auth     *appv1.ExternalAuth
	guardsOf []string
	// redirect answers all requests of the Ingress.
	redirect *appv1.RequestRedirect
	// upstreamHost and rewriteTarget are another host and path for the backend.
	upstreamHost  appv1.PreciseHostname
	rewriteTarget string
	useRegex      bool
	// backend is how to talk to the Services.
	backend appv1.Backend

	aliases         []appv1.Hostname
	appRoot         appv1.URLPath
	noHTTPSRedirect bool
	forceHTTPS      bool
	wwwRedirect     bool
	canary          *canary
}

// readSettings returns the settings of an Ingress.
func readSettings(ingress *networkingv1.Ingress, c *closings, n *notes) *settings {
	s := &settings{notes: n, closings: c, ingress: ingress, values: map[string]string{}}
	s.closed = c.isClosed("Ingress", ingress.Namespace, ingress.Name)
	for name, value := range ingress.Annotations {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			s.values[short] = value
		}
	}
	// Annotations about which there is the same to say are in one note.
	names := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(ingress.Annotations)) {
		text := s.carry(name)
		names[text] = append(names[text], strings.TrimPrefix(name, prefix))
	}
	for _, text := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return strings.Compare(names[a][0], names[b][0]) }) {
		s.noteAnnotation(strings.Join(names[text], ", "), text)
	}
	return s
}

// carry converts an annotation, and returns what is to be noted.
func (s *settings) carry(name string) string {
	const unknown = "it is not known, and not carried over"
	s.annotation = name
	short, ok := strings.CutPrefix(name, prefix)
	if !ok {
		text, ok := find(otherAnnotations, name)
		switch {
		case name == allowHTTP && !equalValues(s.ingress.Annotations[name], "true"):
			return s.close(name, onlyHTTPS)
		case ok:
			return text
		case cli.IsController(name):
			return s.close(name, otherController)
		case aboutAccess.MatchString(name):
			return s.close(name, unknown)
		}
		return unknown
	}
	set, ok := find(annotations, short)
	switch {
	case !ok:
		return s.close(name, unknown)
	case isCanary(s.ingress) && !slices.Contains(ofCanary, short):
		return "a canary has that of its main Ingress"
	}
	return set(s, s.values[short])
}

// find returns the value of a name in a map, or else of the longest beginning of the name.
func find[T any](all map[string]T, name string) (T, bool) {
	best := ""
	for key := range all {
		if key == name || strings.HasPrefix(name, key) && strings.ContainsAny(key[len(key)-1:], "-/.") && len(key) > len(best) {
			best = key
		}
		if key == name {
			break
		}
	}
	found, ok := all[best]
	return found, ok
}

// name names the Ingress in notes.
func (s *settings) name() string { return objectName(s.ingress) + " Ingress" }

// noteAnnotation notes each line of a text, if it is not "".
func (s *settings) noteAnnotation(name, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		s.note(s.name(), "annotation %s: %s", name, line)
	}
}

// equalValues compares values of annotations, booleans as such.
func equalValues(a, b string) bool {
	x, errX := strconv.ParseBool(a)
	y, errY := strconv.ParseBool(b)
	return errX == nil && errY == nil && x == y || strings.EqualFold(a, b)
}

// listed handles an annotation that is lost. The harmless values are the default here.
func listed(text string, harmless ...string) annotation {
	return func(_ *settings, value string) string {
		if slices.ContainsFunc(harmless, func(other string) bool { return equalValues(value, other) }) {
			return ""
		}
		return text
	}
}

// closing handles an annotation that may restrict access and is lost. The harmless values do not.
func closing(text string, harmless ...string) annotation {
	return func(s *settings, value string) string {
		if slices.ContainsFunc(harmless, func(other string) bool { return equalValues(value, other) }) {
			return ""
		}
		return s.close(s.annotation, text)
	}
}

// close closes the rules for an annotation, unless the user allows to lose it. It returns the text with what happens to
// requests.
func (s *settings) close(name, text string) string {
	then := s.closings.close(name)
	s.closed = s.closed || !slices.Contains(s.open, name)
	return text + "; " + then
}

// part handles an annotation that another one, or its note, covers.
func part(of string) annotation {
	return func(s *settings, _ string) string {
		if value, ok := s.values[of]; ok && !equalValues(value, "false") {
			return ""
		}
		return "it has no effect without " + of
	}
}

// setBool handles an annotation that is true or false.
func setBool(set func(s *settings, value bool)) annotation {
	return func(s *settings, text string) string {
		value, err := strconv.ParseBool(text)
		if err != nil {
			return "it is neither true nor false, so nginx ignores it"
		}
		set(s, value)
		return ""
	}
}

const noNumber = "it is no number, so nginx ignores it"

// number returns the value of an annotation that is one.
func (s *settings) number(name string) (int32, bool) {
	value, ok := s.values[name]
	n, err := strconv.ParseUint(value, 10, 31)
	if ok && err != nil {
		s.noteAnnotation(name, noNumber)
	}
	return int32(n), ok && err == nil //nolint:gosec // it has 31 bits
}

// bool returns the value of an annotation that is true or false.
func (s *settings) bool(name string, otherwise bool) bool {
	value, ok := s.values[name]
	if !ok {
		return otherwise
	}
	return equalValues(value, "true")
}
