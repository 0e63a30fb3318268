package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/model"
	"gateway/internal/operator/apply"
	"gateway/internal/proxypod"
	"gateway/internal/tree"
)

// Observed is the state of everything around a Gateway. It is only read.
type Observed struct {
	// Routes are those that the spec was translated to, and Problems what keeps them from being served, from compiling
	// them.
	Routes   tree.Map[*model.Route]
	Problems []model.Problem
	// WithoutHTTP3 are the ports that have no HTTP/3 though the spec asks for it, with reasons.
	WithoutHTTP3 []string
	// Unreachable are the rules that get no requests.
	Unreachable []model.Problem
	// Backends are the Services named by routes that exist, by name.
	Backends map[string]*corev1.Service
	// Service is the Gateway's own Service; nil if it does not exist.
	Service *corev1.Service
	// Pods is what the Gateway's Deployment or DaemonSet says of the proxy pods.
	Pods Pods
	// Slices are the EndpointSlices of the Gateway's own Service.
	Slices []*discoveryv1.EndpointSlice
	// Refused is what the Gateway asks for and may not have.
	Refused []string
	// Reports are what carries the Gateway's label, whoever wrote it.
	Reports []*appv1.GatewayProxy
	// MayWatchCluster reports whether the proxies may watch all namespaces, if they are to.
	MayWatchCluster bool
	// Failure is what keeps the children from being as they should; nil if they are.
	Failure *ChildFailure
}

// Pods is the known state of the proxy pods, whoever creates them.
type Pods struct {
	// Wanted is how many there should be, and Existing how many there are.
	Wanted, Existing int32
	// Missing is why there are fewer than there should be, or none; "" if nothing is known.
	Missing string
}

// ChildFailure is the reason why a child is not as it should be.
type ChildFailure struct {
	// Reason is the reason of Programmed.
	Reason string
	// Message names the child and says what to do.
	Message string
}

func (o *Observed) service(name string) (*corev1.Service, bool) { return o.Backends[name], true }

// Compute returns the status that the Gateway should have. Its conditions are Accepted, ResolvedRefs, Programmed and
// Ready, in this order, Shadow if filters are in shadow, and UnreachableRules if rules get no requests. Conditions that
// change their status get the time now. The others keep the time in the Gateway's own status.
func Compute(gateway *appv1.Gateway, observed Observed, now time.Time) appv1.GatewayStatus {
	proxies := endpointsOf(observed.Slices)
	reports := reportsOf(gateway, proxies, observed.Reports)
	reported, unresolved := reportedProblems(gateway, proxies, reports), RefProblems(gateway, observed.service)
	// The API keeps whole seconds: finer ones would look like a change at the next comparison.
	at := stamp{gateway.Generation, metav1.NewTime(now.Truncate(time.Second))}
	status := appv1.GatewayStatus{
		ObservedGeneration: gateway.Generation,
		Listeners:          listenerStatuses(gateway, observed.Routes, unresolved, reported, at),
		Routes:             routeStatuses(gateway, observed.Problems, unresolved, at),
		Addresses:          addresses(gateway, observed.Service, proxies, reports),
		Replicas:           observed.Pods.Existing,
		ReadyReplicas:      int32(len(proxies.ready)), //nolint:gosec // the CRD allows 100 replicas
		Selector:           proxypod.PodSelector(gateway.Name).String(),
	}
	total := len(gateway.Spec.Routes) + len(gateway.Spec.TCPRoutes) + len(gateway.Spec.TLSRoutes)
	programmed := checkProgrammed(gateway, proxies, reports, observed)
	conditions := []condition{
		checkAccepted(observed.Refused, observed.Problems, messagesOf(UnusedBackends(gateway)), observed.WithoutHTTP3, total),
		checkRefs(unresolved, reported),
		programmed,
		asReady(programmed),
	}
	if shadow := filtersInShadow(gateway, observed.Routes); len(shadow) > 0 {
		conditions = append(conditions, isTrue(appv1.ConditionShadow, ReasonShadow, "what these would refuse is let through: "+list(shadow)))
	}
	if len(observed.Unreachable) > 0 {
		var rules []string
		for _, problem := range observed.Unreachable {
			rules = append(rules, fmt.Sprintf("%s %q: %s", called[problem.RouteKind], problem.Route, problem.Message))
		}
		conditions = append(conditions, isTrue(appv1.ConditionUnreachableRules, ReasonUnreachableRules, list(rules)))
	}
	if gateway.Spec.Watch == appv1.WatchCluster {
		conditions = append(conditions, checkClusterWatch(gateway, observed.MayWatchCluster, observed.Reports))
	}
	for _, c := range conditions {
		at.set(&status.Conditions, gateway.Status.Conditions, c)
	}
	return status
}

// checkClusterWatch reports whether the proxies watch all namespaces. Those of a Gateway without objects of the Gateway
// API watch their own in any case.
func checkClusterWatch(gateway *appv1.Gateway, mayWatch bool, reports []*appv1.GatewayProxy) condition {
	if !mayWatch {
		return isFalse(appv1.ConditionClusterWatch, ReasonNotAllowed, fmt.Sprintf("the proxies watch namespaces, because -cluster-watch-namespaces of "+
			"the operator does not have %s: ask the administrator to add it, or remove spec.watch", gateway.Namespace))
	}
	behind := 0
	for _, report := range reports {
		if report.Status.Gateway.UID == gateway.UID && report.Status.Watch != appv1.WatchCluster {
			behind++
		}
	}
	if behind > 0 && gateway.Status.Attachments != nil {
		return isFalse(appv1.ConditionClusterWatch, ReasonPending, fmt.Sprintf("%d proxies watch namespaces by now", behind))
	}
	return isTrue(appv1.ConditionClusterWatch, ReasonClusterWatch, "the proxies watch all namespaces")
}

// Changed reports whether the Gateway's status differs from computed in what the operator owns. Conditions of other
// types belong to others.
func Changed(gateway *appv1.Gateway, computed appv1.GatewayStatus) bool {
	live := gateway.Status
	live.Conditions, live.Attachments = nil, nil
	for _, c := range computed.Conditions {
		if old := meta.FindStatusCondition(gateway.Status.Conditions, c.Type); old != nil {
			live.Conditions = append(live.Conditions, *old)
		}
	}
	return !equality.Semantic.DeepEqual(live, computed)
}

// BecomesProgrammed reports whether computed is the first status by which every proxy runs a generation.
func BecomesProgrammed(gateway *appv1.Gateway, computed appv1.GatewayStatus) bool {
	isProgrammed := func(status appv1.GatewayStatus) bool {
		c := meta.FindStatusCondition(status.Conditions, appv1.ConditionProgrammed)
		return c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == gateway.Generation
	}
	return isProgrammed(computed) && !isProgrammed(gateway.Status)
}

// Warnings returns the computed conditions that need attention and that the Gateway's status does not have yet. They
// are False, and not merely on their way, or True for a remarkable reason, with a new reason or message. Ready is left
// out: it repeats Programmed.
func Warnings(gateway *appv1.Gateway, computed appv1.GatewayStatus) []metav1.Condition {
	var warnings []metav1.Condition
	for _, c := range computed.Conditions {
		if c.Type == appv1.ConditionReady || c.Status == metav1.ConditionTrue && !remarkable[c.Reason] || awaited[c.Reason] {
			continue
		}
		old := meta.FindStatusCondition(gateway.Status.Conditions, c.Type)
		if old == nil || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message {
			warnings = append(warnings, c)
		}
	}
	return warnings
}

// ApplyConfiguration turns a computed status into an apply configuration for proxypod.FieldManager. With the UID, the
// API server refuses it for another Gateway of the same name.
func ApplyConfiguration(gateway *appv1.Gateway, computed appv1.GatewayStatus) *applyappv1.GatewayApplyConfiguration {
	status := apply.From[applyappv1.GatewayStatusApplyConfiguration](computed).
		WithReplicas(computed.Replicas).
		WithReadyReplicas(computed.ReadyReplicas)
	return applyappv1.Gateway(gateway.Name, gateway.Namespace).WithUID(gateway.UID).WithStatus(status)
}
