package gatewayapi

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

// listener is a listener of a Gateway or of a ListenerSet.
type listener struct {
	*gatewayv1.Listener
	// owner is the Gateway or ListenerSet.
	owner model.Origin
	// name is unique in the data plane.
	name string
	// kinds are the kinds of routes that it takes.
	kinds []gatewayv1.RouteGroupKind
	// conflict, accepted and resolved are its problems.
	conflict, accepted, resolved verdict
	// refused is why it is not accepted, and unserved why proxies do not serve it, though it is in the data plane: by what
	// they report.
	refused, unserved verdict
	// closed reports whether no route can belong to it: it is of our own kind and redirects everything.
	closed bool
	// taken are the hostnames of the routes that belong to it, and wanted the hostnames of its candidates. attached is how
	// many of the former can be carried out.
	taken, wanted hostnamesByKind
	attached      int32
	tls           *model.ListenerTLS
	// preRouting happens before a route is chosen; nil: nothing does. unasked is why no request may pass, "" if some may.
	preRouting *model.PreRouting
	unasked    string
	// claims are what it needs of the pods, and reports the objects that proxies may report something about, and
	// ReferenceGrants that it depends on.
	claims  []claim
	reports []Object
	// made is what the model has of it, nil if it is not served.
	made *model.Listener
	// since is when the ListenerSet was made that it is of.
	since int64
	// plane is its data plane, and order its place there.
	plane *plane
	order int
}

// verdict is a problem, or none: most objects have none.
type verdict struct{ of *cause }

// cause is why something is wrong. It is not changed.
type cause struct {
	reason, message string
	// field is the field that the first cause is about, if it is one.
	field string
	// unknown reports whether it is unknown if there is a problem.
	unknown bool
	// listed is how many causes the message has beside the first, and more how many others there are.
	listed, more int
}

// maxListed is the most causes in a message.
const maxListed = 5

func newVerdict(reason, message string) verdict {
	return verdict{&cause{reason: reason, message: message}}
}

// cause returns what is wrong, the zero one if nothing is.
func (v verdict) cause() cause { return ptr.Deref(v.of, cause{}) }

// reason returns the reason, "" if nothing is wrong.
func (v verdict) reason() string { return v.cause().reason }

func (v verdict) message() string { return v.cause().message }

func (v verdict) field() string { return v.cause().field }

func (v verdict) unknown() bool { return v.cause().unknown }

// no sets a verdict, unless there is a certain one.
func (v *verdict) no(reason any, format string, args ...any) {
	if v.isOpen() {
		*v = newVerdict(fmt.Sprint(reason), fmt.Sprintf(format, args...))
	}
}

// because returns a verdict with another reason.
func (v verdict) because(reason string) verdict {
	of := v.cause()
	of.reason = reason
	return verdict{&of}
}

// isOpen reports whether nothing is certain to be wrong.
func (v *verdict) isOpen() bool { return v.of == nil || v.of.unknown }

// doubt sets a verdict to unknown, unless there is one.
func (v *verdict) doubt(message string) {
	if v.of == nil {
		v.of = &cause{reason: reasonTooManyProblems, message: message, unknown: true}
	}
}

// alsoReported adds the reports of proxies about a subject to a verdict. field is the reference to it.
func (v *verdict) alsoReported(problem verdict, field string) {
	if problem.unknown() {
		v.doubt(problem.message())
	} else if problem.of != nil {
		v.alsoIn(field, problem.reason(), "%s", problem.message())
	}
}

// reasonTooManyProblems is the reason of a condition that is Unknown because proxies have more problems than their
// reports list.
const reasonTooManyProblems = "TooManyProblems"

// also adds a cause to a verdict, which keeps the reason of the first.
func (v *verdict) also(reason any, format string, args ...any) {
	if v.isOpen() {
		v.no(reason, format, args...)
		return
	}
	now := *v.of
	if now.listed+1 < maxListed {
		now.message += "; " + fmt.Sprintf(format, args...)
		now.listed++
	} else {
		now.more++
	}
	v.of = &now
}

// alsoIn adds a cause in a field.
func (v *verdict) alsoIn(field string, reason any, format string, args ...any) {
	isFirst := v.isOpen()
	v.also(reason, "%s: %s", field, fmt.Sprintf(format, args...))
	if isFirst {
		v.of.field = field
	}
}

// text is the message, with the number of the omitted causes.
func (v verdict) text() string {
	if c := v.cause(); c.more > 0 {
		return fmt.Sprintf("%s; and %d more", c.message, c.more)
	}
	return v.message()
}

// isServed reports whether a listener is in the data plane.
func (l *listener) isServed() bool { return l.conflict.reason() == "" && l.accepted.reason() == "" }

// isAccepted reports whether a listener is in the data plane, and no report of proxies prevents that it is accepted.
func (l *listener) isAccepted() bool { return l.isServed() && l.refused.isOpen() }

// canBeServed reports whether nothing is certain to keep proxies from serving a listener.
func (l *listener) canBeServed() bool { return l.isAccepted() && l.unserved.isOpen() }

func (l *listener) hostname() string { return string(ptr.Deref(l.Hostname, "")) }

// kindsOf are the kinds of routes that the listeners of a protocol take.
var kindsOf = map[gatewayv1.ProtocolType][]gatewayv1.RouteGroupKind{
	gatewayv1.HTTPProtocolType:  {{Group: &routesGroup, Kind: "HTTPRoute"}, {Group: &routesGroup, Kind: "GRPCRoute"}},
	gatewayv1.HTTPSProtocolType: {{Group: &routesGroup, Kind: "HTTPRoute"}, {Group: &routesGroup, Kind: "GRPCRoute"}},
	gatewayv1.TLSProtocolType:   {{Group: &routesGroup, Kind: "TLSRoute"}},
	gatewayv1.TCPProtocolType:   {{Group: &routesGroup, Kind: "TCPRoute"}},
}

var routesGroup gatewayv1.Group = gatewayv1.GroupName

// newListener returns a listener with everything that depends on it alone.
func (t *translator) newListener(spec *gatewayv1.Listener, owner model.Origin, plane *plane) *listener {
	l := &listener{Listener: spec, owner: owner, name: listenerName(owner, string(spec.Name))}
	t.making = l
	defer func() { t.making = nil }()
	known := kindsOf[spec.Protocol]
	if known == nil {
		l.accepted.no(gatewayv1.ListenerReasonUnsupportedProtocol, "protocol %s is not spoken: use HTTP, HTTPS, TLS or TCP", spec.Protocol)
	}
	if spec.Port < 1 || spec.Port > 65535 || slices.Contains(ownPorts, spec.Port) {
		l.accepted.no(gatewayv1.ListenerReasonPortUnavailable, "port %d is taken by the proxies themselves: choose another", spec.Port)
	}
	t.setPreRouting(l)
	l.setKinds(known)
	if spec.Protocol == gatewayv1.HTTPSProtocolType || spec.Protocol == gatewayv1.TLSProtocolType {
		t.setTLS(l, plane)
	}
	return l
}

// listenerName returns the name of a listener in its data plane. It is a DNS label.
func listenerName(owner model.Origin, name string) string {
	if owner.Kind == kindGateway && len(validation.IsDNS1123Label(name)) == 0 {
		return name
	}
	return hashed(name, owner.Kind, owner.Namespace, owner.Name, name)
}

// title is what messages call a listener: the name that its owner knows.
func (l *listener) title() string {
	if l.owner.Kind != kindListenerSet {
		return string(l.Name)
	}
	return fmt.Sprintf("%s of ListenerSet %s/%s", l.Name, l.owner.Namespace, l.owner.Name)
}

// hashed returns a DNS label that begins like a name, and differs for each list of texts.
func hashed(name string, texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "/")))
	name = strings.ReplaceAll(name, ".", "-")
	return fmt.Sprintf("%s-%x", name[:min(len(name), 46)], sum[:8])
}

// ownPorts are the ports of the data-plane pods themselves.
var ownPorts = []int32{8404, 8405}

// setKinds sets the kinds of routes, of those that the protocol has.
func (l *listener) setKinds(known []gatewayv1.RouteGroupKind) {
	wanted := ptr.Deref(l.AllowedRoutes, gatewayv1.AllowedRoutes{}).Kinds
	if l.kinds = known; len(wanted) > 0 || known == nil {
		l.kinds = []gatewayv1.RouteGroupKind{}
	}
	for _, kind := range wanted {
		i := slices.IndexFunc(known, func(of gatewayv1.RouteGroupKind) bool { return of.Kind == kind.Kind })
		if ptr.Deref(kind.Group, routesGroup) != routesGroup || i < 0 {
			l.resolved.also(gatewayv1.ListenerReasonInvalidRouteKinds, "listeners of protocol %s have no routes of kind %s", l.Protocol, kind.Kind)
			continue
		}
		l.kinds = append(l.kinds, known[i])
	}
}

// resolveConflicts finds conflicting listeners. If they are of several objects, the first one stays; if of one object,
// all are refused.
func (p *plane) resolveConflicts() {
	for i, l := range p.listeners {
		l.plane, l.order = p, i
		p.places.add(l, 1)
	}
	kept := rivals{}
	hasConflict := func(l *listener) bool { return l.conflict.reason() != "" }
	rest := slices.DeleteFunc(slices.Clone(p.listeners), func(l *listener) bool {
		return kindsOf[l.Protocol] == nil || l.isBeyond()
	})
	for len(rest) > 0 {
		n := slices.IndexFunc(rest, func(l *listener) bool { return l.owner != rest[0].owner })
		if n < 0 {
			n = len(rest)
		}
		own, among := slices.Clone(rest[:n]), rivals{}
		rest = rest[n:]
		kept.compare(own)
		own = slices.DeleteFunc(own, hasConflict)
		among.add(own)
		among.compare(own)
		kept.add(slices.DeleteFunc(own, hasConflict))
	}
}

// rivals are the first two listeners of each port, protocol and hostname: whoever conflicts with any listener conflicts
// with one of these, which may be itself, and one of the others.
type rivals map[rival][]*listener

// rival is what a listener may have in common with those that it conflicts with: how the protocol of a port is spoken,
// or the hostname.
type rival struct {
	port     int32
	protocol gatewayv1.ProtocolType
	passes   bool
	hostname string
}

func (r rivals) add(listeners []*listener) {
	for _, l := range listeners {
		for _, of := range []rival{{port: l.Port, protocol: l.Protocol, passes: l.passesThrough()}, {port: l.Port, hostname: "/" + l.hostname()}} {
			if len(r[of]) < 2 {
				r[of] = append(r[of], l)
			}
		}
	}
}

// compare refuses the listeners that conflict, because of the first that each conflicts with.
func (r rivals) compare(listeners []*listener) {
	for _, l := range listeners {
		others := slices.Clone(r[rival{port: l.Port, hostname: "/" + l.hostname()}])
		for protocol := range kindsOf {
			for _, passes := range []bool{false, true} {
				others = append(others, r[rival{port: l.Port, protocol: protocol, passes: passes}]...)
			}
		}
		slices.SortFunc(others, func(a, b *listener) int { return cmp.Compare(a.order, b.order) })
		for _, other := range others {
			if other != l {
				l.compare(other)
			}
		}
	}
}

// passesThrough reports whether the listener passes TLS through.
func (l *listener) passesThrough() bool {
	return l.Protocol == gatewayv1.TLSProtocolType && l.tls == nil
}

// compare refuses a listener that conflicts with another one. A hostname distinguishes listeners that pass TLS through
// from listeners that terminate it.
func (l *listener) compare(other *listener) {
	if l.Port != other.Port {
		return
	}
	differ := l.passesThrough() && other.tls != nil || l.tls != nil && other.passesThrough()
	switch {
	case l.Protocol != other.Protocol && !differ:
		l.conflict.no(gatewayv1.ListenerReasonProtocolConflict, "another listener of port %d is of protocol %s", l.Port, other.Protocol)
	case l.Protocol == gatewayv1.TCPProtocolType, l.hostname() == other.hostname():
		l.conflict.no(gatewayv1.ListenerReasonHostnameConflict, "another listener has the same port and hostname")
	}
}

// supportedKinds are the kinds of routes that the listener takes: none in a conflict.
func (l *listener) supportedKinds() []gatewayv1.RouteGroupKind {
	if l.conflict.reason() != "" {
		return []gatewayv1.RouteGroupKind{}
	}
	return l.kinds
}

// maxPorts is the limit for a data plane: as many listeners as our own kind may have, which has one for each port.
const maxPorts = 64

// addListeners adds the valid listeners to the model. A Gateway of our own kind has its own already.
func (p *plane) addListeners(maxCertificates int) {
	if p.gateway == nil {
		return
	}
	p.atPorts, p.mounted = map[int32]int{}, map[string]int{}
	for _, l := range p.listeners {
		if len(p.atPorts) == maxPorts && p.atPorts[l.Port] == 0 {
			p.isFull = true
			l.accepted.no(gatewayv1.ListenerReasonPortUnavailable, "a Gateway has at most %d ports, with those of its ListenerSets", maxPorts)
		}
		if l.isServed() {
			p.addListener(l, maxCertificates)
		}
	}
}

// addListener makes what the model has of a listener that is served.
func (p *plane) addListener(l *listener, maxCertificates int) {
	p.atPorts[l.Port]++
	if l.tls != nil {
		p.mountCertificates(l, maxCertificates)
		l.tls.MinVersion, l.tls.HSTS = source.TLSSettings(p.tls)
		if l.Protocol != gatewayv1.HTTPSProtocolType {
			l.tls.HSTS = ""
		}
	}
	l.made = &model.Listener{
		Origin: l.owner, Name: l.name, Title: l.title(), Port: l.Port, Protocol: string(l.Protocol), Hostname: l.hostname(), Since: l.since, TLS: l.tls, ProxyProtocol: p.proxyProtocol != "",
	}
}

// mountCertificates adds the certificates of a listener to those that pods mount, at most so many. It leaves out the
// others.
func (p *plane) mountCertificates(l *listener, most int) {
	if most == 0 {
		return
	}
	wanted := len(l.tls.Secrets)
	l.tls.Secrets = slices.DeleteFunc(l.tls.Secrets, func(name string) bool {
		if len(p.mounted) == most && p.mounted[name] == 0 {
			return true
		}
		p.mounted[name]++
		return false
	})
	if len(l.tls.Secrets) == wanted {
		return
	}
	p.isFull = true
	l.resolved.also(gatewayv1.ListenerReasonInvalidCertificateRef,
		"tls.certificateRefs: the pods of a Gateway mount at most %d certificates, with those of its ListenerSets: install gateway-key-server, or use another Gateway", most)
	if len(l.tls.Secrets) == 0 {
		l.unserved.no(gatewayv1.ListenerReasonInvalid, "%s", l.resolved.text())
	}
}
