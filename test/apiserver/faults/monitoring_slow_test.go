//go:build slow

package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// prometheus is a running Prometheus.
type prometheus struct{ url string }

// TestMonitoring has a real Prometheus scrape an operator, an agent and a HAProxy, with the labels of
// artifacts/monitoring/monitors.yaml: all alerts can be evaluated, each series that they and the dashboard's panels
// choose exists, each panel shows something, and a pod that does not answer is an alert.
func TestMonitoring(t *testing.T) {
	s := startStack(t, "monitoring")
	rules := alertRules(t)
	p := startPrometheus(t, s, rules)
	patchGateway(t, s.namespace, `[{"op": "add", "path": "/spec/routes/0/rules/0/filters", "value": [{"type": "ClientAddress", "clientAddress": {"allow": ["127.0.0.0/8"]}}]},
		{"op": "add", "path": "/spec/requestMetrics", "value": "ByRoute"}]`)
	generation, paths := int64(1), 0
	testenv.Eventually(t, 2*time.Minute, "each panel shows something", func(ctx context.Context) error {
		// Rates take changes and requests between two scrapes.
		paths++
		generation = s.edit(t, fmt.Sprintf("/monitoring-%d", paths))
		_, _, err := ask(ctx, http.DefaultClient, s.pod.port, "/")
		return errors.Join(err, p.showsAll(ctx, panels(t)))
	})
	s.expectProgrammed(t, soon, generation)
	for _, expression := range append(panels(t), expressions(rules)...) {
		for _, selector := range selectors(expression) {
			if err := p.shows(t.Context(), "count("+selector+")"); err != nil {
				t.Errorf("%s: %v", expression, err)
			}
		}
	}
	testenv.Eventually(t, soon, "all rules are evaluated", p.healthy)
	s.pod.agent.Kill()
	testenv.Eventually(t, soon, "the agent that is gone is an alert", func(ctx context.Context) error {
		return p.shows(ctx, `ALERTS{alertname="GatewayProxyDown",job="gateway-agent",namespace="monitoring",pod="pod"}`)
	})
}

// alertRules returns the rules of artifacts/monitoring/rules.yaml, as Prometheus reads them.
func alertRules(t *testing.T) map[string]any {
	t.Helper()
	var object struct{ Spec map[string]any }
	must.Do(t, yaml.Unmarshal(readArtifact(t, "rules.yaml"), &object))
	return object.Spec
}

func readArtifact(t *testing.T, name string) []byte {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join(testbuild.MustRoot(t), "artifacts", "monitoring", name)))(t)
	return content
}

// expressions returns the expressions of alerts.
func expressions(rules map[string]any) []string {
	var all []string
	for _, group := range rules["groups"].([]any) {
		for _, rule := range group.(map[string]any)["rules"].([]any) {
			all = append(all, rule.(map[string]any)["expr"].(string))
		}
	}
	return all
}

// panels are the expressions of the dashboard, for the Gateway of the test.
func panels(t *testing.T) []string {
	t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	must.Do(t, json.Unmarshal(readArtifact(t, "dashboard.json"), &dashboard))
	var all []string
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			expression := strings.NewReplacer("$namespace", "monitoring", "$gateway", name, "$route_namespace", "monitoring").Replace(target.Expr)
			all = append(all, strings.TrimSuffix(expression, " > 0")) // nothing waits here
		}
	}
	if len(all) < 15 {
		t.Fatalf("the dashboard has only %d expressions", len(all))
	}
	return all
}

var selector = regexp.MustCompile(`\b(?:up|(?:haproxy|gateway|workqueue|process)_[a-z_]+)(?:\{[^}]*\})?`)

// selectors are the choices of series in an expression.
func selectors(expression string) []string { return selector.FindAllString(expression, -1) }

// startPrometheus starts one that scrapes the stack each second.
func startPrometheus(t *testing.T, s *stack, rules map[string]any) *prometheus {
	t.Helper()
	root, dir := testbuild.MustRoot(t), t.TempDir()
	programs := strings.TrimSpace(testenv.Run(t, root, nil, "hack/prometheus.sh"))
	job := func(job, target, namespace, pod string) map[string]any {
		labels := map[string]string{"namespace": namespace, "pod": pod}
		if namespace == s.namespace {
			labels["gateway"] = name
		}
		return map[string]any{"job_name": job, "static_configs": []any{map[string]any{"targets": []string{target}, "labels": labels}}}
	}
	write := func(file string, content any) string {
		text := must.Get(yaml.Marshal(content))(t)
		path := filepath.Join(dir, file)
		must.Do(t, os.WriteFile(path, text, 0o600))
		return path
	}
	rulesFile := write("rules.yaml", rules)
	config := write("prometheus.yaml", map[string]any{
		"global":     map[string]string{"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
		"rule_files": []string{rulesFile},
		"scrape_configs": []any{
			job("gateway-operator", s.operator.address, operatorNamespace, "operator"), job("gateway-agent", s.pod.health, s.namespace, pod),
			job("gateway-haproxy", "127.0.0.1:8404", s.namespace, pod),
		},
	})
	testenv.Run(t, dir, nil, filepath.Join(programs, "promtool"), "check", "config", config)
	address := fmt.Sprintf("127.0.0.1:%d", haproxytest.FreePort(t))
	testenv.Start(t, nil, filepath.Join(programs, "prometheus"), "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	return &prometheus{"http://" + address}
}

// get reads an answer of the API.
func (p *prometheus) get(ctx context.Context, path string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // all was read
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, response.Status, content)
	}
	return json.Unmarshal(content, into)
}

// shows is nil if an expression has a value now that is a number.
func (p *prometheus) shows(ctx context.Context, expression string) error {
	var answer struct {
		Data struct{ Result []struct{ Value []any } }
	}
	if err := p.get(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &answer); err != nil {
		return err
	}
	for _, result := range answer.Data.Result {
		if result.Value[1] != "NaN" {
			return nil
		}
	}
	return fmt.Errorf("%s has no value: %v", expression, answer.Data.Result)
}

func (p *prometheus) showsAll(ctx context.Context, expressions []string) error {
	var errs []error
	for _, expression := range expressions {
		errs = append(errs, p.shows(ctx, expression))
	}
	return errors.Join(errs...)
}

// healthy is nil if all rules were evaluated without an error.
func (p *prometheus) healthy(ctx context.Context) error {
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	if err := p.get(ctx, "/api/v1/rules", &answer); err != nil {
		return err
	}
	count := 0
	for _, group := range answer.Data.Groups {
		for _, rule := range group.Rules {
			if count++; rule.Health != "ok" {
				return fmt.Errorf("%s is %s: %s", rule.Name, rule.Health, rule.LastError)
			}
		}
	}
	if count < 10 {
		return fmt.Errorf("there are only %d rules", count)
	}
	return nil
}
