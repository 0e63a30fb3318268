// Package apply makes apply configurations of objects.
package apply

import (
	"encoding/json"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// From returns the apply configuration, of type T, of an object or a part of one. Both have the same JSON. What is zero
// and may be left out is left out.
func From[T any](object any) *T {
	configuration := new(T)
	text, err := json.Marshal(object)
	utilruntime.Must(err) // API types are made to be marshalled
	utilruntime.Must(json.Unmarshal(text, configuration))
	return configuration
}
