package list

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/proxypod"
)

// maxProblem is how much of a problem there is room for in a table that is not wide.
const maxProblem = 100

// definitions are the columns; those of priority 1 are for wide tables.
var definitions = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string"}, {Name: "Listeners", Type: "string"}, {Name: "Routes", Type: "integer"}, {Name: "Address", Type: "string"},
	{Name: "Ready", Type: "string"}, {Name: "Programmed", Type: "string"}, {Name: "Age", Type: "string"},
	{Name: "Generation", Type: "integer", Priority: 1}, {Name: "Proxies", Type: "string", Priority: 1}, {Name: "Images", Type: "string", Priority: 1},
	{Name: "Problem", Type: "string"},
}

// table returns the rows of Gateways.
func (c *command) table(ctx context.Context, gateways []appv1.Gateway) (*metav1.Table, error) {
	if len(c.columns) > 0 {
		return customTable(c.columns, gateways)
	}
	images, proxies := map[string]string{}, map[string]string{}
	if c.wide {
		var err error
		if images, err = c.images(ctx, gateways); err != nil {
			return nil, err
		}
		if proxies, err = c.proxies(ctx, gateways); err != nil {
			return nil, err
		}
	}
	table := &metav1.Table{ColumnDefinitions: definitions}
	if c.all {
		table.ColumnDefinitions = append([]metav1.TableColumnDefinition{{Name: "Namespace", Type: "string"}}, definitions...)
	}
	for i := range gateways {
		routes, err := c.routes(ctx, &gateways[i])
		if err != nil {
			return nil, err
		}
		cells := c.row(&gateways[i], routes, proxies[key(&gateways[i])], images[key(&gateways[i])], time.Now())
		if c.all {
			cells = append([]any{gateways[i].Namespace}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table, nil
}

func key(gateway *appv1.Gateway) string { return gateway.Namespace + "/" + gateway.Name }

// labelled selects what carries the label of the Gateways.
func labelled(gateways []appv1.Gateway) metav1.ListOptions {
	if len(gateways) == 1 {
		return metav1.ListOptions{LabelSelector: proxypod.PodSelector(gateways[0].Name).String()}
	}
	return metav1.ListOptions{LabelSelector: proxypod.LabelGateway}
}

// notAllowed is what there is to show of each Gateway to who may not read it.
func notAllowed(gateways []appv1.Gateway) map[string]string {
	cells := map[string]string{}
	for i := range gateways {
		cells[key(&gateways[i])] = "<not allowed>"
	}
	return cells
}

// proxies returns which generation each proxy pod of the Gateways runs, and why not a newer one.
func (c *command) proxies(ctx context.Context, gateways []appv1.Gateway) (map[string]string, error) {
	reports, err := c.clients.Gateways.AppV1().GatewayProxies(c.namespace).List(ctx, labelled(gateways))
	if apierrors.IsForbidden(err) {
		return notAllowed(gateways), nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to list GatewayProxies: %w", err)
	}
	all := map[string][]string{}
	for i := range reports.Items {
		report := &reports.Items[i]
		cell := fmt.Sprintf("%s=%d", report.Name, report.Status.ObservedGeneration)
		if problems := report.Status.Problems; len(problems) > 0 {
			cell += fmt.Sprintf(" (%s)", problems[0].Reason)
		}
		gateway := report.Namespace + "/" + report.Labels[proxypod.LabelGateway]
		all[gateway] = append(all[gateway], cell)
	}
	cells := map[string]string{}
	for gateway, pods := range all {
		cells[gateway] = strings.Join(pods, ",")
	}
	return cells, nil
}

// images returns the images of the Gateways' proxy pods, as their Deployments have them.
func (c *command) images(ctx context.Context, gateways []appv1.Gateway) (map[string]string, error) {
	images := map[string]string{}
	deployments, err := c.clients.Apps.Deployments(c.namespace).List(ctx, labelled(gateways))
	if apierrors.IsForbidden(err) {
		return notAllowed(gateways), nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to list Deployments: %w", err)
	}
	for i := range deployments.Items {
		deployment := &deployments.Items[i]
		gateway := deployment.Labels[proxypod.LabelGateway]
		if deployment.Name != proxypod.ChildName(gateway) {
			continue
		}
		var names []string
		for _, container := range deployment.Spec.Template.Spec.InitContainers {
			names = append(names, container.Image)
		}
		for _, container := range deployment.Spec.Template.Spec.Containers {
			names = append(names, container.Image)
		}
		images[deployment.Namespace+"/"+gateway] = strings.Join(slices.Compact(names), ",")
	}
	return images, nil
}

// routes returns how many routes a Gateway has, with those of the Gateway API that belong to it.
func (c *command) routes(ctx context.Context, gateway *appv1.Gateway) (any, error) {
	count := int64(len(gateway.Spec.Routes) + len(gateway.Spec.TCPRoutes) + len(gateway.Spec.TLSRoutes))
	if gateway.Status.Attachments == nil {
		return count, nil
	}
	site, err := c.clients.Attached(ctx, gateway)
	if err != nil {
		return nil, err
	}
	if err := site.Complete(); err != nil {
		c.Warn("%v", err)
		return "<unknown>", nil
	}
	for _, route := range site.Model().Routes {
		if route.Origin.Kind != "Gateway" {
			count++
		}
	}
	return count, nil
}

func (c *command) row(gateway *appv1.Gateway, routes any, proxies, images string, now time.Time) []any {
	spec, status := &gateway.Spec, &gateway.Status
	address := "<none>"
	switch {
	case len(status.Addresses) > 0:
		address = status.Addresses[0].Value
	case cmp.Or(spec.Service.Type, corev1.ServiceTypeLoadBalancer) == corev1.ServiceTypeLoadBalancer:
		address = "<pending>" // as kubectl says it of a Service
	}
	problem := Problem(gateway)
	if !c.wide && len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "..."
	}
	return []any{
		gateway.Name, listeners(spec), routes, address,
		fmt.Sprintf("%d/%d", status.ReadyReplicas, cli.WantedReplicas(gateway)), programmed(gateway), duration.HumanDuration(now.Sub(gateway.CreationTimestamp.Time)),
		gateway.Generation, proxies, images, problem,
	}
}

func listeners(spec *appv1.GatewaySpec) string {
	var names []string
	for _, listener := range spec.Listeners {
		names = append(names, fmt.Sprintf("%s:%d", listener.Protocol, listener.Port))
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ",")
}

// programmed is the condition, as far as it is about this generation.
func programmed(gateway *appv1.Gateway) string {
	condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
	if condition == nil || condition.ObservedGeneration != gateway.Generation {
		return string(metav1.ConditionUnknown)
	}
	return string(condition.Status)
}

// Problem says what is wrong with a Gateway, "" if nothing is.
func Problem(gateway *appv1.Gateway) string {
	if len(gateway.Status.Conditions) == 0 {
		return "no operator has looked at it"
	}
	var problems []string
	for _, kind := range []string{appv1.ConditionAccepted, appv1.ConditionResolvedRefs, appv1.ConditionProgrammed} {
		condition := meta.FindStatusCondition(gateway.Status.Conditions, kind)
		switch {
		case condition == nil:
		case condition.ObservedGeneration != gateway.Generation:
			return fmt.Sprintf("the operator has not looked at generation %d yet", gateway.Generation)
		case condition.Status != metav1.ConditionTrue:
			problems = append(problems, condition.Message)
		}
	}
	return strings.Join(problems, "; ")
}
