package keyserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"k8s.io/client-go/kubernetes"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	clientset "gateway/generated/app/clientset/versioned"
	"gateway/internal/logging"
)

// Options are what a Server works by.
type Options struct {
	Kube   kubernetes.Interface
	Own    clientset.Interface
	Routes routesclient.Interface
	// Namespaces are the namespaces whose Secrets and ConfigMaps it may read; none: all.
	Namespaces []string
	// Namespace is its own, and Names are the names that pods know it by.
	Namespace string
	Names     []string
}

// Server answers pods.
type Server struct {
	caches    *caches
	publisher *publisher
	handler   *handler
}

// New returns a Server. It does nothing before Run.
func New(options Options) (*Server, error) {
	reads := map[string]bool{}
	for _, namespace := range options.Namespaces {
		reads[namespace] = true
	}
	state := newState(func(namespace string) bool { return len(reads) == 0 || reads[namespace] })
	caches, err := newCaches(state, options.Kube, options.Own, options.Routes, options.Namespaces, time.Now)
	if err != nil {
		return nil, err
	}
	s := &Server{
		caches:    caches,
		publisher: &publisher{kube: options.Kube, namespace: options.Namespace, names: options.Names, now: time.Now},
	}
	s.handler = &handler{state: state, review: newReviewer(options.Kube), ready: s.Ready}
	return s, nil
}

// Ready returns an error while the server cannot answer.
func (s *Server) Ready() error {
	if s.publisher.pair.Load() == nil {
		return errNoCertificate
	}
	return s.caches.ready()
}

// Run answers pods until ctx ends. It returns an error if it cannot.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go s.publisher.run(ctx)
	go s.caches.run(ctx)
	logging.Infof("Answering pods at %s", listener.Addr())
	config := &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.publisher.certificate}
	if err := s.handler.serve(ctx, listener, config); err != nil {
		return fmt.Errorf("failed to answer pods: %w", err)
	}
	return nil
}
