// Package artifacts has the CustomResourceDefinitions in it, for programs that check objects against them.
package artifacts

import "embed"

// CRDs are the files of crd.
//
//go:embed crd/*.yaml
var CRDs embed.FS
