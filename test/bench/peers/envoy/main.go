// Command envoy stands in for Envoy: it takes what a control plane pushes by delta xDS, and forwards requests by their
// Host alone. It has no filters and no health checks, and connects to an endpoint only for a request.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

var (
	address = flag.String("xds", "", "address of the control plane")
	certs   = flag.String("certs", "", "directory of tls.crt, tls.key and ca.crt, or nothing for a control plane without TLS")
	cluster = flag.String("cluster", "proxy", "name of the cluster that this node is of")
	listen  = flag.String("listen", "", "address for requests")
)

func main() {
	flag.Parse()
	p := &pushed{map[string]*routev3.RouteConfiguration{}, map[string]*clusterv3.Cluster{}, map[string]*endpointv3.ClusterLoadAssignment{}, sync.RWMutex{}}
	go func() { log.Fatal(p.subscribe(context.Background())) }()
	log.Fatal(http.ListenAndServe(*listen, p))
}

// pushed is what the control plane has pushed so far, by name.
type pushed struct {
	routes    map[string]*routev3.RouteConfiguration
	clusters  map[string]*clusterv3.Cluster
	endpoints map[string]*endpointv3.ClusterLoadAssignment
	mu        sync.RWMutex
}

// subscribe asks for everything of three types, and takes it until the control plane ends.
func (p *pushed) subscribe(ctx context.Context) error {
	creds, err := loadCredentials()
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(*address, grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(
		grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		return err
	}
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	for _, typeURL := range []string{resource.ClusterType, resource.EndpointType, resource.RouteType} {
		node := &corev3.Node{Id: "proxy", Cluster: *cluster}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: typeURL}); err != nil {
			return err
		}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := p.take(response); err != nil {
			return err
		}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: response.TypeUrl, ResponseNonce: response.Nonce}); err != nil {
			return err
		}
	}
}

func loadCredentials() (credentials.TransportCredentials, error) {
	if *certs == "" {
		return insecure.NewCredentials(), nil
	}
	own, err := tls.LoadX509KeyPair(filepath.Join(*certs, "tls.crt"), filepath.Join(*certs, "tls.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(filepath.Join(*certs, "ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return credentials.NewTLS(&tls.Config{ServerName: "envoy-gateway", RootCAs: roots, Certificates: []tls.Certificate{own}}), nil
}

func (p *pushed) take(response *discoveryv3.DeltaDiscoveryResponse) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range response.RemovedResources {
		switch response.TypeUrl {
		case resource.RouteType:
			delete(p.routes, name)
		case resource.ClusterType:
			delete(p.clusters, name)
		case resource.EndpointType:
			delete(p.endpoints, name)
		}
	}
	for _, r := range response.Resources {
		message, err := r.Resource.UnmarshalNew()
		if err != nil {
			return fmt.Errorf("failed to read %s %s: %w", response.TypeUrl, r.Name, err)
		}
		switch message := message.(type) {
		case *routev3.RouteConfiguration:
			p.routes[r.Name] = message
		case *clusterv3.Cluster:
			p.clusters[r.Name] = message
		case *endpointv3.ClusterLoadAssignment:
			p.endpoints[r.Name] = message
		}
	}
	return nil
}

func (p *pushed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, status := p.endpoint(r.Host)
	if status != http.StatusOK {
		http.Error(w, http.StatusText(status), status)
		return
	}
	httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host}).ServeHTTP(w, r)
}

// endpoint returns an endpoint for requests with that Host, of the cluster and the locality with the most weight.
func (p *pushed) endpoint(host string) (string, int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	route := p.route(host)
	if route == nil {
		return "", http.StatusNotFound
	}
	name := route.GetCluster()
	for i, most := 0, uint32(0); i < len(route.GetWeightedClusters().GetClusters()); i++ {
		if c := route.GetWeightedClusters().Clusters[i]; c.GetWeight().GetValue() > most {
			name, most = c.Name, c.GetWeight().GetValue()
		}
	}
	if service := p.clusters[name].GetEdsClusterConfig().GetServiceName(); service != "" {
		name = service
	}
	var found *corev3.SocketAddress
	most := uint32(0)
	for _, locality := range p.endpoints[name].GetEndpoints() {
		weight := max(1, locality.GetLoadBalancingWeight().GetValue())
		if locality.LoadBalancingWeight != nil && locality.LoadBalancingWeight.Value == 0 {
			continue
		}
		if len(locality.LbEndpoints) > 0 && weight > most {
			found, most = locality.LbEndpoints[0].GetEndpoint().GetAddress().GetSocketAddress(), weight
		}
	}
	if found == nil {
		return "", http.StatusServiceUnavailable
	}
	return net.JoinHostPort(found.Address, strconv.Itoa(int(found.GetPortValue()))), http.StatusOK
}

func (p *pushed) route(host string) *routev3.RouteAction {
	for _, config := range p.routes {
		for _, virtual := range config.VirtualHosts {
			for _, domain := range virtual.Domains {
				if domain != host {
					continue
				}
				for _, route := range virtual.Routes {
					if action := route.GetRoute(); action != nil {
						return action
					}
				}
			}
		}
	}
	return nil
}
