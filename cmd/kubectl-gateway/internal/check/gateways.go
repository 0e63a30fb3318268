package check

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// gateways looks at the status of the Gateways of a namespace.
func gateways(ctx context.Context, clients cli.Clients, namespace string) ([]Finding, error) {
	list, err := clients.Gateways.AppV1().Gateways(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case cli.IsUnknownKind(err):
		return nil, nil // the missing CRD was reported before
	case apierrors.IsForbidden(err):
		return []Finding{{
			Level: Wrong, About: "Gateways", Says: "you may not list them in " + where(namespace), Do: "Ask for that permission, or name a namespace with -n.",
		}}, nil
	case err != nil:
		return nil, fmt.Errorf("failed to list Gateways: %w", err)
	}
	findings, err := unserved(ctx, clients, namespace, list.Items)
	if err != nil {
		return nil, err
	}
	if len(list.Items)+len(findings) == 0 {
		return []Finding{{Level: OK, About: "Gateways", Says: "there are none in " + where(namespace)}}, nil
	}
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

// unserved returns the problems of the Gateways of the Gateway API for which the operator has made none of our own: no
// listener of them can be served, or nobody has their class. Whoever may not read classes learns nothing of them.
func unserved(ctx context.Context, clients cli.Clients, namespace string, own []appv1.Gateway) ([]Finding, error) {
	api := clients.Routes.GatewayV1()
	classes, err := api.GatewayClasses().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to list GatewayClasses: %w", err)
	}
	list, err := api.Gateways(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("failed to list Gateways of the Gateway API: %w", err)
	}
	var findings []Finding
	for i := range list.Items {
		gateway := &list.Items[i]
		if unknown := unknownClass(gateway, classes.Items); unknown != nil {
			findings = append(findings, *unknown)
			continue
		}
		isOurs := slices.ContainsFunc(classes.Items, func(c gatewayv1.GatewayClass) bool {
			return c.Name == string(gateway.Spec.GatewayClassName) && c.Spec.ControllerName == gatewayapi.ControllerName
		})
		isServed := slices.ContainsFunc(own, func(g appv1.Gateway) bool {
			return g.Namespace == gateway.Namespace && proxypod.Parent(&g) == gateway.Name
		})
		if isOurs && !isServed {
			findings = append(findings, examineUnserved(gateway)...)
		}
	}
	return findings, nil
}

// unknownClass returns that there is no GatewayClass of the name that a Gateway has; nil: there is.
func unknownClass(gateway *gatewayv1.Gateway, classes []gatewayv1.GatewayClass) *Finding {
	var names []string
	for i := range classes {
		names = append(names, classes[i].Name)
	}
	name := string(gateway.Spec.GatewayClassName)
	if slices.Contains(names, name) {
		return nil
	}
	do := "Install a GatewayClass, and name that."
	if near := cli.Nearest(name, names); near != "" {
		do = fmt.Sprintf("Correct spec.gatewayClassName: there is %s.", near)
	}
	return &Finding{
		Level: Wrong, About: fmt.Sprintf("Gateway %s/%s", gateway.Namespace, gateway.Name),
		Says: fmt.Sprintf("GatewayClass %s does not exist, so nothing serves the Gateway", name), Do: do,
	}
}

// examineUnserved returns why a Gateway of the Gateway API has no proxies.
func examineUnserved(gateway *gatewayv1.Gateway) []Finding {
	about := fmt.Sprintf("Gateway %s/%s", gateway.Namespace, gateway.Name)
	var findings []Finding
	for _, why := range cli.Unserved(gateway) {
		findings = append(findings, Finding{Level: Wrong, About: about, Says: why})
	}
	if len(findings) > 0 {
		return findings
	}
	return []Finding{{Level: Wrong, About: about, Says: "it has no proxies yet", Do: "Wait some seconds. If it stays, see its conditions, and the operator's log."}}
}

// attached returns the problems of the objects of the Gateway API that belong to a Gateway.
func attached(ctx context.Context, clients cli.Clients, gateway *appv1.Gateway) ([]Finding, error) {
	site, err := clients.Around(ctx, gateway)
	if err != nil {
		return nil, err
	}
	if !site.HasAttached() {
		return nil, nil
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
	site.EachAttached(func(kind string, object metav1.Object) {
		if refusal := refused(kind, object); refusal != nil {
			findings = append(findings, Finding{
				Level: Warning, About: fmt.Sprintf("%s %s/%s", kind, object.GetNamespace(), object.GetName()),
				Says: "the current CRDs of the Gateway API refuse it: " + refusal.Error(),
				Do:   "Correct it before you install them: then, no edit of it succeeds.",
			})
		}
	})
	table, _ := site.Compile()
	for _, doubt := range site.Doubts(table) {
		findings = append(findings, Finding{Level: Warning, About: about, Says: doubt.Message})
	}
	for _, problem := range site.AttachedProblems() {
		findings = append(findings, Finding{Level: Wrong, About: about, Says: problem.Message, Do: toDo(string(problem.Reason), gateway)})
	}
	return findings, nil
}

// refused returns why the current CRDs of the Gateway API refuse a route, nil if they do not. Older ones are not so
// strict.
func refused(kind string, route metav1.Object) error {
	if !gatewayapi.IsRoute(kind) {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(route)
	if err != nil {
		return fmt.Errorf("failed to read it: %w", err)
	}
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(schema.GroupVersion(gatewayv1.GroupVersion).WithKind(kind))
	return admission.Admit(object)
}

// Examine returns the problems of a Gateway, or that there are none.
func Examine(gateway *appv1.Gateway) []Finding {
	about := fmt.Sprintf("Gateway %s/%s", gateway.Namespace, gateway.Name)
	var findings []Finding
	for _, c := range cli.BadConditions(gateway) {
		if c.Type == "" {
			const do = "Wait some seconds. If it stays, see the operator's log. With the flag -namespace, it works in one namespace only."
			return []Finding{{Level: Wrong, About: about, Says: c.Message, Do: do}}
		}
		findings = append(findings, Finding{
			Level: Wrong, About: about, Says: fmt.Sprintf("%s is %s, %s: %s", c.Type, c.Status, c.Reason, c.Message),
			Details: parts(&gateway.Status, c.Type, c.Message), Do: toDo(c.Reason, gateway),
		})
	}
	for _, c := range gateway.Status.Conditions {
		isNoted := c.Type == appv1.ConditionShadow || c.Type == appv1.ConditionUnreachableRules || c.Reason == status.ReasonUnusedBackend || c.Reason == status.ReasonWithoutHTTP3 ||
			c.Reason == status.ReasonAddressNotAssigned && c.Type == appv1.ConditionProgrammed
		if isNoted && c.Status == metav1.ConditionTrue {
			findings = append(findings, Finding{Level: Warning, About: about, Says: c.Message})
		}
	}
	if wanted := cli.WantedReplicas(gateway); len(findings) == 0 && gateway.Status.ReadyReplicas < wanted {
		findings = append(findings, Finding{
			Level: Warning, About: about, Says: fmt.Sprintf("%d of %d proxies are ready", gateway.Status.ReadyReplicas, wanted), Do: toDo(status.ReasonNoReadyProxies, gateway),
		})
	}
	if len(findings) > 0 {
		return findings
	}
	return []Finding{{Level: OK, About: about, Says: fmt.Sprintf("generation %d is live in %s", gateway.Generation, proxies(gateway.Status.ReadyReplicas))}}
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

// toDo is what to do about a reason, "" if the message says it.
func toDo(reason string, gateway *appv1.Gateway) string {
	if reason != status.ReasonPending && reason != status.ReasonNoReadyProxies {
		return ""
	}
	return fmt.Sprintf("Wait. If it stays, see the pods: kubectl -n %s describe pods -l %s", gateway.Namespace, proxypod.PodSelector(gateway.Name))
}
