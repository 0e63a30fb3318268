//go:build slow

package gatewayapi_test

func init() { edits = 4000 }
