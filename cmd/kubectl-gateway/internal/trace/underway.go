package trace

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/model"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
	"gateway/internal/routetrace"
	"gateway/internal/routing"
)

// maxRules is how many rules are shown for a request that several may have taken.
const maxRules = 3

// underWay is a request that has no full answer yet.
type underWay struct {
	Pod string `json:"pod"`
	proxyconfig.Request
	Seconds float64 `json:"seconds"`
	// Rules are those that may have taken it, like team/web[0]: HAProxy shows neither headers nor, of HTTP/1.1, the host.
	Rules []string `json:"rules"`
}

// showUnderWay prints the requests that are under way in all pods.
func (c *command) showUnderWay(ctx context.Context, clients cli.Clients, namespace, name string, table routing.Table) error {
	pods, err := clients.ProxyPods(ctx, namespace, name, "")
	if err != nil {
		return err
	}
	path := fmt.Sprintf("%s?%s=%d", proxyconfig.UnderWayPath, proxyconfig.ParameterOlder, int64(c.older.Seconds()))
	all, failures, now := []underWay{}, []string{}, time.Now()
	for i, pages := range clients.PagesOfAll(ctx, pods, cli.Page{Port: proxypod.HealthPort, Path: path}) {
		var answer proxyconfig.UnderWay
		err := pages.Err
		if err == nil {
			err = json.Unmarshal(pages.Content[0], &answer)
		}
		if err != nil {
			failures = append(failures, pods[i].Name+": "+err.Error())
			continue
		}
		if answer.More > 0 {
			c.Note("pod %s has %d more, which are younger", pods[i].Name, answer.More)
		}
		for _, request := range answer.Requests {
			one := underWay{pods[i].Name, request, max(now.Sub(request.Started).Seconds(), 0), routetrace.Names(routetrace.Rules(table, request))}
			if c.shows(request.Client, request.Host, request.Path, one.Rules) {
				all = append(all, one)
			}
		}
	}
	if len(failures) == len(pods) {
		return errors.New(strings.Join(failures, "; "))
	}
	slices.SortStableFunc(all, func(a, b underWay) int { return cmp.Compare(b.Seconds, a.Seconds) })
	if err := c.printUnderWay(all, proxypod.ChildName(name)+"-"); err != nil {
		return err
	}
	if len(failures) > 0 {
		return cli.Nof("%d of %d proxy pods could not be asked: %s", len(failures), len(pods), strings.Join(failures, "; "))
	}
	return nil
}

func (c *command) printUnderWay(all []underWay, prefix string) error {
	if c.output != "" {
		return c.Print(c.output, map[string]any{"requests": all})
	}
	if len(all) == 0 {
		_, _ = fmt.Fprintf(c.ErrOut, "No requests have been under way for %s.\n", c.older)
		return nil
	}
	table := &metav1.Table{}
	for _, name := range []string{"Age", "Pod", "Client", "Request", "Rule", "Waits for"} {
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: name, Type: "string"})
	}
	for i := range all {
		one := &all[i]
		rules := strings.ReplaceAll(cmp.Or(model.Some(one.Rules, maxRules), "-"), ", ", " or ")
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{
			fmt.Sprintf("%.1fs", one.Seconds), strings.TrimPrefix(one.Pod, prefix), one.Client, one.text(), rules, one.waitsFor(),
		}})
	}
	return printers.NewTablePrinter(printers.PrintOptions{}).PrintObj(table, c.Out)
}

// text is the request for people. The printer escapes what is no text.
func (u *underWay) text() string {
	port := ""
	if u.Port != 80 && u.Port != 443 || u.Host == "" {
		port = fmt.Sprintf(":%d", u.Port)
	}
	return fmt.Sprintf("%s %s%s%s", u.Method, u.Host, port, u.Path)
}

// waitsFor tells what the request waits for, and where.
func (u *underWay) waitsFor() string {
	text := string(u.WaitsFor)
	switch {
	case u.Server != "":
		text += " of " + u.Backend + "/" + u.Server
	case u.Backend != "":
		text += " of " + u.Backend
	}
	if u.IsOld {
		text += " (old worker)"
	}
	return text
}
