package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/routetrace"
)

const (
	// waited is how long answers are waited for at most, and moreWaited how long others after the last one: nobody without
	// rights in the Gateway's namespace knows how many pods there are.
	waited, moreWaited = 20 * time.Second, 3 * time.Second
	// pollInterval is how often Events are read.
	pollInterval = 250 * time.Millisecond
)

// routeKinds are those of routes that may be asked about, by what the command line calls them.
var routeKinds = map[string]string{"httproute": "HTTPRoute", "httproutes": "HTTPRoute", "grpcroute": "GRPCRoute", "grpcroutes": "GRPCRoute"}

// showOfRoute prints the requests of a route that are under way. It asks by an annotation, and the agents answer by
// Events.
func (c *command) showOfRoute(ctx context.Context, clients cli.Clients, namespace, kind, name string) error {
	of, ok := routeKinds[strings.ToLower(kind)]
	switch {
	case !ok:
		return cli.Usagef("%q is no kind of route with requests: name a Gateway, httproute/NAME or grpcroute/NAME", kind)
	case c.next > 0 || len(c.routes) > 0:
		return cli.Usagef("--next and --route need the name of a Gateway")
	}
	question := routetrace.Question{ID: string(uuid.NewUUID()), Until: time.Now().Add(waited), OlderSeconds: int32(min(c.older.Seconds(), 1<<30))}
	value, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if err := annotate(ctx, clients, of, namespace, name, new(string(value))); err != nil {
		return fmt.Errorf("failed to ask by an annotation of %s %s/%s: %w", of, namespace, name, err)
	}
	answers, err := c.answers(ctx, clients, of, namespace, name, question.ID)
	if err := annotate(context.WithoutCancel(ctx), clients, of, namespace, name, nil); err != nil {
		c.Warn("the annotation %s stays, and has no effect: %v", routetrace.Annotation, err)
	}
	if err != nil {
		return err
	}
	all, now := []underWay{}, time.Now()
	for _, answer := range answers {
		if answer.More > 0 {
			c.Note("pod %s has %d more, which are younger", answer.Pod, answer.More)
		}
		for _, request := range answer.Requests {
			if c.shows(request.Client, request.Host, request.Path, request.Rules) {
				all = append(all, underWay{answer.Pod, request.Request, max(now.Sub(request.Started).Seconds(), 0), request.Rules})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b underWay) int { return cmp.Compare(b.Seconds, a.Seconds) })
	if len(answers) == 0 {
		return cli.Nof("no proxy has answered: see kubectl gateway routes for whether the route is live")
	}
	c.Note("pods that have answered: %d", len(answers))
	return c.printUnderWay(all, "")
}

// annotate sets the annotation of a route; nil: removes it.
func annotate(ctx context.Context, clients cli.Clients, kind, namespace, name string, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{routetrace.Annotation: value}}})
	if err != nil {
		return err
	}
	if kind == "GRPCRoute" {
		_, err = clients.Routes.GatewayV1().GRPCRoutes(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = clients.Routes.GatewayV1().HTTPRoutes(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}

// answers returns the answers of pods to a question about a route, until no more come.
func (c *command) answers(ctx context.Context, clients cli.Clients, kind, namespace, name, id string) (all []routetrace.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, min(c.timeout, waited))
	defer cancel()
	selector := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name, "reason": routetrace.Reason}.String()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	last := time.Now()
	for {
		events, err := clients.Core.Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		switch {
		case ctx.Err() != nil:
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("failed to list Events: %w", err)
		}
		found := []routetrace.Answer{}
		for i := range events.Items {
			var answer routetrace.Answer
			if json.Unmarshal([]byte(events.Items[i].Message), &answer) == nil && answer.ID == id {
				found = append(found, answer)
			}
		}
		if len(found) > len(all) {
			all, last = found, time.Now()
		}
		if len(all) > 0 && time.Since(last) >= moreWaited {
			return all, nil
		}
		select {
		case <-ctx.Done():
			return all, nil
		case <-tick.C:
		}
	}
}
