package status

import (
	"cmp"
	"fmt"
	"slices"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
)

// The kinds of objects that proxies have problems with.
const (
	kindGateway   = "Gateway"
	kindSecret    = "Secret"
	kindConfigMap = "ConfigMap"
	// kindUsers is in place of kindSecret for the users in a Secret, which may have a certificate, too.
	kindUsers = "users"
	// kindKeys is in place of kindConfigMap and others for the keys of tokens.
	kindKeys = "keys"
	// kindRules is in place of kindConfigMap for the rules of a WAF.
	kindRules = "rules"
)

// anyListener is in place of a listener of a Gateway that was made for one of the Gateway API: its own listeners are
// ports, with the certificates of all listeners there.
const anyListener = "*"

// subject is something that the spec names and that proxies check.
type subject struct{ listener, kind, name string }

// namedSubjects returns what the spec names.
func namedSubjects(gateway *appv1.Gateway) map[subject]bool {
	named := map[subject]bool{}
	name := func(listener, kind string, refs []appv1.ObjectReference) {
		for _, ref := range refs {
			named[subject{listener, kind, ref.Name}] = true
		}
	}
	isMade := proxypod.Parent(gateway) != ""
	for _, listener := range gateway.Spec.Listeners {
		if listener.TLS == nil {
			continue
		}
		if isMade {
			listener.Name = anyListener
		}
		name(string(listener.Name), kindSecret, listener.TLS.CertificateRefs)
		if validation := listener.TLS.ClientValidation; validation != nil {
			name(string(listener.Name), kindConfigMap, validation.CACertificateRefs)
		}
	}
	if attachments := gateway.Status.Attachments; attachments != nil {
		name("", kindUsers, attachments.Users)
	}
	for _, mount := range source.MountsOfFilters(gateway) {
		kind := kindKeys
		switch {
		case mount.Secret != "":
			kind = kindUsers
		case mount.Filter == "WAF":
			kind = kindRules
		}
		named[subject{"", kind, mount.Of}] = true
	}
	if ref := gateway.Spec.BackendClientCertificateRef; ref != nil {
		name("", kindSecret, []appv1.ObjectReference{*ref})
	}
	for _, backend := range gateway.Spec.Backends {
		if backend.TLS != nil {
			name("", kindConfigMap, backend.TLS.CACertificateRefs)
		}
	}
	return named
}

// reported are the problems that proxies report of what the spec names.
type reported struct {
	// problems are sorted, and each is there once though several proxies report it.
	problems []appv1.ProxyProblem
	// omitted reports whether there are more problems; "" if there are none. unlisted are then the listeners that name
	// something that may have one; "" is in place of a listener for what none names.
	omitted  string
	unlisted map[string]bool
}

// reportedProblems returns what proxies cannot use, except proxies that are about to end. A problem of something that
// the spec no longer names does not count: a proxy may report it a moment longer.
func reportedProblems(gateway *appv1.Gateway, proxies endpoints, reports reports) reported {
	named := namedSubjects(gateway)
	var problems []appv1.ProxyProblem
	isMade, omitted := proxypod.Parent(gateway) != "", ""
	for _, pod := range proxies.alive {
		omitted = cmp.Or(omitted, omittedBy(pod, reports[pod]))
		for _, problem := range reports[pod].Problems {
			if isMade && problem.Listener != "" {
				problem.Listener = anyListener
			}
			of := subject{problem.Listener, problem.Origin.Kind, problem.Origin.Name}
			switch problem.Reason {
			case appv1.ProblemInvalidUsersRef:
				of.kind = kindUsers
			case appv1.ProblemInvalidKeysRef:
				of.kind = kindKeys
			case appv1.ProblemInvalidRulesRef:
				of.kind = kindRules
			}
			if named[of] {
				delete(named, of)
				problems = append(problems, problem)
			}
		}
	}
	slices.SortFunc(problems, func(a, b appv1.ProxyProblem) int {
		return cmp.Or(-cmp.Compare(a.Origin.Kind, b.Origin.Kind), cmp.Compare(a.Listener, b.Listener), cmp.Compare(a.Origin.Name, b.Origin.Name))
	})
	all := reported{problems: problems}
	if omitted != "" && len(named) > 0 {
		all.omitted, all.unlisted = omitted, map[string]bool{}
		for of := range named {
			all.unlisted[of.listener] = true
		}
	}
	return all
}

// omittedBy returns a proxy's message that it has more problems than it lists, "" if it lists all.
func omittedBy(pod string, report appv1.GatewayProxyStatus) string {
	if report.OmittedProblems == 0 {
		return ""
	}
	return fmt.Sprintf("pod %s has %d more problems than its report lists: solve those that it lists", pod, report.OmittedProblems)
}

func reasonOf(problem appv1.ProxyProblem) string {
	switch problem.Reason {
	case appv1.ProblemInvalidCACertificateRef:
		return ReasonInvalidCACertificateRef
	case appv1.ProblemInvalidUsersRef:
		return ReasonInvalidUsersRef
	case appv1.ProblemInvalidKeysRef:
		return ReasonInvalidKeysRef
	case appv1.ProblemInvalidRulesRef:
		return ReasonInvalidRulesRef
	}
	return ReasonInvalidCertificateRef
}

// messageOf returns what the problem is with and where. The proxy's own words name the object.
func messageOf(problem appv1.ProxyProblem) string {
	switch {
	case problem.Reason == appv1.ProblemInvalidUsersRef, problem.Reason == appv1.ProblemInvalidKeysRef, problem.Reason == appv1.ProblemInvalidRulesRef:
		return "filters: " + problem.Message
	case problem.Listener == anyListener:
		return problem.Message
	case problem.Listener == "":
		return "backends: " + problem.Message
	}
	return fmt.Sprintf("listener %q: %s", problem.Listener, problem.Message)
}
