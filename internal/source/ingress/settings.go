package ingress

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// rule is a rule of an HTTPRoute, and what it has of a RouteFilter.
type rule struct {
	gatewayv1.HTTPRouteRule
	extension appv1.RouteFilterSpec
	// owner is the name of the Ingress, "" if it is of all of a host.
	owner string
	// of are the Ingresses that it is for.
	of []*networkingv1.Ingress
}

// namespace is that of the Ingress that it is for, "" if it is for nobody's.
func (r *rule) namespace() string {
	if len(r.of) == 0 {
		return ""
	}
	return r.of[0].Namespace
}

func (r *rule) deepCopy() rule {
	return rule{*r.DeepCopy(), *r.extension.DeepCopy(), r.owner, r.of}
}

// settings are the values of an Ingress's annotations.
type settings struct {
	*translator
	ingress *networkingv1.Ingress
	// values are ingress-nginx's annotations, without the prefix, and what the ConfigMap has in place of others.
	values map[string]string
	// defaults are the names of those from the ConfigMap.
	defaults map[string]bool

	// annotation is the one which is being carried over.
	annotation string

	// rule is what every rule of the Ingress has beside matches and backendRefs.
	rule rule
	// closed reports whether the rules must not let requests through.
	closed bool
	// clients may come in, nil: all. basic are the users that may, nil: nobody is asked for a password.
	// auth is the Service that decides about requests, nil: none does. guardsOf are the annotations that say so.
	clients  *appv1.ClientAddress
	basic    *appv1.BasicAuth
	auth     *appv1.ExternalAuth
	guardsOf []string
	// authNamespace is the namespace of the Service that decides.
	authNamespace string
	// authority is who signs clients' certificates, for all of the host.
	authority authority
	// serverHeaders are what a snippet does to the answers of the host.
	serverHeaders *gatewayv1.HTTPHeaderFilter
	// redirect answers all requests of the Ingress.
	redirect *gatewayv1.HTTPRequestRedirectFilter
	// override has a Service answer in place of errors of backends.
	override []appv1.OverriddenResponse
	// answers is what answers of backends say of other addresses.
	answers appv1.ResponseRewrite
	// upstreamHost and rewriteTarget are another host and path for the backend.
	upstreamHost  string
	rewriteTarget string
	useRegex      bool
	// tls, http2 and balancing are how to talk to the Services.
	tls, http2 bool
	balancing  *appv1.LoadBalancing

	aliases         []string
	appRoot         string
	noHTTPSRedirect bool
	forceHTTPS      bool
	wwwRedirect     bool
	passthrough     bool
	canary          *canary
}

// readSettings returns the settings of an Ingress.
func (t *translator) readSettings(ingress *networkingv1.Ingress) *settings {
	s := &settings{translator: t, ingress: ingress, values: map[string]string{}, defaults: map[string]bool{}}
	s.closed = t.isClosed("Ingress", ingress.Namespace, ingress.Name)
	var all []string
	for name, value := range ingress.Annotations {
		short, ok := strings.CutPrefix(name, Prefix)
		if isEmpty := strings.TrimSpace(value) == ""; ok && isEmpty && !strings.HasSuffix(name, "-source-range") {
			continue // nginx ignores it
		}
		if all = append(all, name); ok && (!t.ignoreSnippets || !strings.HasSuffix(name, "-snippet")) {
			s.values[short] = value
		}
	}
	if s.values["auth-url"] == "" { // they say nothing of global-auth-url
		maps.DeleteFunc(s.values, func(name, _ string) bool { return slices.Contains(partsOfAuth, name) })
	}
	if !isCanary(ingress) {
		for _, name := range s.takeDefaults() {
			all = append(all, Prefix+name)
		}
	}
	// Annotations about which there is the same to say are in one note, and so are keys.
	names := map[Note][]string{}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		text, short := s.carry(name), strings.TrimPrefix(name, Prefix)
		of := Note{Object: s.origin(short), Text: text}
		names[of] = append(names[of], cmp.Or(s.keyOf(short), short))
	}
	for _, of := range slices.SortedFunc(maps.Keys(names), func(a, b Note) int { return strings.Compare(names[a][0], names[b][0]) }) {
		s.noteLines(of.Object, strings.Join(names[of], ", "), of.Text)
	}
	return s
}

// takeDefaults takes the values of the ConfigMap that the Ingress does not replace, and returns their names.
func (s *settings) takeDefaults() []string {
	var names []string
	_, hasOwnAuth := s.values["auth-url"]
	hasOwnAuth = hasOwnAuth || !s.bool("enable-global-auth", true)
	for name, value := range s.configuration.defaults {
		_, ok := s.values[name]
		if _, isAllowed := s.values["allowlist-source-range"]; name == "whitelist-source-range" {
			ok = ok || isAllowed // these are two names of one
		}
		if !ok && (!hasOwnAuth || !strings.HasPrefix(name, "auth-")) {
			names = append(names, name)
			s.values[name], s.defaults[name] = value, true
		}
	}
	return names
}

// carry converts an annotation, and returns what is to be noted.
func (s *settings) carry(name string) string {
	s.annotation = name
	short, ok := strings.CutPrefix(name, Prefix)
	if !ok {
		return s.carryOther(name)
	}
	row, ok := annotations[short]
	_, counts := s.values[short]
	switch {
	case !counts:
		return either(slices.Contains(partsOfAuth, short), "it has no effect without auth-url", "nginx ignores it, as allow-snippet-annotations is false")
	case !ok && hasWord(short, wordsOfAccess):
		return s.close(name, unknown)
	case !ok:
		return unknown
	case isCanary(s.ingress) && !slices.Contains(ofCanary, short):
		return "a canary has that of its main Ingress"
	case row.set != nil:
		return row.set(s, s.values[short])
	}
	return row.lose(s, s.values[short])
}

// find returns the value of a name in a map, or else of a beginning of the name.
func find(all map[string]string, name string) (string, bool) {
	for key, text := range all {
		if key == name || strings.HasPrefix(name, key) && strings.ContainsAny(key[len(key)-1:], "/.") {
			return text, true
		}
	}
	return "", false
}

// name names the Ingress in notes.
func (s *settings) name() Subject { return Subject{"Ingress", s.ingress.Namespace, s.ingress.Name} }

// keyOf returns the key of the ConfigMap that an annotation's value is from, "" if it is from the Ingress.
func (s *settings) keyOf(name string) string {
	if !s.defaults[name] {
		return ""
	}
	return cmp.Or(s.keys[name], name)
}

// origin names the object that an annotation's value is from.
func (s *settings) origin(name string) Subject {
	if s.defaults[name] {
		return Subject{"ConfigMap", s.Configuration.Namespace, s.Configuration.Name}
	}
	return s.name()
}

// noteAnnotation notes each line of a text, if it is not "". What is from the ConfigMap is noted of that.
func (s *settings) noteAnnotation(name, text string) {
	s.noteLines(s.origin(name), cmp.Or(s.keyOf(name), name), text)
}

func (s *settings) noteLines(object Subject, names, text string) {
	what := either(object.Kind == "ConfigMap", "key", "annotation")
	for line := range strings.SplitSeq(text, "\n") {
		if line != "" {
			s.note(object, "%s %s: %s", what, names, line)
		}
	}
}

// noteOnce notes the lines of texts of the Gateways.
func (t *translator) noteOnce(texts ...string) {
	for line := range strings.SplitSeq(strings.Join(texts, "\n"), "\n") {
		t.note(Subject{"Gateway", t.Namespace, t.Name}, "%s", line)
	}
}

// equalValues compares values of annotations, booleans as such.
func equalValues(a, b string) bool {
	x, errX := strconv.ParseBool(a)
	y, errY := strconv.ParseBool(b)
	return errX == nil && errY == nil && x == y || strings.EqualFold(a, b)
}

// close closes the rules for an annotation, unless the user allows to lose it. It returns the text with what happens to
// requests.
func (s *settings) close(name, text string) string {
	then := s.closings.close(name)
	s.closed = s.closed || then == Answered
	return text + ". " + then
}

// part handles an annotation that another one, or its note, covers.
func part(of string) setter {
	return func(s *settings, _ string) string {
		if value, ok := s.values[of]; ok && !equalValues(value, "false") {
			return ""
		}
		return "it has no effect without " + of
	}
}

// setBool handles an annotation that is true or false.
func setBool(set func(s *settings, value bool)) setter {
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

// bool returns the value of an annotation, or another one if it is neither true nor false, as nginx does.
func (s *settings) bool(name string, otherwise bool) bool {
	if value, err := strconv.ParseBool(s.values[name]); err == nil {
		return value
	}
	return otherwise
}
