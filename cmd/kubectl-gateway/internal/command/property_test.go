package command_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/haproxy/config"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/routing"
)

var (
	seed   = flag.Uint64("seed", 0, "the seed of TestExplainAgreesWithHAProxy; 0: another every time")
	tables = flag.Int("tables", 20, "how many random Gateways it tries")
)

const requestsPerTable = 40

var services = []string{"one", "two", "three"}

// TestExplainAgreesWithHAProxy compares what explain says with what real HAProxy does, on random Gateways and requests.
func TestExplainAgreesWithHAProxy(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano()) //nolint:gosec // a seed
	}
	t.Logf("-seed=%d", *seed)
	g := &generator{rand.New(rand.NewPCG(*seed, 0)), haproxytest.FreePort(t)}
	backends := map[routing.Backend]config.BackendState{}
	for _, service := range services {
		backends[routing.Backend{Service: service, Port: 80}] = config.BackendState{Exists: true, Servers: []config.Server{startBackend(t, service)}}
	}
	codes := map[int]int{}
	for range *tables {
		gateway := &appv1.Gateway{Spec: g.spec()}
		gateway.APIVersion, gateway.Kind, gateway.Name, gateway.Namespace = "app.example.com/v1", "Gateway", "random", "default"
		content, err := yaml.Marshal(gateway)
		if err != nil {
			t.Fatal(err)
		}
		file := clitest.WriteFile(t, "gateway.yaml", string(content))
		table, _ := routing.Compile(&gateway.Spec)
		paths := haproxytest.NewPaths(t)
		proxy := haproxytest.Start(t, paths, config.Render(config.Input{
			Namespace: "default", Name: "random", Table: table, Backends: backends, Paths: paths,
			Bind: config.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)},
		}).Files("test"))
		for range requestsPerTable {
			r := g.request()
			code, got := r.send(t, g.port)
			if problem := compare(t, file, r, code, got); problem != "" {
				t.Fatalf("%v: %s\n%s", r, problem, content)
			}
			codes[code]++
		}
		proxy.Stop()
	}
	t.Logf("answers: %v", codes)
	for _, code := range []int{200, 301, 400, 404, 500} {
		if codes[code] == 0 && *tables >= 20 {
			t.Errorf("no answer has status %d: the test does not try enough", code)
		}
	}
}

// compare returns how what explain says differs from an answer, which is by the service got if its code is 200.
func compare(t *testing.T, file string, r request, code int, got string) string {
	t.Helper()
	result := clitest.Run(t, "", append([]string{"explain", "-f", file, "-o", "json"}, r.args()...)...)
	var said struct {
		Answer   string
		Refused  bool
		Backends []struct{ Service string }
	}
	if err := json.Unmarshal([]byte(result.Out), &said); err != nil {
		return fmt.Sprintf("%v\n%s%s", err, result.Out, result.Err)
	}
	var names []string
	for _, backend := range said.Backends {
		names = append(names, backend.Service)
	}
	agrees := strings.HasPrefix(said.Answer, fmt.Sprintf("%d:", code)) && said.Refused == (code >= 400)
	if code == 200 {
		agrees = said.Answer == "" && slices.Contains(names, got)
	}
	if agrees && (result.Code == 3) == (code >= 400) {
		return ""
	}
	return fmt.Sprintf("HAProxy answered %d %s, and explain (exit code %d) says:\n%s", code, got, result.Code, result.Out)
}

func startBackend(t *testing.T, name string) config.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(name)) }))
	t.Cleanup(server.Close)
	address := server.Listener.Addr().(*net.TCPAddr)
	return config.Server{Address: address.IP.String(), Port: int32(address.Port)} //nolint:gosec // a port
}
