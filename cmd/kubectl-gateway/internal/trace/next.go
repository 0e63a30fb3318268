package trace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/explain"
	"gateway/cmd/kubectl-gateway/internal/logs"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// errEnough ends following the logs.
var errEnough = errors.New("there are enough requests")

// traced is a request that has ended.
type traced struct {
	Pod  string    `json:"pod"`
	Time time.Time `json:"time"`
	logs.Access
	// Reason is why a filter stopped it, as explain has it; "" if it does not know.
	Reason string `json:"reason,omitempty"`
	// Differs is why explain expects something else; "" if it does not.
	Differs string `json:"differsFromExplain,omitempty"`
}

// expectation is what explain knows of the Gateway.
type expectation struct {
	site    *cli.Site
	table   routing.Table
	refused []model.Problem
}

// showNext prints the next requests that end.
func (c *command) showNext(ctx context.Context, core *corev1client.CoreV1Client, namespace, name string, want expectation) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	all, lacks := []traced{}, ""
	err := logs.Follow(ctx, core, namespace, name, func(pod string, at time.Time, a logs.Access) error {
		if a.Method == "" || !c.shows(a.Client, a.Host, a.Path, []string{a.Name()}) {
			return nil
		}
		for header, value := range c.headers {
			if got, isLogged := a.Headers[header]; !isLogged {
				lacks = header
				return nil
			} else if got != value {
				return nil
			}
		}
		one := traced{Pod: pod, Time: at.UTC(), Access: a}
		one.Reason, one.Differs = want.compare(a)
		if all = append(all, one); c.output == "" {
			c.printTraced(one)
		}
		if len(all) == c.next {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if c.output != "" {
		if err := c.Print(c.output, map[string]any{"requests": all}); err != nil {
			return err
		}
	}
	if lacks != "" {
		c.Warn("the access log does not have the header %s: name it in accessLog.requestHeaders", lacks)
	}
	if len(all) < c.next {
		return cli.Nof("%d of %d requests ended within %s", len(all), c.next, c.timeout)
	}
	return nil
}

// printTraced prints a request with all decisions about it.
func (c *command) printTraced(one traced) {
	a := one.Access
	line := func(label, format string, args ...any) { c.Say("  %-10s%s", label, fmt.Sprintf(format, args...)) }
	c.Say("%s  %d  %s", one.Time.Format("15:04:05.000"), a.Status, a.Request())
	line("client", "%s", a.Client)
	line("pod", "%s", one.Pod)
	line("rule", "%s", a.Name())
	if isStopped(a) {
		line("filter", "%s stopped it", a.Filter)
	}
	if one.Reason != "" {
		line("reason", "%s", one.Reason)
	}
	for _, filter := range slices.Sorted(maps.Keys(a.Shadow)) {
		line("shadow", "%s would have answered %d", filter, a.Shadow[filter])
	}
	if len(a.WAF) > 0 {
		line("waf", "%s", a.WAF)
	}
	if endpoint := a.Endpoint(); endpoint != "-" {
		line("endpoint", "%s, retries: %s", endpoint, a.Retries)
	}
	var times []string
	for _, part := range []struct {
		name   string
		millis int64
	}{{"headers", a.MSRequest}, {"queue", a.MSQueue}, {"connect", a.MSConnect}, {"response", a.MSResponse}, {"all", a.MSTotal}} {
		if part.millis >= 0 {
			times = append(times, fmt.Sprintf("%s %dms", part.name, part.millis))
		}
	}
	line("time", "%s", strings.Join(times, ", "))
	if one.Differs != "" {
		line("differs", "%s", one.Differs)
	}
}

func isStopped(a logs.Access) bool { return a.Filter != "" && a.Filter != "-" }

// compare returns why a filter stopped a request, if explain knows, and why explain expects something else of it; "" if
// it does not.
func (e expectation) compare(a logs.Access) (reason, differs string) {
	var port int32
	if _, err := fmt.Sscan(a.Port, &port); err != nil || a.Host == "-" || a.Path == "-" || e.site == nil {
		return "", ""
	}
	scheme := "http"
	if listener := e.table.ListenerFor(port, a.Host); listener != nil && listener.TLS != nil {
		scheme = "https"
	}
	expected, err := explain.Of(e.site, e.table, e.refused, fmt.Sprintf("%s://%s:%d%s", scheme, a.Host, port, a.Path), a.Method, a.Client, []string{"User-Agent:" + a.UserAgent})
	if err != nil {
		return "", ""
	}
	took, expects := strings.TrimPrefix(a.Name(), "GRPCRoute/"), "-"
	if expected.Route != "" {
		expects = fmt.Sprintf("%s[%d]", expected.Route, *expected.Rule)
	}
	isPossible := slices.ContainsFunc(e.table.Candidates(routing.Request{Port: port, Host: a.Host, Path: a.Path, Method: a.Method}), func(rule *routing.Rule) bool {
		return took == fmt.Sprintf("%s[%d]", rule.Route, rule.Index)
	})
	status := 0
	_, _ = fmt.Sscan(strings.TrimSuffix(strings.SplitN(expected.Answer+" ", " ", 2)[0], ":"), &status) // 0: the backend answers
	switch {
	case took == expects && status > 0 && status != a.Status:
		return "", fmt.Sprintf("explain expects %s", expected.Answer)
	case took == expects && status > 0 && isStopped(a):
		return expected.Answer, ""
	case took == expects:
		return "", ""
	case isPossible:
		return "", fmt.Sprintf("without the headers and the query, which the log does not have, explain expects %s", expects)
	}
	return "", fmt.Sprintf("explain expects %s: see kubectl gateway proxy-config for what this pod runs", expects)
}
