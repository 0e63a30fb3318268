package ingress

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	appv1 "gateway/api/app/v1"
)

const (
	addressNotes = "clients' addresses have to reach the proxies: see externalTrafficPolicy of the GatewayConfig's service\n" +
		"load balancers before the proxies have to be in trustedProxies of the GatewayConfig"
	ipv6Note    = "limits count IPv6 addresses by their first 64 bits"
	rangesTwice = "it is there under its other name too"
	rangesPath  = "the path cannot be given, so others may be open"
)

// maxRanges is how many ranges a list may have.
const maxRanges = 4096

// setRanges converts which clients have access, or have none. nginx checks denied ones first, too.
func setRanges(s *settings, value string) string {
	denies := s.annotation == Prefix+"denylist-source-range"
	_, isWhite := s.values["whitelist-source-range"]
	_, isAllowed := s.values["allowlist-source-range"]
	ranges, problem := readRanges(value)
	switch {
	case problem != "":
		return s.close(s.annotation, problem)
	case isWhite && isAllowed && !denies:
		return s.close(s.annotation, rangesTwice)
	case !denies && slices.Contains(ranges, "0.0.0.0/0") && slices.Contains(ranges, "::/0"):
		return "" // everyone has access
	}
	if s.clients == nil {
		s.clients = &appv1.ClientAddress{}
	}
	if denies {
		s.clients.Deny = ranges
	} else {
		s.clients.Allow = ranges
	}
	s.guardsOf = append(s.guardsOf, s.annotation)
	s.noteOnce(addressNotes)
	return ""
}

// readRanges returns the different ranges of an annotation, in which an address stands for itself, or what is wrong.
func readRanges(value string) (all []appv1.AddressRange, problem string) {
	for text := range strings.SplitSeq(value, ",") {
		text = strings.TrimSpace(text)
		parsed, err := netip.ParsePrefix(text)
		if address, invalid := netip.ParseAddr(text); invalid == nil && address.Zone() == "" {
			parsed, err = address.Prefix(address.BitLen())
		}
		if err != nil {
			return nil, fmt.Sprintf("%q is no range of addresses", text)
		}
		if one := appv1.AddressRange(parsed.Masked().String()); !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	if len(all) > maxRanges {
		return nil, fmt.Sprintf("it has %d ranges where %d are allowed", len(all), maxRanges)
	}
	return all, ""
}

// isGuarded reports whether some requests for a location are refused.
func (l *location) isGuarded() bool { return l.closed || l.hasGuards() }

// hasGuards reports whether requests for a location are checked, so that it must not be reached in another way.
func (l *location) hasGuards() bool { return l.clients != nil || l.basic != nil || l.auth != nil }

// loseGuards closes a location whose guards cannot be kept, unless the user allows to lose them.
func (l *location) loseGuards(h *host, why string) {
	own := l.own()
	own.clients, own.basic, own.auth = nil, nil, nil
	for _, annotation := range own.guardsOf {
		l.note(l.name(), "%s%s: annotation %s: %s", h, l.path, strings.TrimPrefix(annotation, Prefix), own.close(annotation, why))
	}
}

// isWide reports whether nginx matches a path without expressions beyond its segments: /a for /ab.
func (l *location) isWide() bool {
	return l.pathType == networkingv1.PathTypeImplementationSpecific && !strings.HasSuffix(l.path, "/")
}

// keepOrder closes what would be tried before a location with guards, and by nginx after it: expressions are in the
// order of their routes. Those with a header, which canaries have, come before others.
func (s *site) keepOrder(h *host, matches []pathMatch) {
	for i, first := range h.locations {
		for j := i + 1; j < len(matches) && matches[i].kind == expression; j++ {
			l, then := h.locations[j], ""
			jumps := s.comesFirst(h, l.home(), first.home()) || l.canary != nil && len(l.canary.settings.canary.choices()) > 0
			if l.closed || matches[j].kind != expression || !jumps {
				continue
			}
			if first.isGuarded() && !slices.ContainsFunc(first.guardsOf, s.isOpen) {
				l.own().closed, then = true, ". "+Answered
			}
			l.note(l.name(), "%s%s: it is tried before %s of %s%s", h, l.path, first.path, first.name(), then)
		}
	}
}

// comesFirst reports whether a route of a host in one namespace may come before one in another: it is older, or as old
// and in the order of namespaces, in which new ones are created.
func (s *site) comesFirst(h *host, namespace, other string) bool {
	one, isOld := s.Routes[HostRoutes{namespace, h.name}]
	two, isOtherOld := s.Routes[HostRoutes{other, h.name}]
	switch {
	case namespace == other:
		return false
	case isOld && isOtherOld && !one.First.Equal(two.Last):
		return one.First.Before(two.Last)
	case isOld != isOtherOld:
		return isOld
	}
	return namespace < other
}
