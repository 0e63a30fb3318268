//go:build slow

package agent

func init() { edits = 50_000 }
