// Program echo is the backend of the demo and of the end-to-end tests: it answers every request with a JSON object that
// says who answered and what arrived.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// reply is the body of every answer but that of /healthz.
type reply struct {
	Version string      `json:"version"`
	Pod     string      `json:"pod"`
	Method  string      `json:"method"`
	Host    string      `json:"host"`
	Path    string      `json:"path"`
	Query   string      `json:"query,omitempty"`
	Headers http.Header `json:"headers"`
}

func main() {
	listen := flag.String("listen", ":8080", "The address to listen on.")
	version := flag.String("version", os.Getenv("VERSION"), "The version to answer with; by default $VERSION.")
	drain := flag.Duration("drain", 5*time.Second,
		"How long to go on serving after SIGTERM, so that everyone learns first that the endpoint is gone.")
	flag.Parse()
	if err := serve(*listen, *version, *drain); err != nil {
		log.Fatalf("echo: %v", err)
	}
}

// serve answers until SIGTERM or SIGINT, then for drain more, and returns when the requests in flight are done.
func serve(listen, version string, drain time.Duration) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()

	server := &http.Server{Addr: listen, Handler: handler(version), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	// A second signal ends the program at once.
	stop()
	select {
	case err := <-failed:
		return err
	case <-time.After(drain):
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return server.Shutdown(ctx)
}

func handler(version string) http.Handler {
	pod := os.Getenv("POD_NAME")
	if pod == "" {
		// In a pod, the host name is the pod's.
		pod, _ = os.Hostname()
	}
	// No ServeMux: it would redirect paths that it finds unclean, and the tests want to see them as they arrive.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			_, _ = w.Write([]byte("ok\n"))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// The client may be gone; there is nobody else to tell.
		_ = json.NewEncoder(w).Encode(reply{
			Version: version, Pod: pod, Method: r.Method, Host: r.Host,
			Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Headers: r.Header,
		})
	})
}
