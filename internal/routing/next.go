package routing

import (
	"maps"
	"reflect"
	"slices"

	appv1 "gateway/api/app/v1"
)

// Compiled is what a spec was compiled to. It never changes.
type Compiled struct {
	Table Table
	// Problems are what of the spec is not in the table.
	Problems []Problem
	// Backends are what Table.Backends returns.
	Backends []Backend

	// routes are those of the spec, results are what each of them was compiled to.
	routes  []appv1.Route
	results []*compiledRoute
	// redirects are the names of listeners that redirect everything.
	redirects map[string]bool
	// maxSteps is how many steps a list of conditions may take at a hostname.
	maxSteps float64
}

// compiledRoute is what a route was compiled to. It never changes.
type compiledRoute struct {
	// entries have no hostname.
	entries  []Entry
	problems []Problem
	// steps bound what it takes to compare a request with the entries.
	steps float64
	// unattached are the problems with its listeners.
	unattached []Problem
}

// Compile returns the routing table of a spec and what of the spec is not in it. It expects what the CRD's schema
// demands, and applies the schema's defaults, so that a spec that never saw an API server means the same.
func Compile(spec *appv1.GatewaySpec) (Table, []Problem) {
	compiled := Compiled{}.Next(spec)
	return compiled.Table, compiled.Problems
}

// Problems returns those that Compile does, without a table, which has an entry for each match of a route with each of its hostnames at each
// of its listeners: a spec of 50 KB can ask for millions.
func Problems(spec *appv1.GatewaySpec) []Problem {
	compiler := newCompiler(spec, Compiled{})
	compiler.onlyProblems = true
	compiler.compile(spec)
	return compiler.problems
}

// Next makes the same as Compile, and shares with an earlier result the rules of routes that are as they were, and the hosts of such
// routes. The specs of both must not be changed any more.
func (c Compiled) Next(spec *appv1.GatewaySpec) Compiled {
	compiler := newCompiler(spec, c)
	compiler.compile(spec)
	next := Compiled{Table: compiler.table, Problems: compiler.problems, Backends: c.Backends, routes: spec.Routes, results: compiler.results, redirects: compiler.redirects,
		maxSteps: compiler.maxSteps}
	if !slices.EqualFunc(next.Table.Listeners, c.Table.Listeners, sameBackends) {
		next.Backends = next.Table.Backends()
	}
	return next
}

// sameBackends says whether two listeners refer to the same backends, entry by entry.
func sameBackends(a, b Listener) bool {
	return slices.EqualFunc(a.Hosts, b.Hosts, func(a, b *Host) bool {
		return a == b || slices.EqualFunc(a.Entries, b.Entries, func(a, b Entry) bool {
			return a.Rule == b.Rule || slices.EqualFunc(a.Rule.Targets, b.Rule.Targets, func(a, b Target) bool { return a.Backend == b.Backend })
		})
	})
}

// compileRoutes compiles the routes that are not as they were, and finds the hosts that have another route than before, or in another
// order.
func (c *compiler) compileRoutes(routes []appv1.Route) {
	before, next := c.before.routes, 0
	sameListeners := slices.EqualFunc(c.table.Listeners, c.before.Table.Listeners, sameAttachment) && maps.Equal(c.redirects, c.before.redirects)
	touched := map[string]bool{}
	touch := func(route *appv1.Route) {
		for _, hostname := range hostnamesOf(route.Hostnames) {
			touched[string(hostname)] = true
		}
	}
	for i := range routes {
		route := &routes[i]
		place := c.place(route.Name, next)
		// What is passed by here is gone, or comes later than it did.
		for ; next < place; next++ {
			touch(&before[next])
		}
		next = max(next, place+1)
		if place >= 0 && sameRoute(&before[place], route) {
			c.results = append(c.results, c.before.results[place])
			continue
		}
		if place >= 0 {
			touch(&before[place])
		}
		touch(route)
		c.results = append(c.results, compileRoute(route))
	}
	for ; next < len(before); next++ {
		touch(&before[next])
	}
	if sameListeners {
		c.touched = touched
	}
}

// sameAttachment says whether the same routes may belong to two listeners.
func sameAttachment(a, b Listener) bool {
	return a.Name == b.Name && a.Protocol == b.Protocol && a.Hostname == b.Hostname
}

// place returns where the route of a name was before, which may be guessed, or -1.
func (c *compiler) place(name appv1.Name, guess int) int {
	routes := c.before.routes
	if guess < len(routes) && routes[guess].Name == name {
		return guess
	}
	if c.places == nil {
		c.places = make(map[appv1.Name]int, len(routes))
		for i := range routes {
			c.places[routes[i].Name] = i
		}
	}
	if place, ok := c.places[name]; ok {
		return place
	}
	return -1
}

// sameRoute says whether two routes are the same. What most routes have is compared here, which takes a seventh of the time; what
// is forgotten here, a test finds.
func sameRoute(a, b *appv1.Route) bool {
	return a.Name == b.Name && slices.Equal(a.Listeners, b.Listeners) && slices.Equal(a.Hostnames, b.Hostnames) && eachSame(a.Rules, b.Rules, sameRule)
}

func sameRule(a, b *appv1.RouteRule) bool {
	return eachSame(a.Matches, b.Matches, sameMatch) && eachSame(a.BackendRefs, b.BackendRefs, sameRef) && eachSame(a.Filters, b.Filters, same) &&
		same(a.Timeouts, b.Timeouts) && same(a.Retry, b.Retry) && same(a.SessionPersistence, b.SessionPersistence) && sameNumber(a.MaxRequestBytes, b.MaxRequestBytes)
}

func sameMatch(a, b *appv1.RouteMatch) bool {
	return a.Path == b.Path && a.Method == b.Method && slices.Equal(a.Headers, b.Headers) && slices.Equal(a.QueryParams, b.QueryParams)
}

func sameRef(a, b *appv1.BackendRef) bool {
	return a.Name == b.Name && a.Port == b.Port && sameNumber(a.Weight, b.Weight) && eachSame(a.Filters, b.Filters, same)
}

func sameNumber[T int32 | int64](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func eachSame[T any](a, b []T, same func(a, b *T) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !same(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

// same says whether two values are the same, whatever is in them.
func same[T any](a, b *T) bool { return a == b || equal(reflect.ValueOf(a), reflect.ValueOf(b)) }

// equal does for values of the API's types what reflect.DeepEqual does for any, in a sixth of the time and without allocating: they
// have no cycles, whose detection is what that takes.
func equal(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Pointer:
		return a.UnsafePointer() == b.UnsafePointer() || !a.IsNil() && !b.IsNil() && equal(a.Elem(), b.Elem())
	case reflect.Slice:
		if a.Len() != b.Len() || a.IsNil() != b.IsNil() {
			return false
		}
		for i := range a.Len() {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Bool, reflect.Int32, reflect.Int64:
		return a.Equal(b)
	default:
		return reflect.DeepEqual(a.Interface(), b.Interface())
	}
}
