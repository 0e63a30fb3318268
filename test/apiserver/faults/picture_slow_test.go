//go:build slow

package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html/template"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

var update = flag.Bool("update", false, "draw the picture of the documentation, which takes 12 minutes")

// shown is how much of the time the picture shows. Rates look back as long.
const shown = 5 * time.Minute

// TestDashboardPicture draws artifacts/monitoring/dashboard.json for the documentation with -update, from what a real
// Prometheus answers to its queries, and looks that there is a small picture in any case.
func TestDashboardPicture(t *testing.T) {
	picture := filepath.Join(testbuild.MustRoot(t), "docs/images/grafana.png")
	if *update {
		takePicture(t, picture)
	}
	info := must.Get(os.Stat(picture))(t)
	if info.Size() > 200<<10 {
		t.Errorf("the picture has %d bytes, 200 KiB are allowed", info.Size())
	}
}

func takePicture(t *testing.T, picture string) {
	t.Helper()
	const namespace = "shop"
	s := startStack(t, namespace)
	p := startPrometheus(t, s, alertRules(t))
	var rules []string
	for _, service := range []string{"catalog", "cart", "checkout"} {
		createService(t, namespace, service)
		putEndpoint(t, namespace, service, serving(t, work))
		rules = append(rules, fmt.Sprintf(`{"matches": [{"path": {"type": "PathPrefix", "value": "/%s"}}], "backendRefs": [{"name": %q, "port": 80}]}`, service, service))
	}
	patchGateway(t, namespace, `[{"op": "replace", "path": "/spec/routes", "value": [{"name": "shop", "rules": [`+strings.Join(rules, ",")+`]}]},
		{"op": "add", "path": "/spec/routes/0/rules/0/filters", "value": [{"type": "RateLimit", "rateLimit": {"limits": [{"requests": 20, "unit": "Second"}]}}]},
		{"op": "add", "path": "/spec/requestMetrics", "value": "ByRoute"},
		{"op": "add", "path": "/spec/backends", "value": [{"name": "checkout", "port": 80, "connections": {"maxPerEndpoint": 1}}]}]`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*shown+time.Minute)
	defer cancel()
	begin := time.Now()
	for range 8 {
		go s.customer(ctx, begin)
	}
	absent := haproxytest.FreePort(t)
	slices := server.Kube.DiscoveryV1().EndpointSlices(namespace)
	for edit := 1; ctx.Err() == nil; edit++ {
		patchGateway(t, namespace, fmt.Sprintf(`[{"op": "add", "path": "/spec/routes/0/rules/0/timeouts", "value": {"request": "%ds"}}]`, 10+edit%9))
		switch edit % 20 {
		case 5: // a pod of Service cart that does not listen
			must.Get(slices.Create(t.Context(), endpointSlice(t, "cart", "cart-2", absent), metav1.CreateOptions{}))(t)
		case 9:
			must.Do(t, slices.Delete(t.Context(), "cart-2", metav1.DeleteOptions{}))
		case 15:
			patchGateway(t, namespace, fmt.Sprintf(`[{"op": "add", "path": "/spec/clientLimits", "value": {"maxConnections": %d}}]`, 1000+edit))
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(2+rand.IntN(8)) * time.Second):
		}
	}
	page := filepath.Join(t.TempDir(), "dashboard.html")
	must.Do(t, os.WriteFile(page, p.draw(t, namespace), 0o600))
	testenv.Run(t, t.TempDir(), nil, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--user-data-dir="+t.TempDir(), "--hide-scrollbars", "--window-size=1200,1155", "--screenshot="+picture, "file://"+page)
}

// work takes up to 40 ms, and fails for one request of fifty.
func work(w http.ResponseWriter, _ *http.Request) {
	time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
	if rand.IntN(50) == 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, strings.Repeat("x", 2000))
}

// customer sends requests until ctx ends, more and fewer in turn.
func (s *stack) customer(ctx context.Context, begin time.Time) {
	client := &http.Client{Transport: &http.Transport{}}
	for ctx.Err() == nil {
		_, _, _ = ask(ctx, client, s.pod.port, []string{"/catalog", "/catalog", "/cart", "/checkout", "/checkout", "/checkout", "/none"}[rand.IntN(7)])
		time.Sleep(time.Duration(100+80*math.Sin(time.Since(begin).Minutes()*2)) * time.Millisecond)
	}
}

// panel is one of the dashboard, and what the page shows of it.
type panel struct {
	Title       string
	GridPos     struct{ W int }
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ Expr, LegendFormat string }

	Series       []series
	Ticks, Times []tick
}

type series struct {
	Name, Color string
	Lines       []string // points, interrupted where there is none
	values      [][2]float64
}

type tick struct {
	At    float64
	Label string
}

// draw returns a page with all panels, in their order.
func (p *prometheus) draw(t *testing.T, namespace string) []byte {
	t.Helper()
	var dashboard struct {
		Title  string
		Panels []*panel
	}
	must.Do(t, json.Unmarshal(readArtifact(t, "dashboard.json"), &dashboard))
	end := time.Now().Truncate(time.Second)
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			query := url.Values{"query": {strings.NewReplacer("$namespace", namespace, "$gateway", name, "$route_namespace", namespace).Replace(target.Expr)}, "step": {"2"},
				"start": {fmt.Sprint(end.Add(-shown).Unix())}, "end": {fmt.Sprint(end.Unix())}}
			var answer struct {
				Data struct {
					Result []struct {
						Metric map[string]string
						Values [][2]any
					}
				}
			}
			must.Do(t, p.get(t.Context(), "/api/v1/query_range?"+query.Encode(), &answer))
			for _, result := range answer.Data.Result {
				s := series{Name: legend(target.LegendFormat, result.Metric)}
				for _, value := range result.Values {
					number := must.Get(strconv.ParseFloat(value[1].(string), 64))(t)
					s.values = append(s.values, [2]float64{value[0].(float64) - float64(end.Add(-shown).Unix()), number})
				}
				panel.Series = append(panel.Series, s)
			}
		}
		panel.scale(end)
	}
	var page bytes.Buffer
	must.Do(t, template.Must(template.ParseFiles("testdata/dashboard.html")).Execute(&page, dashboard))
	return page.Bytes()
}

var label = regexp.MustCompile(`{{\s*(\w+)\s*}}`)

// legend is Grafana's legendFormat for a series.
func legend(format string, labels map[string]string) string {
	return label.ReplaceAllStringFunc(format, func(name string) string { return labels[label.FindStringSubmatch(name)[1]] })
}

var colors = []string{"#56a64b", "#f2cc0c", "#3274d9", "#ff780a", "#e02f44", "#a352cc", "#8ab8ff", "#b877d9", "#806eb7", "#3f6833"}

// scale places points, and the labels of the axes, in a picture of 380 by 130.
func (p *panel) scale(end time.Time) {
	top := 0.
	for _, s := range p.Series {
		for _, value := range s.values {
			if !math.IsNaN(value[1]) {
				top = max(top, value[1])
			}
		}
	}
	base, factors := 10., []float64{2, 2.5, 2}
	if p.FieldConfig.Defaults.Unit == "bytes" {
		base, factors = 2, nil
	}
	step := 1.
	if top > 0 {
		step = math.Pow(base, math.Floor(math.Log(top/2)/math.Log(base)))
	}
	for _, factor := range factors {
		if top/step > 4 {
			step *= factor
		}
	}
	top = max(1, math.Ceil(top/step)) * step
	y := func(value float64) float64 { return 112 - value/top*106 }
	for value := 0.; value <= top*1.001; value += step {
		p.Ticks = append(p.Ticks, tick{y(value), format(value, p.FieldConfig.Defaults.Unit)})
	}
	for minute := end.Add(-shown).Truncate(time.Minute).Add(time.Minute); !minute.After(end); minute = minute.Add(time.Minute) {
		p.Times = append(p.Times, tick{62 + 316*(1-end.Sub(minute).Seconds()/shown.Seconds()), minute.UTC().Format("15:04")})
	}
	for i := range p.Series {
		s, line := &p.Series[i], []string{}
		s.Color = colors[i%len(colors)]
		for j, value := range s.values {
			if !math.IsNaN(value[1]) {
				line = append(line, fmt.Sprintf("%.1f,%.1f", 62+316*value[0]/shown.Seconds(), y(value[1])))
			}
			if len(line) == 1 {
				line = append(line, line[0]) // a dot
			}
			if last := j == len(s.values)-1; last || math.IsNaN(value[1]) || s.values[j+1][0]-value[0] > 3 {
				s.Lines, line = append(s.Lines, strings.Join(line, " ")), nil
			}
		}
	}
}

// format writes a value in a unit of Grafana.
func format(value float64, unit string) string {
	number := func(value, base float64, prefixes string) string {
		i := 0
		for ; value >= base && i < len(prefixes)-1; i++ {
			value /= base
		}
		return strconv.FormatFloat(value, 'g', 3, 64) + " " + strings.TrimSpace(prefixes[i:i+1])
	}
	text := ""
	switch {
	case unit == "percentunit":
		text = number(100*value, math.Inf(1), " ") + "%"
	case unit == "s" && value < 1 && value > 0:
		text = number(1000*value, math.Inf(1), " ") + "ms"
	case unit == "bytes":
		text = number(value, 1024, " KMG") + "iB"
	default:
		text = number(value, 1000, " kMG") + map[string]string{"reqps": "req/s", "ops": "ops/s", "Bps": "B/s", "s": "s"}[unit]
	}
	return strings.Replace(strings.TrimSpace(text), " iB", " B", 1)
}
