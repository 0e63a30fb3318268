package status

import (
	"fmt"
	"strings"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
	"gateway/internal/tree"
)

const (
	// maxRoutes is the most that the CRD allows in status.routes.
	maxRoutes = 64
	// maxRouteMessage keeps the status small: it has a message for each condition of each of those routes.
	maxRouteMessage = 500
)

// routeKey names a route of a Gateway: routes of different kinds may have the same name.
type routeKey struct{ kind, name string }

// filtersInShadow returns a phrase for each listener and rule with filters in shadow.
func filtersInShadow(gateway *appv1.Gateway, routes tree.Map[*model.Route]) []string {
	var all []string
	for i := range gateway.Spec.Listeners {
		if filters := source.FiltersOf(&gateway.Spec.Listeners[i], ""); len(filters.Shadow) > 0 {
			all = append(all, fmt.Sprintf("listener %q: %s", gateway.Spec.Listeners[i].Name, joined(filters.Shadow)))
		}
	}
	for route := range routes.Values() {
		for i := range route.Rules {
			if names := route.Rules[i].Shadow; len(names) > 0 {
				all = append(all, fmt.Sprintf("route %q rules[%d]: %s", route.Name, i, joined(names)))
			}
		}
	}
	return all
}

// joined returns names with commas between them.
func joined[T ~string](names []T) string {
	var texts []string
	for _, name := range names {
		texts = append(texts, string(name))
	}
	return strings.Join(texts, ", ")
}

// listenerStatuses are the statuses of all listeners, in the order of the spec. routes are the Gateway's translated
// routes, unresolved the Services that cannot be used, reported the problems of proxies.
func listenerStatuses(gateway *appv1.Gateway, routes tree.Map[*model.Route], unresolved []model.Problem, reported reported, at stamp) []appv1.ListenerStatus {
	attached := map[string]int32{}
	for route := range routes.Values() {
		if route.Name == "" {
			continue // a redirect of the listener's own
		}
		for _, listener := range route.Listeners {
			attached[listener]++
		}
	}
	type wrongRef struct{ reason, message string }
	wrong := map[string][]wrongRef{}
	for _, problem := range unresolved {
		wrong[problem.Listener] = append(wrong[problem.Listener], wrongRef{string(problem.Reason), problem.Message})
	}
	for _, problem := range reported.problems {
		wrong[problem.Listener] = append(wrong[problem.Listener], wrongRef{reasonOf(problem), problem.Message})
	}
	before := map[appv1.Name]appv1.ListenerStatus{}
	for _, old := range gateway.Status.Listeners {
		before[old.Name] = old
	}
	var statuses []appv1.ListenerStatus
	for i := range gateway.Spec.Listeners {
		name := gateway.Spec.Listeners[i].Name
		status := appv1.ListenerStatus{Name: name, AttachedRoutes: attached[string(name)]}
		if problems := wrong[string(name)]; len(problems) > 0 {
			var messages []string
			for _, problem := range problems {
				messages = append(messages, problem.message)
			}
			at.set(&status.Conditions, before[name].Conditions, isFalse(appv1.ConditionResolvedRefs, problems[0].reason, model.Cut(list(messages), maxRouteMessage)))
		} else if reported.unlisted[string(name)] {
			at.set(&status.Conditions, before[name].Conditions, unknownRefs(reported.omitted))
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// routeStatuses are the statuses of the first routes with a problem: parts without effect come before references. A
// route has one condition of each type, with the reason of the first problem.
func routeStatuses(gateway *appv1.Gateway, unaccepted, unresolved []model.Problem, at stamp) []appv1.RouteStatus {
	before := map[routeKey]appv1.RouteStatus{}
	for _, old := range gateway.Status.Routes {
		before[routeKey{old.Kind, string(old.Name)}] = old
	}
	var statuses []appv1.RouteStatus
	places := map[routeKey]int{}
	add := func(problems []model.Problem, kind string) {
		ofRoute := map[routeKey][]model.Problem{}
		var keys []routeKey
		for _, problem := range problems {
			key := routeKey{problem.RouteKind, problem.Route}
			if key.name == "" {
				continue
			}
			if ofRoute[key] == nil {
				keys = append(keys, key)
			}
			ofRoute[key] = append(ofRoute[key], problem)
		}
		for _, key := range keys {
			place, known := places[key]
			if !known {
				if len(statuses) == maxRoutes {
					continue
				}
				place = len(statuses)
				places[key] = place
				statuses = append(statuses, appv1.RouteStatus{Kind: key.kind, Name: appv1.Name(key.name)})
			}
			c := isFalse(kind, string(ofRoute[key][0].Reason), model.Cut(list(messagesOf(ofRoute[key])), maxRouteMessage))
			at.set(&statuses[place].Conditions, before[key].Conditions, c)
		}
	}
	add(unaccepted, appv1.ConditionAccepted)
	add(unresolved, appv1.ConditionResolvedRefs)
	return statuses
}

// summary counts the routes among problems and has the message of the first. Problems that are about no route follow.
// total is the number of the Gateway's routes.
func summary(problems []model.Problem, total int) []string {
	routes := map[routeKey]bool{}
	var first string
	var others []string
	for _, problem := range problems {
		switch key := (routeKey{problem.RouteKind, problem.Route}); {
		case key.name == "":
			others = append(others, problem.Message)
		case len(routes) == 0:
			first = problem.Message
			fallthrough
		default:
			routes[key] = true
		}
	}
	if len(routes) == 0 {
		return others
	}
	verb := "are"
	if len(routes) == 1 {
		verb = "is"
	}
	return append([]string{fmt.Sprintf("%d of %d routes %s not served in full, see status.routes: %s", len(routes), total, verb, first)}, others...)
}

func messagesOf(problems []model.Problem) []string {
	var messages []string
	for _, problem := range problems {
		messages = append(messages, problem.Message)
	}
	return messages
}

// called is the name of a kind of route, or of a listener, in messages.
var called = map[string]string{source.HTTPRoute: "route", source.TCPRoute: "TCP route", source.TLSRoute: "TLS route", source.Listener: "listener"}
