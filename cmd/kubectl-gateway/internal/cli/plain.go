package cli

import (
	"fmt"
	"regexp"
	"strings"
)

// maxPattern is how long an expression may be that somebody is shown.
const maxPattern = 45

// forms are what those expressions of the CRD ask for that say it to few.
var forms = map[string]string{
	`^([0-9]{1,5}(h|m|s|ms)){1,4}$`:                                            "must be like 500ms, 10s or 1m30s",
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`:                                          "must be lower-case letters, digits and -, with no - at its ends",
	`^[a-z]([-a-z0-9]*[a-z0-9])?$`:                                             "must be lower-case letters, digits and -, with a letter first and no - at its end",
	`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`:                                 "must be letters, digits and -, with no - at its ends",
	`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`:                               headerName,
	`^(\*|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)$`:                          headerName + ", or *",
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`:        "must be a DNS name in lower case",
	`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`: "must be a hostname in lower case, or *. and a hostname",
	`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`:                                     labelKey,
	`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`:                                        labelKey,
	`^(\*|https?://(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?)$`:                                              "must be * or an origin, like https://shop.example.com",
	`^[A-Za-z0-9!#&^_.+-]+/[A-Za-z0-9!#&^_.+-]+( *; *[A-Za-z0-9!#&^_.+-]+=[A-Za-z0-9!#&^_.+-]+)*$`:                                                           "must be a media type, like text/plain",
	`^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`:                                      "must be a quantity, like 500m or 1Gi",
	`^([0-9]{1,3}(\.[0-9]{1,3}){3}/([0-9]|[12][0-9]|3[0-2])|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8]))$`:                           "must be a range of addresses, like 10.0.0.0/8 or fd00::/8",
	"^https://([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*|\\[[0-9a-f:.]+\\])(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?$":  "must be a URL with https, like https://id.example.com/jwks.json",
	`^([A-Za-z0-9_:@-]|\\[.])+([.]([A-Za-z0-9_:@-]|\\[.])+)*$|^https?://([A-Za-z0-9:-]|\\[.])+(/([A-Za-z0-9_:@/~-]|\\[.])*([.]([A-Za-z0-9_:@-]|\\[.])+)*)?$`: claim,
	"^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$":                                                                                                    path,
}

const (
	labelKey = "must be a key, like app or example.com/app"
	claim    = `must be the name of a claim, like groups or realm.roles, with \. for a dot of a name, like https://example\.com/groups`
	path     = "must begin with / and have only characters of paths in URLs, others percent-encoded"
	// segments begins the expression for paths without empty, . and .. segments.
	segments   = `^/((((\.|%2[Ee]){0,2}`
	headerName = "must be letters, digits, -, _ and ., with a letter or digit at its ends"
)

var (
	// inBody is a problem that repeats its field, as those of the schema do.
	inBody      = regexp.MustCompile(`^(\S+): Invalid value: (.*): (\S+) in body (.*)$`)
	ofType      = regexp.MustCompile(`^must be of type (\w+): "(\w+)"$`)
	shouldMatch = regexp.MustCompile(`^should match '(.*)'$`)
	anyOf       = regexp.MustCompile(`^<nil>: Invalid value: "": "(\S+)" must validate (?:at least one|one and only one|all the) schemas? \(\w+\)$`)
	// ofPatch is what server-side apply says of a field whose type is another one.
	ofPatch = regexp.MustCompile(`\.(\S+): expected (numeric|\w+)(?: \(int or float\))?, got (\w+)`)
	patch   = regexp.MustCompile(`^failed to create typed patch object \([^)]*\): (?:errors:)?\s*`)
	// ofGo is what decoding a file says of a field whose type is another one.
	ofGo = regexp.MustCompile(`json: cannot unmarshal (\w+) into Go struct field \w+\.(\S+) of type (\S+)`)
)

// typeNames are what YAML calls the types of JSON schemas and of Go, as far as fields have them.
var typeNames = map[string]string{
	"integer": "an integer", "number": "a number", "string": "a string", "boolean": "true or false", "array": "a list", "object": "a map",
	"null": "null", "bool": "true or false", "numeric": "a number", "list": "a list", "map": "a map",
}

// Plain says in plain words what the API server, or its code, has against an object: each problem is a field and what is
// wrong with it.
func Plain(problems []string) []string {
	var all []string
	for _, problem := range problems {
		if match := anyOf.FindStringSubmatch(problem); match != nil && len(problems) > 1 {
			continue // another problem says what that is about
		}
		all = append(all, plain(problem))
	}
	return all
}

func plain(problem string) string {
	match := inBody.FindStringSubmatch(problem)
	if match == nil || match[1] != match[3] {
		return problem
	}
	field, value, wrong := match[1], match[2], match[4]
	if match := ofType.FindStringSubmatch(wrong); match != nil {
		return fmt.Sprintf("%s: must be %s, not %s", field, typeName(match[1]), typeName(match[2]))
	}
	if match := shouldMatch.FindStringSubmatch(wrong); match != nil {
		return fmt.Sprintf("%s: %s %s", field, value, form(match[1], field))
	}
	return fmt.Sprintf("%s: Invalid value: %s: %s", field, value, wrong)
}

// PlainPatch says in plain words why server-side apply does not take an object, if that is about types.
func PlainPatch(message string) string {
	if !patch.MatchString(message) || !ofPatch.MatchString(message) {
		return message
	}
	message = strings.ReplaceAll(strings.TrimSpace(patch.ReplaceAllString(message, "")), "\n", ";")
	return "the API server refuses it: " + ofPatch.ReplaceAllStringFunc(message, func(text string) string {
		match := ofPatch.FindStringSubmatch(text)
		return fmt.Sprintf("%s: must be %s, not %s", match[1], typeName(match[2]), typeName(match[3]))
	})
}

// form says what an expression asks for.
func form(pattern, field string) string {
	switch {
	case forms[pattern] != "":
		return forms[pattern]
	case strings.HasPrefix(pattern, segments):
		return path + ", and no empty, . or .. segments"
	case strings.HasPrefix(pattern, "^any "): // it is in words
		return "must be " + strings.Trim(pattern, "^$")
	case len(pattern) <= maxPattern:
		return fmt.Sprintf("must match %s", pattern)
	}
	return "has not the form that it must have: see kubectl explain gateways.app.example.com." + indexes.ReplaceAllString(field, "")
}

var indexes = regexp.MustCompile(`\[[^\]]*\]`)

// plainDecoding says in YAML's words that a field is of another type than the object has.
func plainDecoding(message string) string {
	return ofGo.ReplaceAllStringFunc(message, func(text string) string {
		match := ofGo.FindStringSubmatch(text)
		return fmt.Sprintf("%s: must be %s, not %s", match[2], goType(match[3]), typeName(match[1]))
	})
}

func typeName(name string) string {
	if words := typeNames[name]; words != "" {
		return words
	}
	return name
}

// goType is what YAML calls a type of Go.
func goType(name string) string {
	switch {
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return typeNames["integer"]
	case strings.HasPrefix(name, "[]"):
		return typeNames["array"]
	case strings.HasPrefix(name, "map["), strings.Contains(name, "."):
		return typeNames["object"]
	}
	return typeName(name)
}
