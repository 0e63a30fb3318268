package status

import (
	"fmt"
	"slices"
	"strings"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// endpoints are the proxies of a Gateway as its Service sees them, by the names of their pods, sorted and unique.
type endpoints struct {
	// all have an address, whether they are ready, not ready, or terminating.
	all []string
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
			found.all = append(found.all, name)
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
	found.all = sortedUnique(found.all)
	found.ready = sortedUnique(found.ready)
	found.alive = sortedUnique(found.alive)
	return found
}

// endpointName is the pod's name. Endpoints that someone made by hand have none; they count by their address, because they
// receive traffic, and will never report.
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

// checkProgrammed compares what the ready proxies report with the generation of the Gateway. One that is not ready and has
// reported counts, too: it may become ready at any moment, and an agent makes its pod ready only once its report was taken in
// (see probes.confirm in internal/agent). A failed child comes first: it may be the reason for everything else.
func checkProgrammed(gateway *appv1.Gateway, proxies endpoints, observed Observed) condition {
	if observed.Failure != nil {
		return childFailed(*observed.Failure)
	}
	if len(observed.Refused) > 0 {
		return childFailed(ChildFailure{ReasonNotAllowed, "the Service or the pods are not as the spec says: see Accepted"})
	}
	ready, missing := len(proxies.ready), whyPodsAreMissing(observed.Deployment)
	if ready == 0 {
		return noReadyProxies(whyNoneReady(gateway, proxies) + missing)
	}
	reports := map[string]appv1.ProxyStatus{}
	for _, report := range gateway.Status.Proxies {
		reports[report.Pod] = report
	}
	current, failed, waiting := 0, "", ""
	for _, pod := range proxies.ready {
		report := reports[pod]
		switch {
		case report.ObservedGeneration == gateway.Generation:
			current++
		case strings.HasSuffix(report.Message, proxypod.AwaitingReplacement), proxypod.AboutAnother(gateway.Generation, report.Message):
			waiting = fmt.Sprintf("; pod %s: %s", pod, report.Message)
		case report.Message != "" && failed == "":
			failed = fmt.Sprintf("; pod %s: %s", pod, report.Message)
		}
	}
	message := fmt.Sprintf("%d of %d ready proxies run generation %d", current, ready, gateway.Generation)
	behind := lagging(gateway, proxies)
	switch {
	case current == ready && behind == "" && isBalanced(observed.Service) && len(addresses(observed.Service)) == 0:
		return programmedBut(message, observed.Service)
	case current == ready && behind == "":
		return programmed(message)
	case current == ready:
		return pending(message + "; " + behind + missing)
	case failed != "":
		return loadFailed(message + failed)
	}
	return pending(message + waiting + missing)
}

// lagging names a proxy that is not ready and may become so with an older generation, "" if there is none.
func lagging(gateway *appv1.Gateway, proxies endpoints) string {
	for _, report := range gateway.Status.Proxies {
		if report.ObservedGeneration == gateway.Generation {
			continue
		}
		if !slices.Contains(proxies.ready, report.Pod) && slices.Contains(proxies.alive, report.Pod) {
			what := fmt.Sprintf("pod %s, which is not ready, runs generation %d", report.Pod, report.ObservedGeneration)
			if report.Message != "" {
				what += ": " + report.Message
			}
			return what
		}
	}
	return ""
}

func whyNoneReady(gateway *appv1.Gateway, proxies endpoints) string {
	wanted := len(proxies.alive)
	if gateway.Spec.Replicas != nil {
		wanted = int(*gateway.Spec.Replicas)
	}
	if wanted == 0 {
		return "spec.replicas is 0: no proxy is wanted"
	}
	message := fmt.Sprintf("0 of %d proxies are ready", wanted)
	for _, report := range gateway.Status.Proxies {
		if report.Message != "" && slices.Contains(proxies.alive, report.Pod) {
			return fmt.Sprintf("%s; pod %s: %s", message, report.Pod, report.Message)
		}
	}
	return message
}

// whyPodsAreMissing is what the Deployment says of pods that cannot be made, such as that a quota is used up, "" if they can.
func whyPodsAreMissing(deployment *k8sappsv1.Deployment) string {
	if deployment == nil {
		return ""
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == k8sappsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("; Deployment %s: %s", deployment.Name, c.Message)
		}
	}
	return ""
}

// maxGone bounds what one look at a Gateway asks of the API server.
const maxGone = 10

// GoneProxies returns the pods in status.proxies that do not exist any more, whose entries should be removed. A pod that
// has just started may report before its endpoint is seen. So nothing counts as gone until as many endpoints are alive
// as the Deployment has pods: then every pod is accounted for.
//
// Their names are taken for those of field managers, and are not to be trusted: whoever has the token of one proxy can write any. The names of a
// Deployment's pods are DNS labels. There are maxGone at most: where an entry stays, it was somebody else who wrote it, and where they go, the
// change makes for another look.
func GoneProxies(gateway *appv1.Gateway, observed Observed) []string {
	proxies := endpointsOf(observed.Slices)
	if observed.Deployment == nil || int(observed.Deployment.Status.Replicas) != len(proxies.alive) {
		return nil
	}
	var gone []string
	for _, report := range gateway.Status.Proxies {
		isName := len(validation.IsDNS1123Label(report.Pod)) == 0 && report.Pod != proxypod.FieldManager
		if isName && len(gone) < maxGone && !slices.Contains(proxies.all, report.Pod) {
			gone = append(gone, report.Pod)
		}
	}
	return gone
}
