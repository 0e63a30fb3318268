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
	"gateway/cmd/kubectl-gateway/internal/logs"
	"gateway/internal/routetrace"
)

const (
	// waited is how long answers are waited for at most, and moreWaited how long others after the last one: nobody without
	// rights in the Gateway's namespace knows how many pods there are.
	waited, moreWaited = 20 * time.Second, 3 * time.Second
	// pollInterval is how often Events are read, and nextInterval how often while requests end.
	pollInterval, nextInterval = 250 * time.Millisecond, time.Second
)

// routeKinds are the kinds of routes that may be asked about, by their names on the command line.
var routeKinds = map[string]string{"httproute": "HTTPRoute", "httproutes": "HTTPRoute", "grpcroute": "GRPCRoute", "grpcroutes": "GRPCRoute"}

// showOfRoute prints the requests of a route that are under way, or the next ones. It asks by an annotation, and the
// agents answer by Events.
func (c *command) showOfRoute(ctx context.Context, clients cli.Clients, namespace, kind, name string) error {
	r := &asking{clients: clients, kind: routeKinds[strings.ToLower(kind)], namespace: namespace, name: name}
	switch {
	case r.kind == "":
		return cli.Usagef("%q is no kind of route with requests: name a Gateway, httproute/NAME or grpcroute/NAME", kind)
	case len(c.routes) > 0:
		return cli.Usagef("--route needs the name of a Gateway")
	case c.next > routetrace.MaxRequests:
		return cli.Usagef("--next is %d at most with a route", routetrace.MaxRequests)
	case c.next > 0 && c.timeout > routetrace.MaxTime:
		return cli.Usagef("--timeout is %s at most with a route", routetrace.MaxTime)
	}
	r.question = routetrace.Question{ID: string(uuid.NewUUID()), Until: time.Now().Add(waited), OlderSeconds: int32(min(c.older.Seconds(), 1<<30))}
	if c.next > 0 {
		r.question.Until, r.question.OlderSeconds = time.Now().Add(c.timeout), 0
		r.question.Next, r.question.Wanted = c.next, c.wanted()
	}
	value, err := json.Marshal(r.question)
	if err != nil {
		return err
	}
	if _, err := routetrace.Parse(string(value)); err != nil {
		return cli.Usagef("what is asked for is too long: %v", err)
	}
	if err := r.annotate(ctx, new(string(value))); err != nil {
		return fmt.Errorf("failed to ask by an annotation of %s %s/%s: it takes the permission to patch it: %w", r.kind, namespace, name, err)
	}
	if c.next > 0 {
		err = c.showNextOfRoute(ctx, r)
	} else {
		err = c.showUnderWayOfRoute(ctx, r)
	}
	if err := r.annotate(context.WithoutCancel(ctx), nil); err != nil {
		c.Warn("the annotation %s stays, and has no effect: %v", routetrace.Annotation, err)
	}
	return err
}

// errUnanswered is returned if no agent has seen the question.
var errUnanswered = cli.Nof("no proxy has answered: see kubectl gateway routes for whether the route is live")

// showUnderWayOfRoute prints the requests of a route that are under way.
func (c *command) showUnderWayOfRoute(ctx context.Context, r *asking) error {
	var answers []routetrace.Answer
	last := time.Now()
	err := r.answers(ctx, min(c.timeout, waited), pollInterval, func(found []routetrace.Answer) bool {
		if len(found) > len(answers) {
			answers, last = found, time.Now()
		}
		return len(answers) > 0 && time.Since(last) >= moreWaited
	})
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
		return errUnanswered
	}
	c.Note("pods that have answered: %d", len(answers))
	return c.printUnderWay(all, "")
}

// showNextOfRoute prints the next requests of a route that end.
func (c *command) showNextOfRoute(ctx context.Context, r *asking) error {
	all, pods, read := []traced{}, map[string]bool{}, map[string]bool{}
	err := r.answers(ctx, c.timeout, nextInterval, func(found []routetrace.Answer) bool {
		var more []traced
		for _, answer := range found {
			if answer.Looked >= routetrace.MaxLooked && !read[answer.Pod] {
				c.Note("pod %s has looked at %d requests of the route, and looks at no more", answer.Pod, answer.Looked)
				read[answer.Pod] = true
			}
			pods[answer.Pod] = true
			for _, text := range answer.Ended {
				if one, ok := parseEnded(answer.Pod, text); ok && !read[answer.Pod+string(text)] {
					more, read[answer.Pod+string(text)] = append(more, one), true
				}
			}
		}
		slices.SortStableFunc(more, func(a, b traced) int { return a.Time.Compare(b.Time) })
		more = more[:min(len(more), c.next-len(all))]
		for _, one := range more {
			if c.output == "" {
				c.printTraced(one)
			}
		}
		all = append(all, more...)
		return len(all) == c.next
	})
	switch {
	case err != nil:
		return err
	case len(pods) == 0:
		return errUnanswered
	}
	if c.output != "" {
		if err := c.Print(c.output, map[string]any{"requests": all}); err != nil {
			return err
		}
	}
	if len(all) < c.next {
		return cli.Nof("%d of %d requests ended within %s in %d pods", len(all), c.next, c.timeout, len(pods))
	}
	return nil
}

// parseEnded reads a line of the access log that a pod tells.
func parseEnded(pod string, text []byte) (traced, bool) {
	var at struct{ Time time.Time }
	err := json.Unmarshal(text, &at)
	a, ok := logs.ParseAccess(string(text))
	return traced{Pod: pod, Time: at.Time, Access: a}, ok && err == nil
}

// wanted returns what chooses among the requests that end.
func (c *command) wanted() routetrace.Wanted {
	return routetrace.Wanted{Hosts: c.hosts, Path: c.path, Client: c.client, Headers: c.headers}
}

// asking is a question of a route.
type asking struct {
	clients               cli.Clients
	kind, namespace, name string
	question              routetrace.Question
}

// annotate sets the annotation of a route; nil: removes it.
func (r *asking) annotate(ctx context.Context, value *string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{routetrace.Annotation: value}}})
	if err != nil {
		return err
	}
	client := r.clients.Routes.GatewayV1()
	if r.kind == "GRPCRoute" {
		_, err = client.GRPCRoutes(r.namespace).Patch(ctx, r.name, types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = client.HTTPRoutes(r.namespace).Patch(ctx, r.name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	return err
}

// answers reads the answers of pods for some time, until take says that there are enough. It gets all there are.
func (r *asking) answers(ctx context.Context, timeout, interval time.Duration, take func([]routetrace.Answer) (enough bool)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	selector := fields.Set{"involvedObject.kind": r.kind, "involvedObject.name": r.name, "reason": routetrace.Reason}.String()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		events, err := r.clients.Core.Events(r.namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("failed to list Events: %w", err)
		}
		found := []routetrace.Answer{}
		for i := range events.Items {
			var answer routetrace.Answer
			if json.Unmarshal([]byte(events.Items[i].Message), &answer) == nil && answer.ID == r.question.ID {
				found = append(found, answer)
			}
		}
		if take(found) {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
