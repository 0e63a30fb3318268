package clustertest

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
	"gateway/internal/plugintest"
)

const (
	documents = 50
	// held is the document whose request, or answer, the gate holds back.
	held = 25
)

// TestKilled ends apply half way, in every way: what it has said until then is true, and the same command again does
// the rest.
func TestKilled(t *testing.T) {
	program := filepath.Join(plugintest.Build(t, clitest.Root), "kubectl-gateway")
	var content strings.Builder
	for i := range documents {
		content.WriteString(configMap(i))
	}
	file := clitest.WriteFile(t, "fifty.yaml", content.String())
	for _, test := range []struct {
		name    string
		signal  syscall.Signal
		answers bool // hold the answer, not the request
		// applied is how many objects there are afterwards; 0: as many as the command reports.
		applied int
	}{
		{"kill-request", syscall.SIGKILL, false, held},
		{"kill-answer", syscall.SIGKILL, true, held + 1}, // one more than it could say
		{"interrupt", syscall.SIGINT, true, 0},
		{"terminate", syscall.SIGTERM, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t, test.name)
			gate := newGate(t, test.answers)
			result := gate.apply(t, test.signal, program, "apply", "-n", namespace, "-f", file)
			said := strings.Count(result.Out, "\n")
			if want := lines(0, said, "created"); result.Out != want {
				t.Errorf("it said %q, want %q", result.Out, want)
			}
			if test.signal == syscall.SIGKILL {
				if said != held || result.Err != "" {
					t.Errorf("it said %d objects and %q before it was killed, want %d and nothing", said, result.Err, held)
				}
			} else {
				result.Want(t, 4, fmt.Sprintf("error: interrupted before ConfigMap %s/c%d: %d of 50 objects are applied: run the same command again\n", namespace, said, said))
				test.applied = said // the one at hand is finished
			}
			if n := countConfigMaps(t, namespace); n != test.applied || n < held || n >= documents {
				t.Errorf("%d objects were applied, want %d", n, test.applied)
			}
			clitest.Run(t, "", "apply", "-n", namespace, "-f", file).Want(t, 0, lines(0, test.applied, "unchanged")+lines(test.applied, documents, "created"))
			if n := countConfigMaps(t, namespace); n != documents {
				t.Errorf("%d objects in the end", n)
			}
		})
	}
}

// lines is what apply says of documents.
func lines(from, to int, result string) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "configmap/c%d %s\n", i, result)
	}
	return b.String()
}

// gate is a proxy before the API server that holds one request back, or its answer, until opens reports whether to let
// it through.
type gate struct {
	kubeconfig string
	reached    chan struct{}
	opens      chan bool
}

func newGate(t *testing.T, answers bool) *gate {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	target := must.Get(url.Parse(config.Host))(t)
	g := &gate{reached: make(chan struct{}), opens: make(chan bool, 1)}
	proxy := httputil.NewSingleHostReverseProxy(target)
	if proxy.Transport, err = rest.TransportFor(config); err != nil { // as the administrator
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		applies := r.Method == http.MethodPatch && !r.URL.Query().Has("dryRun")
		holds := applies && strings.HasSuffix(r.URL.Path, fmt.Sprintf("/c%d", held))
		if holds && !answers && !g.pass() {
			return
		}
		recorder := httptest.NewRecorder()
		proxy.ServeHTTP(recorder, r)
		if holds && answers && !g.pass() {
			return
		}
		for name, values := range recorder.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(recorder.Body.Bytes()) // the client may be dead
	}))
	t.Cleanup(server.Close)
	file := clientcmdapi.NewConfig()
	file.Clusters["gate"] = &clientcmdapi.Cluster{Server: server.URL}
	file.Contexts["gate"] = &clientcmdapi.Context{Cluster: "gate"}
	file.CurrentContext = "gate"
	g.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must.Do(t, clientcmd.WriteToFile(*file, g.kubeconfig))
	return g
}

func (g *gate) pass() bool {
	close(g.reached)
	return <-g.opens
}

// apply runs the program through the gate, and sends it the signal when it is there.
func (g *gate) apply(t *testing.T, signal syscall.Signal, program string, args ...string) clitest.Result {
	t.Helper()
	var out, errOut bytes.Buffer
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+g.kubeconfig)
	command.Stdout, command.Stderr = &out, &errOut
	must.Do(t, command.Start())
	select {
	case <-g.reached:
	case <-time.After(time.Minute):
		t.Error("the gate was not reached")
	}
	if err := command.Process.Signal(signal); err != nil {
		t.Error(err)
	}
	if signal != syscall.SIGKILL {
		// A signal takes a moment to be taken in. How many objects are applied meanwhile does not matter, but that it is not
		// all.
		time.AfterFunc(200*time.Millisecond, func() { g.opens <- true })
	}
	err := command.Wait()
	if signal == syscall.SIGKILL {
		g.opens <- false
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return clitest.Result{Out: out.String(), Err: errOut.String(), Code: command.ProcessState.ExitCode()}
}
