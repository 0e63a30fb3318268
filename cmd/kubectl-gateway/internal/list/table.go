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
	images := map[string]string{}
	if c.wide {
		var err error
		if images, err = c.images(ctx, gateways); err != nil {
			return nil, err
		}
	}
	table := &metav1.Table{ColumnDefinitions: definitions}
	if c.all {
		table.ColumnDefinitions = append([]metav1.TableColumnDefinition{{Name: "Namespace", Type: "string"}}, definitions...)
	}
	for i := range gateways {
		cells := row(&gateways[i], images[gateways[i].Namespace+"/"+gateways[i].Name], c.wide, time.Now())
		if c.all {
			cells = append([]any{gateways[i].Namespace}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table, nil
}

// images returns the images of the Gateways' proxy pods, as their Deployments have them.
func (c *command) images(ctx context.Context, gateways []appv1.Gateway) (map[string]string, error) {
	options := metav1.ListOptions{LabelSelector: proxypod.LabelGateway}
	if len(gateways) == 1 {
		options.LabelSelector = proxypod.PodSelector(gateways[0].Name).String()
	}
	images := map[string]string{}
	deployments, err := c.clients.Core.AppsV1().Deployments(c.namespace).List(ctx, options)
	if apierrors.IsForbidden(err) {
		for i := range gateways {
			images[gateways[i].Namespace+"/"+gateways[i].Name] = "<not allowed>"
		}
		return images, nil
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

func row(gateway *appv1.Gateway, images string, wide bool, now time.Time) []any {
	spec, status := &gateway.Spec, &gateway.Status
	wanted := int32(2) // the schema's default
	if spec.Replicas != nil {
		wanted = *spec.Replicas
	}
	address := "<none>"
	switch {
	case len(status.Addresses) > 0:
		address = status.Addresses[0].Value
	case cmp.Or(spec.Service.Type, corev1.ServiceTypeLoadBalancer) == corev1.ServiceTypeLoadBalancer:
		address = "<pending>" // as kubectl says it of a Service
	}
	problem := Problem(gateway)
	if !wide && len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "..."
	}
	return []any{
		gateway.Name, listeners(spec), int64(len(spec.Routes) + len(spec.TCPRoutes) + len(spec.TLSRoutes)), address,
		fmt.Sprintf("%d/%d", status.ReadyReplicas, wanted), programmed(gateway), duration.HumanDuration(now.Sub(gateway.CreationTimestamp.Time)),
		gateway.Generation, proxies(status), images, problem,
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

// proxies says which generation each pod runs.
func proxies(status *appv1.GatewayStatus) string {
	var all []string
	for _, proxy := range status.Proxies {
		all = append(all, fmt.Sprintf("%s=%d", proxy.Pod, proxy.ObservedGeneration))
	}
	return strings.Join(all, ",")
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
	for _, proxy := range gateway.Status.Proxies {
		if said := strings.Join(problems, "; "); proxy.Message != "" && !strings.Contains(said, proxy.Message) {
			problems = append(problems, fmt.Sprintf("pod %s: %s", proxy.Pod, proxy.Message))
		}
	}
	return strings.Join(problems, "; ")
}
