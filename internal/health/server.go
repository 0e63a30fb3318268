package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/component-base/metrics/legacyregistry"
)

// stopTimeout is how long active requests may take when the server stops.
const stopTimeout = time.Second

// Check returns nil if all is well, or else the problem.
type Check func(request *http.Request) error

// Options are the endpoints of a server.
type Options struct {
	// Address is what to listen on, such as ":8080" or "127.0.0.1:0".
	Address string
	// Checks are the checks by path, such as "/healthz".
	Checks map[string]Check
	// Handlers are what else is answered, by path.
	Handlers map[string]http.Handler
	// Profiling adds /debug/pprof.
	Profiling bool
}

// Server answers until it is stopped.
type Server struct {
	server   *http.Server
	listener net.Listener
	served   chan error
}

// Start listens and answers in the background. An error means that the address cannot be listened on.
func Start(options Options) (*Server, error) {
	listener, err := net.Listen("tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("failed to listen on -health-address: %w", err)
	}
	s := &Server{
		server:   &http.Server{Handler: Handler(options), ReadHeaderTimeout: 10 * time.Second},
		listener: listener,
		served:   make(chan error, 1),
	}
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

// Address is what the server listens on.
func (s *Server) Address() string {
	return s.listener.Addr().String()
}

// Stop ends the server. It returns the error if the server had failed before.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		_ = s.server.Close() // a slow request, such as a profile, is cut short
	}
	if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to serve health and metrics: %w", err)
	}
	return nil
}

// Handler answers as a Server does.
func Handler(options Options) http.Handler {
	mux := http.NewServeMux()
	for path, check := range options.Checks {
		mux.Handle("GET "+path, answer(check))
	}
	for path, handler := range options.Handlers {
		mux.Handle("GET "+path, handler)
	}
	mux.Handle("GET /metrics", promhttp.InstrumentMetricHandler(prometheus.DefaultRegisterer, promhttp.HandlerFor(
		legacyregistry.DefaultGatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}, // which has exemplars
	)))
	if options.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(check Check) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if err := check(request); err != nil {
			http.Error(writer, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = writer.Write([]byte("ok\n"))
	})
}
