package routes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/logs"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

const (
	// maxLog bounds what is read of the log of a pod.
	maxLog = 16 << 20
	// readAtOnce bounds how many logs are read at the same time.
	readAtOnce = 16
	// manyErrors is the part of the requests that fail with which a route has a problem, as in the alert GatewayErrorRate.
	manyErrors = 0.05
)

// Traffic are the requests of a route, or its connections.
type Traffic struct {
	PerSecond float64 `json:"requestsPerSecond"`
	// Errors is the part of them that got 5xx, and P95 the time that 95 % of them took at most; nil: there were none.
	Errors *float64 `json:"errors,omitempty"`
	P95    *float64 `json:"p95Seconds,omitempty"`
}

// tally counts the requests of a route.
type tally struct {
	perSecond float64
	failed    int
	millis    []int64
}

func (t *tally) traffic() *Traffic {
	traffic := &Traffic{}
	if t == nil || len(t.millis) == 0 {
		return traffic
	}
	slices.Sort(t.millis)
	traffic.PerSecond = t.perSecond
	traffic.Errors = new(float64(t.failed) / float64(len(t.millis)))
	traffic.P95 = new(float64(t.millis[(len(t.millis)*95+99)/100-1]) / 1000)
	return traffic
}

// key is of a route in the access log of a Gateway.
type key struct {
	gateway       types.NamespacedName
	route         string
	isConnections bool
}

// measure adds the traffic to the routes. It returns what could not be read.
func measure(ctx context.Context, clients cli.Clients, routes []Route, since time.Duration) error {
	var pods []corev1.Pod
	var failures []error
	unknown := map[types.NamespacedName]bool{}
	for gateway := range gatewaysOf(routes) {
		list, err := clients.Core.Pods(gateway.Namespace).List(ctx, metav1.ListOptions{LabelSelector: proxypod.PodSelector(gatewayapi.DataPlaneName(gateway.Name)).String()})
		if err != nil {
			failures, unknown[gateway] = append(failures, fmt.Errorf("failed to list Pods of Gateway %s: %w", gateway, err)), true
			continue
		}
		pods = append(pods, list.Items...)
	}
	tallies, err := readLogs(ctx, clients, pods, since)
	for _, pod := range pods {
		if _, ok := tallies[pod.Name]; !ok && pod.Status.Phase == corev1.PodRunning {
			unknown[gatewayOf(&pod)] = true
		}
	}
	sums := add(pods, tallies)
	for i := range routes {
		route := &routes[i]
		sum := &tally{}
		isKnown := len(route.gateways) > 0
		for _, gateway := range route.gateways {
			gateway.Name = gatewayapi.DataPlaneName(gateway.Name)
			isKnown = isKnown && !unknown[gateway]
			if t := sums[key{gateway, route.log, route.isConnections}]; t != nil {
				sum.add(t)
			}
		}
		if isKnown {
			route.Traffic = sum.traffic()
		}
	}
	return errors.Join(append(failures, err)...)
}

func gatewaysOf(routes []Route) map[types.NamespacedName]bool {
	all := map[types.NamespacedName]bool{}
	for i := range routes {
		for _, gateway := range routes[i].gateways {
			gateway.Name = gatewayapi.DataPlaneName(gateway.Name)
			all[gateway] = true
		}
	}
	return all
}

func gatewayOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[proxypod.LabelGateway]}
}

func (t *tally) add(other *tally) {
	t.perSecond, t.failed, t.millis = t.perSecond+other.perSecond, t.failed+other.failed, append(t.millis, other.millis...)
}

// add adds up what pods of a Gateway have counted.
func add(pods []corev1.Pod, tallies map[string]map[key]*tally) map[key]*tally {
	sums := map[key]*tally{}
	for i := range pods {
		for k, t := range tallies[pods[i].Name] {
			if sums[k] == nil {
				sums[k] = &tally{}
			}
			sums[k].add(t)
		}
	}
	return sums
}

// readLogs counts the requests in the logs of pods, by the name of the pod. It returns why logs could not be read, too.
func readLogs(ctx context.Context, clients cli.Clients, pods []corev1.Pod, since time.Duration) (map[string]map[key]*tally, error) {
	all, errs := make([]map[key]*tally, len(pods)), make([]error, len(pods))
	slots := make(chan struct{}, readAtOnce)
	var reading sync.WaitGroup
	for i := range pods {
		reading.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			counted := map[key]*tally{}
			took, err := logs.Recent(ctx, clients.Core, &pods[i], since, maxLog, func(a logs.Access) {
				k := key{gatewayOf(&pods[i]), a.Route, a.Method == ""}
				if counted[k] == nil {
					counted[k] = &tally{}
				}
				counted[k].take(a)
			})
			if errs[i] = err; err == nil {
				all[i] = counted
			}
			for _, t := range counted {
				t.perSecond = float64(len(t.millis)) / took.Seconds()
			}
		})
	}
	reading.Wait()
	tallies := map[string]map[key]*tally{}
	for i := range pods {
		if all[i] != nil {
			tallies[pods[i].Name] = all[i]
		}
		if pods[i].Status.Phase != corev1.PodRunning {
			errs[i] = nil // it has no requests
		}
	}
	return tallies, errors.Join(errs...)
}

// take counts a request, or a connection. A client that goes away is no error of the route.
func (t *tally) take(a logs.Access) {
	isFailed := a.Status >= 500
	if a.Method == "" {
		isFailed = strings.HasPrefix(strings.ToUpper(a.Termination), "S")
	}
	if isFailed {
		t.failed++
	}
	t.millis = append(t.millis, max(a.MSTotal, 0))
}
