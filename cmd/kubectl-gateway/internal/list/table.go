package list

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
)

// maxProblem is the length of a problem on a terminal, in a table that is not wide.
const maxProblem = 100

// definitions are the columns; the one of priority 1 is for wide tables.
var definitions = []metav1.TableColumnDefinition{
	{Name: "Name", Type: "string"}, {Name: "Listeners", Type: "string"}, {Name: "Routes", Type: "integer"}, {Name: "Address", Type: "string"},
	{Name: "Ready", Type: "string"}, {Name: "Programmed", Type: "string"}, {Name: "Age", Type: "string"},
	{Name: "Generation", Type: "integer", Priority: 1}, {Name: "Problem", Type: "string"},
}

// item is a Gateway of the list.
type item struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Listeners []string `json:"listeners"`
	// Routes is nil if not all of them are known.
	Routes     *int64    `json:"routes"`
	Address    string    `json:"address,omitempty"`
	Ready      int32     `json:"readyReplicas"`
	Wanted     int32     `json:"replicas"`
	Programmed string    `json:"programmed"`
	Generation int64     `json:"generation"`
	Created    time.Time `json:"creationTimestamp"`
	Problems   []string  `json:"problems,omitempty"`

	isPending bool
}

// rows returns the known state of Gateways.
func (c *command) rows(ctx context.Context, gateways []appv1.Gateway) ([]item, error) {
	rows := make([]item, 0, len(gateways))
	for i := range gateways {
		routes, problems, err := c.attached(ctx, &gateways[i])
		if err != nil {
			return nil, err
		}
		rows = append(rows, newItem(&gateways[i], routes, problems))
	}
	return rows, nil
}

// table returns rows for people.
func (c *command) table(rows []item, now time.Time) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: definitions}
	if c.all {
		table.ColumnDefinitions = append([]metav1.TableColumnDefinition{{Name: "Namespace", Type: "string"}}, definitions...)
	}
	isCut := !c.isWide() && cli.IsTerminal(c.Out)
	for i := range rows {
		cells := rows[i].cells(isCut, now)
		if c.all {
			cells = append([]any{rows[i].Namespace}, cells...)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}

// attached returns how many routes a Gateway has, including attached routes of the Gateway API, and the problems of
// the latter.
func (c *command) attached(ctx context.Context, gateway *appv1.Gateway) (routes *int64, problems []string, err error) {
	count := int64(len(gateway.Spec.Routes) + len(gateway.Spec.TCPRoutes) + len(gateway.Spec.TLSRoutes))
	site, err := c.clients.Attached(ctx, gateway)
	if err != nil {
		return nil, nil, err
	}
	if !site.HasAttached() {
		return &count, nil, nil
	}
	if err := site.Complete(); err != nil {
		c.Warn("%v", err)
		return nil, nil, nil
	}
	for route := range site.Model().Routes.Values() {
		if route.Origin.Kind != "Gateway" {
			count++
		}
	}
	for _, problem := range site.AttachedProblems() {
		problems = append(problems, problem.Message)
	}
	return &count, problems, nil
}

func newItem(gateway *appv1.Gateway, routes *int64, problems []string) item {
	spec, status := &gateway.Spec, &gateway.Status
	if own := Problem(gateway); own != "" {
		problems = append([]string{own}, problems...)
	}
	row := item{
		Namespace: gateway.Namespace, Name: gateway.Name, Listeners: listeners(spec), Routes: routes, Ready: status.ReadyReplicas,
		Wanted: cli.WantedReplicas(gateway), Programmed: string(cli.Programmed(gateway)), Generation: gateway.Generation, Created: gateway.CreationTimestamp.Time, Problems: problems,
		isPending: cmp.Or(spec.Service.Type, corev1.ServiceTypeLoadBalancer) == corev1.ServiceTypeLoadBalancer,
	}
	if len(status.Addresses) > 0 {
		row.Address = status.Addresses[0].Value
	}
	return row
}

// cells returns the cells of a row. isCut shortens a long problem.
func (i item) cells(isCut bool, now time.Time) []any {
	address, routes, problem := i.Address, any("<unknown>"), strings.Join(i.Problems, "; ")
	switch {
	case address != "":
	case i.isPending:
		address = "<pending>" // as kubectl says it of a Service
	default:
		address = "<none>"
	}
	if i.Routes != nil {
		routes = *i.Routes
	}
	if isCut && len(problem) > maxProblem {
		problem = strings.ToValidUTF8(problem[:maxProblem], "") + "..."
	}
	return []any{
		i.Name, strings.Join(i.Listeners, ","), routes, address, fmt.Sprintf("%d/%d", i.Ready, i.Wanted), i.Programmed,
		duration.HumanDuration(now.Sub(i.Created)), i.Generation, problem,
	}
}

func listeners(spec *appv1.GatewaySpec) []string {
	names := []string{}
	for _, listener := range spec.Listeners {
		names = append(names, fmt.Sprintf("%s:%d", listener.Protocol, listener.Port))
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Problem returns the problems of a Gateway, "" if there are none.
func Problem(gateway *appv1.Gateway) string {
	var messages []string
	for _, condition := range cli.BadConditions(gateway) {
		messages = append(messages, condition.Message)
	}
	return strings.Join(messages, "; ")
}
