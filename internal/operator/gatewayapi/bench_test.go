package gatewayapi

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/cputime"
	"gateway/internal/must"
)

// BenchmarkEdit measures an edit of one of many HTTPRoutes that are Programmed, to the status that is to be written.
func BenchmarkEdit(b *testing.B) {
	for _, n := range []int{300, 3000, 10000} {
		b.Run(fmt.Sprintf("routes=%d", n), func(b *testing.B) {
			f := newFixture(b, shop)
			for i := range n {
				f.put(routeTo(fmt.Sprint("r", i), "api") + fmt.Sprintf("  hostnames: [r%d.example.com]", i))
			}
			f.settle()
			f.programShop()
			kind := routeKind("HTTPRoute")
			obj, _, _ := kinds[kind](f).GetStore().GetByKey("web/r1")
			before := obj.(*gatewayv1.HTTPRoute)
			b.ResetTimer()
			for i := range b.N {
				edited := before.DeepCopy()
				edited.Generation++
				edited.ResourceVersion = fmt.Sprint(f.version + 1 + i)
				edited.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("e%d.example.com", i))}
				_ = kinds[kind](f).GetIndexer().Update(edited)
				f.controller.changed("HTTPRoute", before, edited)
				must.Do(b, f.syncOnce(context.Background()))
				before = edited
			}
		})
	}
}

// BenchmarkEditOfFew measures edits that change few of many HTTPRoutes: of a Gateway, of one of its listeners, and of a
// GRPCRoute that comes and goes with the hostname of one of them.
func BenchmarkEditOfFew(b *testing.B) {
	const gateway = "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {namespace: web, name: shop}\nspec:\n" +
		"  gatewayClassName: app\n  infrastructure: {annotations: {a: '%d'}}\n" +
		"  listeners: [{name: http, port: 80, protocol: HTTP}, {name: other, port: 80, protocol: HTTP, hostname: h%d.example.com}]"
	const named = "  parentRefs: [{name: shop, sectionName: http}]\n"
	for what, edit := range map[string]func(f *fixture, i int){
		"annotations": func(f *fixture, i int) { f.put(fmt.Sprintf(gateway, i, 0)) },
		"listener":    func(f *fixture, i int) { f.put(fmt.Sprintf(gateway, 0, i)) },
		"conflict": func(f *fixture, i int) {
			route := routeTo("grpc", "api") + "  hostnames: [r1.example.com]"
			route = strings.Replace(strings.Replace(route, "HTTPRoute", "GRPCRoute", 1), "  parentRefs: [{name: shop}]\n", named, 1)
			if f.put(route); i%2 == 1 {
				f.remove(routeKind("GRPCRoute"), "web", "grpc")
			}
		},
	} {
		for _, n := range []int{300, 3000} {
			b.Run(fmt.Sprintf("%s/routes=%d", what, n), func(b *testing.B) {
				f := newFixture(b, shop)
				f.put(fmt.Sprintf(gateway, 0, 0))
				for i := range n {
					route := routeTo(fmt.Sprint("r", i), "api") + fmt.Sprintf("  hostnames: [r%d.example.com]", i)
					f.put(strings.Replace(route, "  parentRefs: [{name: shop}]\n", named, 1))
				}
				f.settle()
				f.programShop()
				b.ResetTimer()
				var used time.Duration
				for i := range b.N {
					edit(f, i+1)
					clear(f.later)
					f.catchUpKind(ownKind("Gateway"))
					f.catchUpKind(routeKind("Gateway"))
					f.catchUpKind(routeKind("GRPCRoute"))
					used += cputime.Of(func() { must.Do(b, f.syncOnce(context.Background())) })
				}
				b.ReportMetric(used.Seconds()*1000/float64(b.N), "CPU-ms/op")
			})
		}
	}
}

// BenchmarkListenerSet measures an edit of one of 2,500 ListenerSets, with 10,000 listeners and a route each, to the
// statuses that are to be written.
func BenchmarkListenerSet(b *testing.B) {
	set := func(i, hosts int) string {
		text := fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {namespace: web, name: s%d}\nspec:\n"+
			"  parentRef: {name: shop}\n  listeners:\n", i)
		for j := range hosts {
			text += fmt.Sprintf("  - {name: h%d, port: 8080, protocol: HTTP, hostname: h%d.s%d.example.com}\n", j, j, i)
		}
		return text
	}
	f := newFixture(b, shop)
	gateway, _, _ := kinds[routeKind("Gateway")](f).GetStore().GetByKey("web/shop")
	allowing := gateway.(*gatewayv1.Gateway).DeepCopy()
	allowing.Spec.AllowedListeners = &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: new(gatewayv1.NamespacesFromAll)}}
	f.putObject(routeKind("Gateway"), allowing)
	for i := range 2500 {
		f.put(set(i, 4) + "---\n" + fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {namespace: web, name: r%d}\n"+
			"spec: {parentRefs: [{kind: ListenerSet, name: s%[1]d}], rules: [{backendRefs: [{name: api, port: 80}]}]}\n", i))
	}
	f.settle()
	f.programShop()
	kind := routeKind("ListenerSet")
	obj, _, _ := kinds[kind](f).GetStore().GetByKey("web/s7")
	before := obj.(*gatewayv1.ListenerSet)
	b.ResetTimer()
	for i := range b.N {
		edited := before.DeepCopy()
		edited.Generation++
		edited.ResourceVersion = fmt.Sprint(f.version + 1 + i)
		edited.Spec.Listeners[0].Hostname = new(gatewayv1.Hostname(fmt.Sprintf("e%d.example.com", i)))
		_ = kinds[kind](f).GetIndexer().Update(edited)
		f.controller.changed("ListenerSet", before, edited)
		must.Do(b, f.syncOnce(context.Background()))
		before = edited
	}
}
