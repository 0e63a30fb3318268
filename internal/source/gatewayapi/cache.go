package gatewayapi

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cache keeps what the rules of each route were translated to, by the route's object, so that an edit of one route
// costs nothing for the others. Objects are told apart by their pointers: informers replace objects and never change
// them. Whoever has a Cache takes a new one when a Service changes. The zero value is empty.
type Cache struct {
	routes map[metav1.Object]*route
	// references are the other objects that rules depend on.
	references map[metav1.Object]bool
}

// prepare forgets everything if another object that rules depend on is there, or one is gone.
func (c *Cache) prepare(objects *Objects) {
	references := map[metav1.Object]bool{}
	addAll(references, objects.Policies)
	addAll(references, objects.Grants)
	addAll(references, objects.Filters)
	if !maps.Equal(c.references, references) {
		c.routes, c.references = nil, references
	}
}

func addAll[T metav1.Object](all map[metav1.Object]bool, objects []T) {
	for _, object := range objects {
		all[object] = true
	}
}

// addRoute adds a route, which it translates unless the Cache has it.
func (t *translator) addRoute(object metav1.Object, translate func() *route) {
	r := t.Cache.routes[object]
	if r == nil {
		r = translate()
	}
	t.kept[object] = r
	// What follows is about one translation.
	t.allRoutes = append(t.allRoutes, *r)
	t.routes = append(t.routes, &t.allRoutes[len(t.allRoutes)-1])
}
