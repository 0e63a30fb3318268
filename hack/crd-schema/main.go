// Command crd-schema adds to a generated CRD what controller-gen has no marker for and CEL, whose cost is bounded for
// the largest object there could be, is too dear for: what one field says about another, in lists within lists.
//
// Usage: crd-schema FILE
package main

import (
	"fmt"
	"maps"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

// The parts of a path in a URL.
const (
	dot       = `(\.|%2[Ee])`
	character = `[-A-Za-z0-9_~!$&'()*+,;=:@]`
	encoded   = `%([1346-9A-Fa-f][0-9A-Fa-f]|0[1-9A-Fa-f]|2[0-9A-Da-d]|5[0-9ABD-Fabd-f])`
	// segment is anything but "." and "..", encoded or not, and nothing.
	segment = `((` + dot + `{0,2}(` + character + `|` + encoded + `)|` + dot + `{3})(` + character + `|` + encoded + `|` + dot + `)*)`
)

// literalPath is a path whose segments are none that requests are refused for.
const literalPath = `^/(` + segment + `/)*(` + segment + `)?$`

// withoutStars is such a path without stars. Whoever denies /admin/* means the paths below it, and would deny none.
var withoutStars = strings.ReplaceAll(literalPath, "()*+,", "()+,")

// framing are the headers that say where a message ends, where it goes and how its connection works. Who could change
// them could smuggle requests. Some backends take other signs for the hyphen.
const framing = `(?i)^(host|content[-_.]length|transfer[-_.]encoding|connection|keep[-_.]alive|proxy[-_.]connection|te|trailer|upgrade|http2[-_.]settings|expect)$`

// contentType is the header that a direct response has a field for.
const contentType = `(?i)^content[-_.]type$`

type schema = map[string]any

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "crd-schema: %v\n", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("want one file, got %d", len(arguments))
	}
	content, err := os.ReadFile(arguments[0])
	if err != nil {
		return err
	}
	var crd schema
	if err := yaml.Unmarshal(content, &crd); err != nil {
		return fmt.Errorf("failed to parse %s: %w", arguments[0], err)
	}
	for _, version := range crd["spec"].(schema)["versions"].([]any) {
		spec := at(version.(schema)["schema"].(schema)["openAPIV3Schema"].(schema), "spec")
		if spec["properties"].(schema)["routes"] == nil { // a RouteFilter or GatewayConfig
			addFilters(at(spec, "filters"))
			continue
		}
		rule := at(spec, "routes", "rules")
		addPaths(at(rule, "matches", "path"))
		addUnion(at(rule, "backendRefs", "filters"))
		addHeaders(at(rule, "backendRefs", "filters"))
		addFilters(at(rule, "filters"))
		addFilters(at(spec, "listeners", "filters"))
	}
	if content, err = yaml.Marshal(crd); err != nil {
		return fmt.Errorf("failed to write the schema: %w", err)
	}
	return os.WriteFile(arguments[0], append([]byte("---\n"), content...), 0o644)
}

// addFilters adds what one field of a filter says about another.
func addFilters(filter schema) {
	addUnion(filter)
	addUnion(at(filter, "requestRedirect", "path"))
	addUnion(at(filter, "urlRewrite", "path"))
	addHeaders(filter)
	addCredentials(at(filter, "cors"))
	addKey(at(filter, "rateLimit", "limits", "key"))
	addKey(at(filter, "rateLimit", "concurrent", "key"))
	addAuthHeaders(filter)
	addCredentialSource(at(filter, "apiKey", "from"))
	addCredentialSource(at(filter, "jwt", "from"))
	at(filter, "authorization", "rules", "paths")["pattern"] = withoutStars
	either(at(filter, "responseOverride", "responses"), "body", "backendRef")
}

// either makes an object have one of its fields, and not the other.
func either(object schema, fields ...string) {
	var one []any
	for _, field := range fields {
		one = append(one, schema{"required": []any{field}})
	}
	object["oneOf"] = one
}

// at returns the schema of a field below another, through lists.
func at(from schema, path ...string) schema {
	for _, name := range path {
		from = from["properties"].(schema)[name].(schema)
		if items, ok := from["items"].(schema); ok {
			from = items
		}
	}
	return from
}

// unless is a schema for what meets a condition, or else has a field with one of the other values. The API server
// reports the problems of the former.
func unless(condition schema, field string, others ...any) schema {
	return schema{"anyOf": []any{condition, schema{"properties": schema{field: schema{"enum": others}}}}}
}

// addPaths makes the type of a path decide what its value may be; the characters that both kinds may have are the
// field's own pattern. There are as few schemas as possible: for each path of each route, the API server makes a
// validator of every one.
func addPaths(path schema) {
	literal := schema{"properties": schema{"value": schema{"pattern": literalPath}}}
	maps.Copy(path, unless(literal, "type", "RegularExpression"))
}

// addUnion makes the type of an object decide which of the other fields it has; the struct allows no second one. What
// is not the type comes last: the API server tells the problems of the first of several that fit as well.
func addUnion(object schema) {
	properties := object["properties"].(schema)
	var all []any
	for _, kind := range properties["type"].(schema)["enum"].([]any) {
		for name := range properties {
			if strings.EqualFold(name, kind.(string)) {
				isKind := schema{"properties": schema{"type": schema{"enum": []any{kind}}}}
				all = append(all, schema{"anyOf": []any{schema{"required": []any{name}}, schema{"not": isKind}}})
			}
		}
	}
	object["allOf"] = all
}

// addKey makes the type of what requests are counted by decide whether it has a name, and what that may be.
func addKey(key schema) {
	key["anyOf"] = []any{
		schema{"required": []any{"name"}, "properties": schema{"type": schema{"enum": []any{"Header", "Cookie", "Claim"}}}},
		schema{"maxProperties": 1, "properties": schema{"type": schema{"enum": []any{"ClientAddress", "Path", "Rule", "Client"}}}},
	}
	plain := schema{"name": schema{"pattern": `^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+)*$`}}
	key["allOf"] = []any{schema{"anyOf": []any{schema{"properties": plain}, schema{"properties": schema{"type": schema{"enum": []any{"Claim"}}}}}}}
}

// modified is the pattern of the API's type ModifiedHeaderName.
const modified = `^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`

// addHeaders keeps framing headers from being changed, wherever a filter names headers to change.
func addHeaders(from schema) {
	if from["pattern"] == modified {
		refuseFraming(from)
	}
	if items, ok := from["items"].(schema); ok {
		addHeaders(items)
	}
	properties, _ := from["properties"].(schema)
	for _, property := range properties {
		addHeaders(property.(schema))
	}
}

// addAuthHeaders keeps framing headers from being passed on.
func addAuthHeaders(filter schema) {
	refuse(at(filter, "directResponse", "headers", "name"), "Content-Type and those that frame a message and its connection", contentType+"|"+framing)
	refuseFraming(at(filter, "basicAuth", "clientHeader"))
	refuseFraming(at(filter, "apiKey", "clientHeader"))
	refuseFraming(at(filter, "externalAuth", "requestHeaders"))
	refuseFraming(at(filter, "externalAuth", "responseHeaders"))
}

// addCredentialSource makes the name of a header be one that requests can have and the proxies may remove.
func addCredentialSource(source schema) {
	name := schema{"pattern": `^[A-Za-z0-9-]+$`}
	refuseFraming(name)
	maps.Copy(source, unless(schema{"properties": schema{"name": name}}, "type", "QueryParam", "Cookie"))
}

func refuseFraming(header schema) {
	refuse(header, "those that frame a message and its connection", framing)
}

// noName returns a pattern that no name of a header matches: it is what the API server says of one that is refused.
func noName(what string) string { return "^any header but " + what + ", see kubectl explain$" }

// refuse makes the API server refuse headers by their names.
func refuse(header schema, what, pattern string) {
	header["anyOf"] = []any{schema{"pattern": noName(what)}, schema{"not": schema{"pattern": pattern}}}
}

// addCredentials refuses credentials from any origin.
func addCredentials(cors schema) {
	cors["anyOf"] = []any{
		schema{"properties": schema{"allowOrigins": schema{"items": schema{"pattern": "^https?://"}}}},
		schema{"properties": schema{"allowCredentials": schema{"enum": []any{false}}}},
	}
}
