package gatewayapi

import (
	"context"
	"fmt"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
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
			f.program("web", "shop")
			f.settle()
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
				if err := f.syncOnce(context.Background()); err != nil {
					b.Fatal(err)
				}
				before = edited
			}
		})
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
	f.program("web", "shop")
	f.settle()
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
		if err := f.syncOnce(context.Background()); err != nil {
			b.Fatal(err)
		}
		before = edited
	}
}
