package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxypod"
)

// advice is what to do about a condition with a reason, as docs/reference/conditions.md has it.
var advice = map[string]string{
	"UnusedBackend":              "Correct the name or port of the entry.",
	"NoMatchingListenerHostname": "Correct the hostnames of the route or the listener, or `listeners` of the route.",
	"NotAllowed":                 "Do without it, or have the operator's flag changed that the message names.",
	"UnsupportedValue":           "Do what the message says.",
	"BackendNotFound":            "Create it, or change the route.",
	"PortNotFound":               "Add the port, or change the route.",
	"UnsupportedBackend":         "Use a Service with endpoints of your application.",
	"UnsupportedProtocol":        "Change `appProtocol`, or add `tls`.",
	"InvalidCertificateRef":      "Correct the Secret. The message names it.",
	"InvalidCACertificateRef":    "Correct the ConfigMap.",
	"InvalidUsersRef":            "Correct the Secret. The message names it, and the lines.",
	"InvalidKeysRef":             "Correct the ConfigMap, or what the message says of the URL.",
	"TooManyProblems":            "Solve those that are reported: `kubectl get gatewayproxies -o yaml`.",
	"Pending":                    "Wait. If it stays, the message names the pod: see its events and the log of its container `agent`; or the child: see its finalizers.",
	"NoReadyProxies":             "Wait, or see the pods' events: `kubectl get pods -l app.example.com/gateway=NAME`.",
	"LoadFailed":                 "Do what the message says, such as freeing a port or space on the node's disk.",
	"ChildNotOwned":              "Rename or delete it, or choose another name for the Gateway.",
	"ApplyFailed":                "Do what the message says: a quota, a webhook, no free node port.",
}

// adviceIfTrue is what to do about a condition that is True for a reason that needs attention.
var adviceIfTrue = map[string]string{
	"UnusedBackend":      "Wait for the route, correct the entry, or remove it.",
	"AddressNotAssigned": "Look at the events of the Service, or set `spec.service.type` or `spec.service.address`.",
}

// gateways checks the status of the Gateways of a namespace.
func gateways(ctx context.Context, clients cli.Clients, namespace string) ([]Finding, error) {
	list, err := clients.Gateways.AppV1().Gateways(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case cli.IsUnknownKind(err):
		return nil, nil // the CRD is said to be missing already
	case apierrors.IsForbidden(err):
		return []Finding{{
			Level: Wrong, About: "Gateways", Says: "you may not list them in " + where(namespace), Do: "Ask for that permission, or name a namespace with -n.",
		}}, nil
	case err != nil:
		return nil, fmt.Errorf("failed to list Gateways: %w", err)
	case len(list.Items) == 0:
		return []Finding{{Level: OK, About: "Gateways", Says: "there are none in " + where(namespace)}}, nil
	}
	var findings []Finding
	for i := range list.Items {
		attached, err := attached(ctx, clients, &list.Items[i])
		if err != nil {
			return nil, err
		}
		findings = append(findings, Examine(&list.Items[i])...)
		for _, finding := range attached {
			// A policy that has no effect is seen from all Gateways.
			if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Says == finding.Says && f.About == finding.About }) {
				findings = append(findings, finding)
			}
		}
	}
	return findings, nil
}

// attached returns what is wrong with the objects of the Gateway API that belong to a Gateway.
func attached(ctx context.Context, clients cli.Clients, gateway *appv1.Gateway) ([]Finding, error) {
	if gateway.Status.Attachments == nil {
		return nil, nil
	}
	site, err := clients.Around(ctx, gateway)
	if err != nil {
		return nil, err
	}
	about := "Gateway " + site.Name()
	var findings []Finding
	for _, unread := range site.Unread {
		findings = append(findings, Finding{Level: Warning, About: about, Says: "not all is known of it: " + unread, Do: "Ask for a Role that allows it."})
	}
	for _, ignored := range site.Ignored {
		policy, says, _ := strings.Cut(ignored, ": ")
		findings = append(findings, Finding{Level: Wrong, About: policy, Says: says, Do: "Correct spec.targetRefs."})
	}
	_, problems := site.Compile()
	for _, problem := range problems {
		// What is wrong with the Gateway itself is in its status.
		if problem.Origin.Kind != "Gateway" || proxypod.Parent(gateway) != "" {
			findings = append(findings, Finding{Level: Wrong, About: about, Says: problem.Message, Do: toDo(advice, string(problem.Reason), gateway)})
		}
	}
	return findings, nil
}

// Examine returns what is wrong with a Gateway, or that nothing is.
func Examine(gateway *appv1.Gateway) []Finding {
	about := fmt.Sprintf("Gateway %s/%s", gateway.Namespace, gateway.Name)
	status := &gateway.Status
	if len(status.Conditions) == 0 {
		return []Finding{{
			Level: Wrong, About: about, Says: "no operator has looked at it",
			Do: "See the operator's log. With the flag -namespace, it works in one namespace only.",
		}}
	}
	var findings []Finding
	for _, kind := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs, appv1.ConditionProgrammed} {
		condition := meta.FindStatusCondition(status.Conditions, kind)
		switch {
		case condition == nil:
		case condition.ObservedGeneration != gateway.Generation:
			return []Finding{{
				Level: Wrong, About: about, Says: fmt.Sprintf("the operator has not looked at generation %d yet", gateway.Generation),
				Do: "Wait some seconds. If it stays, see the operator's log.",
			}}
		case condition.Status != metav1.ConditionTrue:
			findings = append(findings, Finding{
				Level: Wrong, About: about, Says: fmt.Sprintf("%s is %s, %s: %s", kind, condition.Status, condition.Reason, condition.Message),
				Details: parts(status, kind, condition.Message), Do: toDo(advice, condition.Reason, gateway),
			})
		case adviceIfTrue[condition.Reason] != "":
			findings = append(findings, Finding{Level: Warning, About: about, Says: condition.Message, Do: toDo(adviceIfTrue, condition.Reason, gateway)})
		}
	}
	if wanted := cli.WantedReplicas(gateway); len(findings) == 0 && status.ReadyReplicas < wanted {
		findings = append(findings, Finding{
			Level: Warning, About: about, Says: fmt.Sprintf("%d of %d proxies are ready", status.ReadyReplicas, wanted), Do: toDo(advice, "NoReadyProxies", gateway),
		})
	}
	if len(findings) > 0 {
		return findings
	}
	return []Finding{{Level: OK, About: about, Says: fmt.Sprintf("generation %d is live in %s", gateway.Generation, proxies(status.ReadyReplicas))}}
}

func proxies(count int32) string {
	if count == 1 {
		return "1 proxy"
	}
	return fmt.Sprintf("%d proxies", count)
}

// parts are the listeners and routes that a condition of the Gateway counts, except those whose message it has.
func parts(status *appv1.GatewayStatus, kind, message string) []string {
	var details []string
	add := func(name string, conditions []metav1.Condition) {
		condition := meta.FindStatusCondition(conditions, kind)
		if condition != nil && condition.Status != metav1.ConditionTrue && !strings.Contains(message, condition.Message) {
			details = append(details, fmt.Sprintf("%s: %s", name, condition.Message))
		}
	}
	for _, listener := range status.Listeners {
		add("listener "+string(listener.Name), listener.Conditions)
	}
	for _, route := range status.Routes {
		add(fmt.Sprintf("%s %s", route.Kind, route.Name), route.Conditions)
	}
	return details
}

// toDo is what to do about a reason, for a Gateway.
func toDo(words map[string]string, reason string, gateway *appv1.Gateway) string {
	do := words[reason]
	if do == "" {
		do = "See docs/reference/conditions.md."
	}
	selector := proxypod.PodSelector(gateway.Name).String()
	do = strings.ReplaceAll(do, "kubectl get pods -l app.example.com/gateway=NAME", fmt.Sprintf("kubectl -n %s get pods -l %s", gateway.Namespace, selector))
	return strings.ReplaceAll(do, "`", "")
}
