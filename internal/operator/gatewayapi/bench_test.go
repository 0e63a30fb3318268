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
