package main

import (
	"testing"

	"k8s.io/client-go/tools/cache"
)

// BenchmarkSteadyState is a sync that finds nothing to do: what a resync costs per Gateway.
func BenchmarkSteadyState(b *testing.B) {
	f := newFixture(b, newGateway(), newService("api", 8080), newSlice("a", "b"))
	f.settle()
	for b.Loop() {
		if err := f.controller.syncHandler(ctx, cache.NewObjectName("web", "shop")); err != nil {
			b.Fatal(err)
		}
	}
	f.expectWrites(f.writes())
}
