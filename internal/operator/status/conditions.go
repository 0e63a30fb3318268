package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// docs/reference/conditions.md describes the reasons. With several problems, the reason is the first problem's.

// The reasons of the condition Accepted.
const (
	ReasonAccepted                   = "Accepted"
	ReasonNotAllowed                 = "NotAllowed"
	ReasonWithoutHTTP3               = "WithoutHTTP3"
	ReasonUnusedBackend              = "UnusedBackend"
	ReasonNoMatchingListenerHostname = "NoMatchingListenerHostname"
	ReasonUnsupportedValue           = "UnsupportedValue"
)

// The reasons of the condition ResolvedRefs.
const (
	ReasonResolvedRefs            = "ResolvedRefs"
	ReasonBackendNotFound         = "BackendNotFound"
	ReasonPortNotFound            = "PortNotFound"
	ReasonUnsupportedBackend      = "UnsupportedBackend"
	ReasonUnsupportedProtocol     = "UnsupportedProtocol"
	ReasonInvalidCertificateRef   = "InvalidCertificateRef"
	ReasonInvalidCACertificateRef = "InvalidCACertificateRef"
	ReasonInvalidUsersRef         = "InvalidUsersRef"
	ReasonInvalidKeysRef          = "InvalidKeysRef"
	ReasonInvalidRulesRef         = "InvalidRulesRef"
	ReasonTooManyProblems         = "TooManyProblems"
)

// The reasons of the condition Programmed.
const (
	ReasonProgrammed         = "Programmed"
	ReasonAddressNotAssigned = "AddressNotAssigned"
	ReasonPending            = "Pending"
	ReasonNoReadyProxies     = "NoReadyProxies"
	ReasonLoadFailed         = "LoadFailed"
	ReasonChildNotOwned      = "ChildNotOwned"
	ReasonApplyFailed        = "ApplyFailed"
)

// The reasons of the conditions Shadow, UnreachableRules and ClusterWatch, beside NotAllowed and Pending.
const (
	ReasonClusterWatch     = "ClusterWatch"
	ReasonShadow           = "Shadow"
	ReasonUnreachableRules = "UnreachableRules"
)

// awaited are the reasons of conditions that are False on the way to True: nobody has to act.
var awaited = map[string]bool{ReasonPending: true, ReasonNoReadyProxies: true}

// remarkable are the reasons of conditions that are True and still need attention.
var remarkable = map[string]bool{ReasonUnusedBackend: true, ReasonWithoutHTTP3: true}

// condition is a metav1.Condition without the fields that stamp adds.
type condition struct {
	kind    string
	status  metav1.ConditionStatus
	reason  string
	message string
}

func isTrue(kind, reason, message string) condition {
	return condition{kind, metav1.ConditionTrue, reason, message}
}

func isFalse(kind, reason, message string) condition {
	return condition{kind, metav1.ConditionFalse, reason, message}
}

func unknownRefs(message string) condition {
	return condition{appv1.ConditionResolvedRefs, metav1.ConditionUnknown, ReasonTooManyProblems, message}
}

// programmedBut is Programmed for a Gateway whose address is still to come. The proxies do what the spec says.
func programmedBut(ready string, gateway *appv1.Gateway, service *corev1.Service) condition {
	message := fmt.Sprintf("%s; the load balancer of Service %s has no address yet: if it stays so, look at the events of the "+
		"Service, or set another spec.service.type", ready, service.Name)
	if address := gateway.Spec.Service.Address; address != "" {
		message = fmt.Sprintf("%s; Service %s does not have the address %s yet: if it stays so, look at the events of the Service, "+
			"or set another spec.service.address", ready, service.Name, address)
	}
	return isTrue(appv1.ConditionProgrammed, ReasonAddressNotAssigned, message)
}

// asReady copies Programmed as Ready. Without a condition Ready, kstatus and the tools built on it take an object for
// current as soon as the status is of its generation.
func asReady(programmed condition) condition {
	programmed.kind = appv1.ConditionReady
	return programmed
}

// stamp adds what all conditions of a status share: the Gateway's generation, and the time of those whose status
// changes.
type stamp struct {
	generation int64
	now        metav1.Time
}

// set adds c to conditions. old are the earlier conditions.
func (s stamp) set(conditions *[]metav1.Condition, old []metav1.Condition, c condition) {
	if before := meta.FindStatusCondition(old, c.kind); before != nil {
		*conditions = append(*conditions, *before)
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type: c.kind, Status: c.status, ObservedGeneration: s.generation, LastTransitionTime: s.now, Reason: c.reason,
		Message: model.Cut(c.message, model.MaxMessage),
	})
}
