package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// The reasons of the condition Accepted. With several problems, the reason is the first one's.
const (
	// ReasonAccepted: every route in the spec is served.
	ReasonAccepted = "Accepted"
	// ReasonNotAllowed: the administrator has forbidden something in spec.service or spec.pods by a flag of the operator.
	// The Service or the pods stay as they are, and Programmed is False for the same reason.
	ReasonNotAllowed = "NotAllowed"
	// ReasonWithoutHTTP3: spec.http3 asks for HTTP/3, and a port does not have it. The condition is True if every route is
	// served.
	ReasonWithoutHTTP3 = "WithoutHTTP3"
	// ReasonUnusedBackend: no route refers to the Service port of an entry in spec.backends, which may be there ahead of
	// its route, or have a typo. The condition is True if every route is served. It is False if the entry has tls and may
	// be meant for a Service port that a route refers to: nothing is sent there.
	ReasonUnusedBackend = "UnusedBackend"
	// ReasonNoMatchingListenerHostname: a route names hostnames that none of its listeners takes. The other routes are
	// served.
	ReasonNoMatchingListenerHostname = "NoMatchingListenerHostname"
	// ReasonUnsupportedValue: a rule asks for something that cannot be done, like a regular expression that is none. The
	// rest of the route is served.
	ReasonUnsupportedValue = "UnsupportedValue"
)

// The reasons of the condition ResolvedRefs. With several problems, the reason is the first one's.
const (
	// ReasonResolvedRefs: everything that is named exists and can be used, as far as the proxies have reported.
	ReasonResolvedRefs = "ResolvedRefs"
	// ReasonBackendNotFound: a Service does not exist. Its share of the requests is answered with 500.
	ReasonBackendNotFound = "BackendNotFound"
	// ReasonPortNotFound: a Service exists, but has no such TCP port. Its share of the requests is answered with 500.
	ReasonPortNotFound = "PortNotFound"
	// ReasonUnsupportedBackend: a Service is of type ExternalName, which would make the proxies reach what its author may
	// not, or selects proxies, which would be a loop. Its share of the requests is answered with 500.
	ReasonUnsupportedBackend = "UnsupportedBackend"
	// ReasonUnsupportedProtocol: the appProtocol of a Service's port is one that the proxies do not speak, or says TLS and
	// spec.backends does not say how. The Service's share of the requests is answered with 500.
	ReasonUnsupportedProtocol = "UnsupportedProtocol"
	// ReasonInvalidCertificateRef: the certificate of a Secret cannot be used. A proxy leaves it out, and a listener that
	// has no other; everything else is served.
	ReasonInvalidCertificateRef = "InvalidCertificateRef"
	// ReasonInvalidCACertificateRef: the certificates of a ConfigMap cannot be used. A listener that checks its clients by
	// them is not served; requests for a backend that is checked by them are answered with 500.
	ReasonInvalidCACertificateRef = "InvalidCACertificateRef"
	// ReasonInvalidUsersRef: a Secret with users or API keys does not exist, or some or all of them cannot be used.
	ReasonInvalidUsersRef = "InvalidUsersRef"
	// ReasonInvalidKeysRef: a ConfigMap with keys of tokens does not exist, or its keys cannot be used.
	ReasonInvalidKeysRef = "InvalidKeysRef"
	// ReasonInvalidRulesRef: a ConfigMap with rules of a WAF does not exist, or its rules cannot be used. Or a WAF leaves
	// out a rule that there is not.
	ReasonInvalidRulesRef = "InvalidRulesRef"
	// ReasonTooManyProblems: a proxy has more problems than its report lists. The condition is Unknown: what is named may
	// be among them.
	ReasonTooManyProblems = "TooManyProblems"
)

// The reasons of the condition Programmed.
const (
	// ReasonProgrammed: every proxy that receives traffic runs the generation in the condition's observedGeneration.
	ReasonProgrammed = "Programmed"
	// ReasonAddressNotAssigned: the same, and the Service's load balancer has no address yet, or the Service does not
	// have the one in spec.service.address.
	ReasonAddressNotAssigned = "AddressNotAssigned"
	// ReasonPending: a proxy that receives traffic does not run this generation yet, or a child of a deleted Gateway of
	// the same name is still there.
	ReasonPending = "Pending"
	// ReasonNoReadyProxies: no proxy receives traffic.
	ReasonNoReadyProxies = "NoReadyProxies"
	// ReasonLoadFailed: a proxy that receives traffic could not load this generation; it goes on with an older one.
	ReasonLoadFailed = "LoadFailed"
	// ReasonChildNotOwned: an object has the name of one of the Gateway's children and belongs to someone else. It is left
	// alone, and what it stands in the way of is missing.
	ReasonChildNotOwned = "ChildNotOwned"
	// ReasonApplyFailed: the API server refused one of the Gateway's children, or failed at it, as when no node port is
	// left or a webhook does not answer.
	ReasonApplyFailed = "ApplyFailed"
)

// The reasons of the condition Shadow.
const (
	// ReasonShadow: filters in shadow let through what they would refuse.
	ReasonShadow = "Shadow"
)

// The reasons of the condition UnreachableRules.
const (
	// ReasonUnreachableRules: rules get no requests, since others that come first match all of them.
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
