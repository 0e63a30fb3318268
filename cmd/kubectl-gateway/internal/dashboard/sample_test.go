package dashboard

import (
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/routes"
	"gateway/internal/model"
	"gateway/internal/proxyconfig"
)

// began is when the sample begins.
var began = time.Date(2026, 11, 25, 9, 0, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: 12}
}

func gateway(namespace, name string, listeners ...appv1.Listener) appv1.Gateway {
	return appv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Generation: 12},
		Spec:       appv1.GatewaySpec{Listeners: listeners, Replicas: ptr.To(int32(2))},
		Status: appv1.GatewayStatus{
			Addresses: []appv1.GatewayAddress{{Type: appv1.AddressTypeIPAddress, Value: "203.0.113.20"}}, Replicas: 2, ReadyReplicas: 2,
			Conditions: []metav1.Condition{condition(appv1.ConditionProgrammed, metav1.ConditionTrue, "Programmed", "every proxy runs it")},
		},
	}
}

func route(kind, namespace, name, gateway string, hostnames ...string) routes.Route {
	return routes.Route{Kind: kind, Namespace: namespace, Name: name, Hostnames: hostnames, Gateways: []string{gateway}, Programmed: metav1.ConditionTrue}
}

// sample is what could be seen of two Gateways so long after the sample began: one that is well, and one of which a
// route names a Service that is not there, and a proxy keeps an older generation.
func sample(after time.Duration) *snapshot {
	http := appv1.Listener{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}
	https := appv1.Listener{Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS}
	shop, blog := gateway("shop", "shop", http, https), gateway("team-blog", "blog", http)
	const missing = "there is no Service team-blog/search: create it or change the reference"
	search := route("HTTPRoute", "team-blog", "search", "team-blog/blog", "blog.example.com")
	search.Problems = []string{missing}
	blog.Status.Conditions = []metav1.Condition{
		condition(appv1.ConditionProgrammed, metav1.ConditionFalse, "LoadFailed", "1 of 2 ready proxies run generation 12; pod blog-gateway-5d7f9c-q8wzt: generation 11: no space left on device"),
	}
	at := began.Add(after)
	seen := &snapshot{at: at, gateways: []appv1.Gateway{shop, blog}, proxies: map[types.NamespacedName][]proxy{
		nameOf(&shop): {
			sampleProxy("shop", "shop-gateway-6d4cf56db6-2x8xk", at, 180, "storefront", "storefront-canary", "cart", "checkout"),
			sampleProxy("shop", "shop-gateway-6d4cf56db6-p7m4c", at, 174, "storefront", "storefront-canary", "cart", "checkout"),
		},
		nameOf(&blog): {
			sampleProxy("team-blog", "blog-gateway-5d7f9c-k2dfp", at, 9, "posts"), sampleProxy("team-blog", "blog-gateway-5d7f9c-q8wzt", at, 11, "posts"),
		},
	}}
	seen.routes = []routes.Route{
		route("HTTPRoute", "payments", "checkout", "shop/shop", "pay.example.com"), route("HTTPRoute", "shop", "cart", "shop/shop", "shop.example.com"),
		route("HTTPRoute", "shop", "storefront", "shop/shop", "shop.example.com", "www.shop.example.com"), route("GRPCRoute", "shop", "stock", "shop/shop", "stock.example.com"),
		route("HTTPRoute", "team-blog", "posts", "team-blog/blog", "blog.example.com"), search, route("Gateway", "team-blog", "blog/feed", "team-blog/blog"),
	}
	behind := &seen.proxies[nameOf(&blog)][1]
	behind.config.Live = version(11)
	behind.config.Problem = "no space left on device"
	return seen
}

func version(generation int64) *proxyconfig.Version {
	return &proxyconfig.Version{Origins: []model.Origin{{Generation: generation}}}
}

// sampleProxy takes some requests per second, with a wave in it.
func sampleProxy(namespace, pod string, at time.Time, rate float64, services ...string) proxy {
	seconds := at.Sub(began).Seconds() + 3600
	total := rate * (seconds + 12*math.Sin(seconds/31) + 4*math.Sin(seconds/7+rate))
	haproxy := &proxyconfig.HAProxy{Version: "3.4.7", Started: began.Add(-26 * time.Hour), Sessions: int64(rate * 0.7), Requests: int64(total)}
	left := total
	for i, service := range services {
		part := left * 0.7
		if i == len(services)-1 {
			part = left
		}
		left -= part
		for server := range 2 {
			haproxy.Servers = append(haproxy.Servers, proxyconfig.Server{
				Backend: fmt.Sprintf("%s_%s_80", namespace, service), Address: fmt.Sprintf("10.244.%d.%d:8080", server+1, 20+i), State: "no check", Total: int64(part / 2),
			})
		}
	}
	return proxy{
		pod: types.NamespacedName{Namespace: namespace, Name: pod},
		config: &proxyconfig.Config{Live: version(12), Wanted: version(12), HAProxy: haproxy, Reloads: []proxyconfig.Reload{
			{Time: began.Add(-26 * time.Hour), Version: version(9), Reason: "listener ports or TLS settings changed"},
		}},
		answers: map[string]float64{"2xx": 0.93 * total, "3xx": 0.045 * total, "4xx": 0.022 * total, "5xx": 0.003 * total},
	}
}
