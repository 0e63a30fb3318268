//go:build slow

package gatewayapi

func init() { edits = 100_000 }
