package fuzz

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

type object = map[string]any

// generator makes values of a schema. Its numbers come from one source, so the source's seed decides on the value.
type generator struct {
	r *rand.Rand
}

func (g *generator) chance(percent int) bool { return g.r.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.r.IntN(len(from))] }

// value returns a value for the field of this name.
func (g *generator) value(name string, schema object) any {
	if values, ok := schema["enum"].([]any); ok {
		return values[g.r.IntN(len(values))]
	}
	switch schema["type"] {
	case "object":
		return g.object(name, schema)
	case "array":
		return g.array(name, schema)
	case "integer":
		return g.integer(schema)
	case "boolean":
		return g.chance(50)
	case "string":
		if special, ok := g.special(name); ok {
			return special
		}
		return text(g.r, wants(schema))
	}
	return pick[any](g, 1, "1", "100m", "1Gi") // int or string: an amount of a resource
}

func (g *generator) object(name string, schema object) object {
	schema = g.decided(schema)
	value := object{}
	if entries, ok := schema["additionalProperties"].(object); ok {
		for range g.r.IntN(3) {
			value[text(g.r, wanted{most: 63})] = g.value(name+"{}", entries)
		}
	}
	required, _ := schema["required"].([]any)
	properties, _ := schema["properties"].(object)
	for _, field := range slices.Sorted(maps.Keys(properties)) {
		if slices.Contains(required, any(field)) || g.chance(40) {
			value[field] = g.value(name+"."+field, properties[field].(object))
		}
	}
	for least, _ := schema["minProperties"].(float64); len(value) < int(least); {
		field := pick(g, slices.Sorted(maps.Keys(properties))...)
		value[field] = g.value(name+"."+field, properties[field].(object))
	}
	return value
}

// array returns a list of moderate length, and now and then the longest there may be of simple things.
func (g *generator) array(name string, schema object) []any {
	items := schema["items"].(object)
	least, _ := schema["minItems"].(float64)
	most, _ := schema["maxItems"].(float64)
	n := int(least) + g.r.IntN(3)
	switch _, isObject := items["properties"]; {
	case !isObject && g.chance(4):
		n = int(most)
	case g.chance(10):
		n += 5
	}
	list := []any{}
	seen := map[string]bool{}
	// Some are there already, so there are more tries than items wanted.
	for range 4 * n {
		if len(list) >= min(n, int(most)) {
			break
		}
		item := g.value(name+"[]", items)
		if schema["x-kubernetes-list-type"] != "atomic" {
			id := identity(item, schema["x-kubernetes-list-map-keys"])
			if seen[id] {
				continue
			}
			seen[id] = true
		}
		list = append(list, item)
	}
	return list
}

// identity is what may be there once in a list of type set or map.
func identity(item, keys any) string {
	if names, ok := keys.([]any); ok {
		var id []any
		for _, name := range names {
			id = append(id, item.(object)[name.(string)])
		}
		item = id
	}
	text, err := json.Marshal(item)
	if err != nil {
		panic(err) // made of what JSON has
	}
	return string(text)
}

// integer returns a number at or near a limit, or any.
func (g *generator) integer(schema object) int64 {
	least, _ := schema["minimum"].(float64)
	most, ok := schema["maximum"].(float64)
	if !ok {
		most = 1<<31 - 1
	}
	switch g.r.IntN(4) {
	case 0:
		return int64(least)
	case 1:
		return int64(most)
	case 2:
		return int64(least) + g.r.Int64N(min(10, int64(most)-int64(least)+1))
	}
	return int64(least) + g.r.Int64N(int64(most)-int64(least)+1)
}

var patterns = map[string]wanted{}

// compiled returns what a pattern says of a string. The map of patterns is filled before there are several goroutines.
func compiled(pattern string) wanted {
	known, ok := patterns[pattern]
	if !ok {
		known = wanted{pattern: regexp.MustCompile(pattern), most: 1024}
		known.parsed, _ = syntax.Parse(pattern, syntax.Perl)
		patterns[pattern] = known
	}
	return known
}

// wants returns what the schema of a string says.
func wants(schema object) wanted {
	w := wanted{most: 1024}
	if pattern, ok := schema["pattern"].(string); ok {
		w = compiled(pattern)
	}
	if not, ok := at(schema, "not", "pattern").(string); ok {
		w.not = compiled(not).pattern
	}
	alternatives, _ := schema["anyOf"].([]any)
	for _, alternative := range alternatives {
		w.anyOf = append(w.anyOf, wants(alternative.(object)))
	}
	if n, ok := schema["minLength"].(float64); ok {
		w.least = int(n)
	}
	if n, ok := schema["maxLength"].(float64); ok {
		w.most = int(n)
	}
	return w
}

// prepare fills the map of patterns.
func prepare(schema any) {
	switch schema := schema.(type) {
	case object:
		if schema["type"] == "string" || schema["pattern"] != nil {
			wants(schema)
		}
		for _, sub := range schema {
			prepare(sub)
		}
	case []any:
		for _, sub := range schema {
			prepare(sub)
		}
	}
}

// special returns strings for fields of which the schema says more in CEL than in a pattern, and names that several
// fields have to share.
func (g *generator) special(name string) (string, bool) {
	last := name[strings.LastIndex(name, ".")+1:]
	switch {
	case last == "trustedProxies[]":
		return g.cidr(), true
	case last == "absoluteTimeout":
		return pick(g, "1s", "1000ms", "99999h", "99999h99999h99999h99999h", "1h1m1s1ms", fmt.Sprintf("%dm", 1+g.r.IntN(9999))), true
	case last == "interval" || last == "timeout":
		return pick(g, "100ms", "1h", "60m", "1s500ms", fmt.Sprintf("%dms", 100+g.r.IntN(9000))), true
	case last == "queueTimeout":
		return pick(g, "1ms", "24h", "1s", fmt.Sprintf("%dms", 1+g.r.IntN(9000))), true
	case strings.HasPrefix(name, "spec.backends[].name") || strings.HasSuffix(name, "ackendRefs[].name"):
		if g.chance(70) {
			return pick(g, "api", "shop", "if", strings.Repeat("s", 63)), true
		}
	case strings.HasSuffix(last, "ostname") || last == "hostnames[]":
		if g.chance(60) {
			return pick(g, "example.com", "shop.example.com", "a.b.c.example.com", "0", "1.2.3.4", strings.Repeat("a", 63)+strings.Repeat(".b", 95)), true
		}
	}
	return "", false
}

func (g *generator) cidr() string {
	if g.chance(30) {
		return fmt.Sprintf("2001:db8:%x::/%d", g.r.IntN(1<<16), g.r.IntN(129))
	}
	return pick(g, "0.0.0.0/0", "::/0", "fd00::/8", "10.1.2.3/8", "255.255.255.255/32",
		fmt.Sprintf("%d.%d.%d.0/%d", g.r.IntN(256), g.r.IntN(256), g.r.IntN(256), g.r.IntN(33)))
}
