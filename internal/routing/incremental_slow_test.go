//go:build slow

package routing_test

func init() { edits = 50_000 }
