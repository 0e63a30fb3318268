package list

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

// maxProblem is the length of a problem in a table that is not wide.
const maxProblem = 100

// definitions are the columns; the one of priority 1 is for wide tables.
var definitions = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string"}, {Name: "Listeners", Type: "string"}, {Name: "Routes", Type: "integer"}, {Name: "Address", Type: "string"},
	{Name: "Ready", Type: "string"}, {Name: "Programmed", Type: "string"}, {Name: "Age", Type: "string"},
	{Name: "Generation", Type: "integer", Priority: 1}, {Name: "Problem", Type: "string"},
}

// table returns the rows of Gateways.
func (c *command) table(ctx context.Context, gateways []appv1.Gateway) (*metav1.Table, error) {
	table := &metav1.Table{ColumnDefinitions: definitions}
	if c.all {
		table.ColumnDefinitions = append([]metav1.TableColumnDefinition{{Name: "Namespace", Type: "string"}}, definitions...)
	}
	for i := range gateways {
		routes, problems, err := c.attached(ctx, &gateways[i])
		if err != nil {
			return nil, err
		}
		cells := c.row(&gateways[i], routes, problems, time.Now())
		if c.all {
			cells = append([]any{gateways[i].Namespace}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table, nil
}

// attached returns how many routes a Gateway has, with those of the Gateway API that belong to it, and what is wrong
// with the latter.
func (c *command) attached(ctx context.Context, gateway *appv1.Gateway) (routes any, problems []string, err error) {
	count := int64(len(gateway.Spec.Routes) + len(gateway.Spec.TCPRoutes) + len(gateway.Spec.TLSRoutes))
	site, err := c.clients.Attached(ctx, gateway)
	if err != nil {
		return nil, nil, err
	}
	if !site.HasAttached() {
		return count, nil, nil
	}
	if err := site.Complete(); err != nil {
		c.Warn("%v", err)
		return "<unknown>", nil, nil
	}
	for route := range site.Model().Routes.Values() {
		if route.Origin.Kind != "Gateway" {
			count++
		}
	}
	for _, problem := range site.AttachedProblems() {
		problems = append(problems, problem.Message)
	}
	return count, problems, nil
}

func (c *command) row(gateway *appv1.Gateway, routes any, problems []string, now time.Time) []any {
	spec, status := &gateway.Spec, &gateway.Status
	address := "<none>"
	switch {
	case len(status.Addresses) > 0:
		address = status.Addresses[0].Value
	case cmp.Or(spec.Service.Type, corev1.ServiceTypeLoadBalancer) == corev1.ServiceTypeLoadBalancer:
		address = "<pending>" // as kubectl says it of a Service
	}
	if own := Problem(gateway); own != "" {
		problems = append([]string{own}, problems...)
	}
	problem := strings.Join(problems, "; ")
	if !c.isWide() && len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "..."
	}
	return []any{
		gateway.Name, listeners(spec), routes, address,
		fmt.Sprintf("%d/%d", status.ReadyReplicas, cli.WantedReplicas(gateway)), programmed(gateway), duration.HumanDuration(now.Sub(gateway.CreationTimestamp.Time)),
		gateway.Generation, problem,
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

// programmed is the condition Programmed, if it is about this generation.
func programmed(gateway *appv1.Gateway) string {
	condition := meta.FindStatusCondition(gateway.Status.Conditions, appv1.ConditionProgrammed)
	if condition == nil || condition.ObservedGeneration != gateway.Generation {
		return string(metav1.ConditionUnknown)
	}
	return string(condition.Status)
}

// Problem returns what is wrong with a Gateway, "" if nothing is.
func Problem(gateway *appv1.Gateway) string {
	var messages []string
	for _, condition := range cli.BadConditions(gateway) {
		messages = append(messages, condition.Message)
	}
	return strings.Join(messages, "; ")
}
