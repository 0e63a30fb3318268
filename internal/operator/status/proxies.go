package status

import (
	"fmt"
	"maps"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	appv1 "gateway/api/app/v1"
)

// endpoints are the proxies of a Gateway as its Service sees them, by the names of their pods, sorted and unique.
type endpoints struct {
	// ready receive traffic.
	ready []string
	// alive are not terminating.
	alive []string
}

func endpointsOf(endpointSlices []*discoveryv1.EndpointSlice) endpoints {
	var found endpoints
	for _, slice := range endpointSlices {
		for _, endpoint := range slice.Endpoints {
			name := endpointName(endpoint)
			if name == "" {
				continue
			}
			// "A nil value should be interpreted as true" for ready, and as false for terminating.
			if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
				found.ready = append(found.ready, name)
			}
			if endpoint.Conditions.Terminating == nil || !*endpoint.Conditions.Terminating {
				found.alive = append(found.alive, name)
			}
		}
	}
	// A pod is in several slices when the Service has several address families.
	found.ready = sortedUnique(found.ready)
	found.alive = sortedUnique(found.alive)
	return found
}

// endpointName is the pod's name. Endpoints that no controller made have none. They count by their address, because
// they receive traffic and will never report.
func endpointName(endpoint discoveryv1.Endpoint) string {
	if endpoint.TargetRef != nil && endpoint.TargetRef.Kind == "Pod" {
		return endpoint.TargetRef.Name
	}
	if len(endpoint.Addresses) > 0 {
		return endpoint.Addresses[0]
	}
	return ""
}

func sortedUnique(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// reports are what proxies report, by the names of their pods.
type reports map[string]appv1.GatewayProxyStatus

// reportsOf returns the reports that count: from endpoints of the Gateway's Service. A pod that serves another Gateway
// of the name runs no generation of this one.
func reportsOf(gateway *appv1.Gateway, proxies endpoints, all []*appv1.GatewayProxy) reports {
	counted := reports{}
	for _, report := range all {
		switch {
		case !slices.Contains(proxies.alive, report.Name):
		case report.Status.Gateway.Name != gateway.Name || report.Status.Gateway.UID != gateway.UID:
			counted[report.Name] = appv1.GatewayProxyStatus{}
		default:
			counted[report.Name] = report.Status
		}
	}
	return counted
}

// SaysTheSame reports whether two reports of a proxy differ in nothing that the status of a Gateway of our own depends
// on: after an edit of a route or ListenerSet, they differ in versions alone.
func SaysTheSame(old, updated any) bool {
	before, after := old.(*appv1.GatewayProxy), updated.(*appv1.GatewayProxy)
	was, is := before.Status, after.Status
	for _, report := range []*appv1.GatewayProxyStatus{&was, &is} {
		report.ResourceVersion, report.Resources = "", nil
	}
	return before.UID == after.UID && maps.Equal(before.Labels, after.Labels) && equality.Semantic.DeepEqual(was, is)
}

// problemOf is the problem that keeps a proxy from running a generation, nil if it reports none.
func problemOf(report appv1.GatewayProxyStatus) *appv1.ProxyProblem {
	i := slices.IndexFunc(report.Problems, func(problem appv1.ProxyProblem) bool { return problem.Origin.Kind == kindGateway })
	if i < 0 {
		return nil
	}
	return &report.Problems[i]
}

// describe is the message of a problem, with the generation if that is not the newest.
func describe(gateway *appv1.Gateway, problem *appv1.ProxyProblem) string {
	if problem.Origin.Generation != gateway.Generation {
		return fmt.Sprintf("generation %d: %s", problem.Origin.Generation, problem.Message)
	}
	return problem.Message
}

// checkProgrammed compares what the ready proxies report with the generation of the Gateway. One that is not ready and
// has reported counts, too: it may become ready at any moment, and an agent makes its pod ready only once its report
// was taken in (see probes.confirm in internal/agent). A failed child comes first: it may be the reason for everything
// else.
func checkProgrammed(gateway *appv1.Gateway, proxies endpoints, reports reports, observed Observed) condition {
	if observed.Failure != nil {
		return isFalse(appv1.ConditionProgrammed, observed.Failure.Reason, observed.Failure.Message)
	}
	if len(observed.Refused) > 0 {
		return isFalse(appv1.ConditionProgrammed, ReasonNotAllowed, "the Service or the pods are not as the spec says: see Accepted")
	}
	ready, missing := len(proxies.ready), observed.Pods.Missing
	if missing != "" {
		missing = "; " + missing
	}
	if ready == 0 {
		why := whyNoneReady(gateway, proxies, reports, observed.Pods.Wanted)
		return isFalse(appv1.ConditionProgrammed, ReasonNoReadyProxies, why+missing)
	}
	current, failed, waiting := 0, "", ""
	for _, pod := range proxies.ready {
		problem := problemOf(reports[pod])
		switch {
		case reports[pod].ObservedGeneration == gateway.Generation:
			current++
		case problem == nil:
		case problem.Reason == appv1.ProblemAwaitingReplacement || problem.Origin.Generation != gateway.Generation:
			waiting = fmt.Sprintf("; pod %s: %s", pod, describe(gateway, problem))
		case failed == "":
			failed = fmt.Sprintf("; pod %s: %s", pod, describe(gateway, problem))
		}
	}
	message := fmt.Sprintf("%d of %d ready proxies run generation %d", current, ready, gateway.Generation)
	behind := lagging(gateway, proxies, reports)
	switch {
	case current == ready && behind == "" && lacksAddress(gateway, observed.Service):
		return programmedBut(message, gateway, observed.Service)
	case current == ready && behind == "":
		return isTrue(appv1.ConditionProgrammed, ReasonProgrammed, message)
	case current == ready:
		return isFalse(appv1.ConditionProgrammed, ReasonPending, message+"; "+behind+missing)
	case failed != "":
		return isFalse(appv1.ConditionProgrammed, ReasonLoadFailed, message+failed)
	}
	return isFalse(appv1.ConditionProgrammed, ReasonPending, message+waiting+missing)
}

// lagging names a proxy that is not ready and may become so with an older generation, "" if there is none.
func lagging(gateway *appv1.Gateway, proxies endpoints, reports reports) string {
	for _, pod := range proxies.alive {
		report, reported := reports[pod]
		if reported && report.ObservedGeneration != gateway.Generation && !slices.Contains(proxies.ready, pod) {
			what := fmt.Sprintf("pod %s, which is not ready, runs generation %d", pod, report.ObservedGeneration)
			if problem := problemOf(report); problem != nil {
				what += ": " + describe(gateway, problem)
			}
			return what
		}
	}
	return ""
}

func whyNoneReady(gateway *appv1.Gateway, proxies endpoints, reports reports, wanted int32) string {
	message := fmt.Sprintf("0 of %d proxies are ready", wanted)
	for _, pod := range proxies.alive {
		if problem := problemOf(reports[pod]); problem != nil {
			return fmt.Sprintf("%s; pod %s: %s", message, pod, describe(gateway, problem))
		}
	}
	return message
}
