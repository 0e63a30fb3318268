package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/internal/model"
)

// refused returns what the API server would have against an object: an error for each problem, by lines, with what to
// write instead.
func (d Document) refused(problems []admission.Problem) error {
	causes := slices.DeleteFunc(slices.Clone(problems), func(p admission.Problem) bool { return d.follows(p, problems) })
	if len(causes) > 0 { // else each follows from another one, and none may be silent
		problems = causes
	}
	slices.SortStableFunc(problems, func(a, b admission.Problem) int { return d.lineOf(a.Field) - d.lineOf(b.Field) })
	errs := make([]error, len(problems))
	for i, problem := range problems {
		errs[i] = fmt.Errorf("%s: %s: %s", d.At(problem.Field), d, d.words(problem))
	}
	return errors.Join(errs...)
}

// follows reports whether a problem is a consequence of another one, or announces it.
func (d Document) follows(p admission.Problem, all []admission.Problem) bool {
	parent, name := cutField(p.Field)
	return slices.ContainsFunc(all, func(cause admission.Problem) bool {
		at, causeName := cutField(cause.Field)
		isWrongValue := cause.Type == field.ErrorTypeTypeInvalid || strings.Contains(cause.Text, "should match '")
		switch {
		case cause.Field == p.Field && cause.Text == p.Text:
			return false
		case p.Field == "<nil>" || strings.Contains(p.Text, " evaluating rule: "):
			return true
		case cause.Type == field.ErrorTypeTypeInvalid && (p.Field == cause.Field || strings.HasPrefix(p.Field, cause.Field+".")):
			return true // what is in something else is unknown
		case isWrongValue && p.Field == at:
			return true // a rule about several fields, of which one is wrong by itself
		case causeName == "type" && at == parent && cause.Type == field.ErrorTypeRequired:
			return name != "type" && (p.Type != admission.FieldUnknown || d.near(p) != "type") // what a filter needs goes by its type
		case causeName == "type" && at == parent && cause.Type == field.ErrorTypeNotSupported:
			return p.Type == admission.FieldUnknown && d.home(p) != "" // a filter of another kind
		case cause.Type == admission.FieldUnknown && at == parent && p.Type == field.ErrorTypeRequired:
			return d.near(cause) == name || at == "" && name == "spec"
		}
		return false
	})
}

// cutField returns the object that a field is in, and the name of the field.
func cutField(path string) (parent, name string) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// fieldOf returns what the CRD of the document's kind has about a field.
func (d Document) fieldOf(path string) admission.Field {
	return admission.FieldOf(d.Object.GroupVersionKind().GroupKind(), path)
}

// words returns a problem of a field, with what to write.
func (d Document) words(p admission.Problem) string {
	parent, name := cutField(p.Field)
	switch p.Type {
	case admission.FieldUnknown:
		text := fmt.Sprintf("unknown field %q", p.Field)
		if name == "namespace" {
			return text + ": the object has to be in the namespace of this one: leave it out"
		}
		if near := d.near(p); near != "" {
			return fmt.Sprintf("%s: do you mean %s?", text, near)
		}
		if home := d.home(p); home != "" {
			return text + ": " + home
		}
		if parent == "" && slices.Contains(d.fieldOf("spec").Names, name) {
			return text + ": put it below spec"
		}
		if names := d.fieldOf(parent).Names; len(names) > 0 {
			return fmt.Sprintf("%s: there are %s", text, model.Some(names, 12))
		}
		return text
	case field.ErrorTypeTypeInvalid:
		return d.wrongType(p)
	case field.ErrorTypeNotSupported:
		return d.unsupported(p)
	case field.ErrorTypeRequired:
		if name == "type" {
			return p.Text + d.missingType(parent)
		}
	}
	return Plain(p.Text)
}

// near returns the field that an unknown one may be meant for, "" if there is none that is like it.
func (d Document) near(p admission.Problem) string {
	parent, name := cutField(p.Field)
	names := d.fieldOf(parent).Names
	if near := Similar(name, names); near != "" && (d.home(p) == "" || distance(near, name) <= 1) {
		return near
	}
	return ""
}

// homes are the places of fields that are often written elsewhere, and what to do with them.
var homes = []struct {
	group, kind, path, do string
}{
	{ownGroup, "RouteFilter", "spec.filters[]", "put it into a RouteFilter, which the rule names in an extensionRef, see " + gatewayAPIPage},
	{ownGroup, "RouteFilter", "spec", "put it into a RouteFilter, which the rule names in an extensionRef, see " + gatewayAPIPage},
	{ownGroup, "BackendPolicy", "spec", "put it into a BackendPolicy for the Service, see " + gatewayAPIPage},
	{ownGroup, "GatewayConfig", "spec", "put it into a GatewayConfig, which the Gateway names in spec.infrastructure.parametersRef, see " + gatewayAPIPage},
	{ownGroup, "Gateway", "spec", "only the kind Gateway of app.example.com/v1 has it. Here, write HTTPRoutes and BackendPolicies, see " + gatewayAPIPage},
	{ownGroup, "Gateway", "spec.listeners[]", "only the kind Gateway of app.example.com/v1 has it"},
	{apiGroup, "Gateway", "spec", "only the kind Gateway of gateway.networking.k8s.io/v1 has it, see " + gatewayAPIPage},
	{apiGroup, "Gateway", "spec.listeners[]", "only the kind Gateway of gateway.networking.k8s.io/v1 has it, see " + gatewayAPIPage},
	{apiGroup, "HTTPRoute", "spec", "only the kind HTTPRoute of gateway.networking.k8s.io/v1 has it, see " + gatewayAPIPage},
}

const (
	ownGroup       = "app.example.com"
	apiGroup       = "gateway.networking.k8s.io"
	gatewayAPIPage = "docs/features/gateway-api.md"
)

// home returns where an unknown field belongs, "" if no other kind has it there.
func (d Document) home(p admission.Problem) string {
	parent, name := cutField(p.Field)
	kind := d.Object.GroupVersionKind().GroupKind()
	if parent == "" {
		return ""
	}
	for _, home := range homes {
		of := schema.GroupKind{Group: home.group, Kind: home.kind}
		if of == kind && home.path == anyIndex.ReplaceAllString(parent, "[]") || kind.Group == ownGroup && kind.Kind == "Gateway" && home.group == ownGroup {
			continue
		}
		if strings.Contains(parent, "listeners[") && (home.kind == "BackendPolicy" || home.kind == "RouteFilter") {
			continue
		}
		if isRoute := strings.HasSuffix(kind.Kind, "Route"); isRoute && home.kind == "GatewayConfig" || !isRoute && strings.Contains(home.do, "the rule names") && kind.Group == apiGroup {
			continue
		}
		if slices.Contains(admission.FieldOf(of, home.path).Names, name) {
			return home.do
		}
	}
	return ""
}

var anyIndex = regexp.MustCompile(`\[\d+\]`)

// unsupported returns a value that is none of those that there are, with the one that may be meant.
func (d Document) unsupported(p admission.Problem) string {
	value, _ := d.value(p.Field).(string)
	values := d.fieldOf(p.Field).Values
	filters := admission.FieldOf(schema.GroupKind{Group: ownGroup, Kind: "RouteFilter"}, "spec.filters[].type").Values
	if _, name := cutField(p.Field); name == "type" && strings.HasSuffix(d.Object.GetKind(), "Route") && slices.Contains(filters, value) {
		return fmt.Sprintf("%s: Unsupported value: %q: %s", p.Field, value, homes[0].do)
	}
	if near := Similar(value, values); near != "" {
		return fmt.Sprintf("%s: Unsupported value: %q: do you mean %s?", p.Field, value, near)
	}
	return Plain(p.Text)
}

// missingType returns which type a filter without one is of, going by its fields.
func (d Document) missingType(of string) string {
	object, _ := d.value(of).(map[string]any)
	values := d.fieldOf(of + ".type").Values
	for name := range object {
		for _, value := range values {
			if strings.EqualFold(name, value) {
				return fmt.Sprintf(": it is %s, as there is %s", value, name)
			}
		}
	}
	if len(values) == 0 {
		return ""
	}
	return ": it is one of " + strings.Join(values, ", ")
}

// byteSize is a number of bytes as people write it, with a unit.
var byteSize = regexp.MustCompile(`^(\d{1,6}) ?([kKmMgG])[iI]?[bB]?$`)

// wrongType returns a value of a wrong type, and what to write.
func (d Document) wrongType(p admission.Problem) string {
	value, of := d.value(p.Field), d.fieldOf(p.Field)
	content, err := json.Marshal(value)
	if err != nil || of.Type == "" {
		return Plain(p.Text)
	}
	_, name := cutField(p.Field)
	text, isText := value.(string)
	is, write := "", ""
	switch of.Type {
	case "string":
		is, write = "text", strconv.Quote(string(content))
		if list, _ := value.([]any); len(list) == 1 {
			write = fmt.Sprintf("%q, without brackets", fmt.Sprint(list[0]))
		}
		if example := form(of.Pattern); example == durationForm {
			write = "a duration, like " + durationForm
		}
	case "integer":
		is = "a whole number"
		size := byteSize.FindStringSubmatch(text)
		switch _, err := strconv.ParseInt(text, 10, 64); {
		case isText && err == nil:
			write = text + ", without quotes"
		case size != nil && strings.Contains(name, "Bytes"):
			bytes, _ := strconv.ParseInt(size[1], 10, 64)
			write = strconv.FormatInt(bytes<<map[string]int{"k": 10, "m": 20, "g": 30}[strings.ToLower(size[2])], 10)
		}
	case "boolean":
		is, write = "true or false", "it without quotes"
	case "array":
		is, write = "a list", "["+string(content)+"]"
		if !isText {
			write = `"- " before it`
		}
	case "object":
		is = "an object"
		if write = "it with its fields: " + model.Some(of.Names, 12); isText && slices.Contains(of.Names, "name") {
			write = fmt.Sprintf("{name: %s}", text)
		} else if len(of.Names) == 0 {
			write = ""
		}
	}
	if write != "" {
		write = ": write " + write
	}
	shown := string(content) + ": "
	if len(content) > 60 || content[0] == '{' {
		shown = ""
	}
	return fmt.Sprintf("%s: Invalid value: %smust be %s%s", p.Field, shown, is, write)
}

// value returns what a document has at a field, nil if it has nothing.
func (d Document) value(path string) any {
	var at any = d.Object.Object
	for name := range strings.SplitSeq(path, ".") {
		name, indexes, _ := strings.Cut(name, "[")
		object, _ := at.(map[string]any)
		at = object[name]
		for _, index := range strings.FieldsFunc(indexes, func(r rune) bool { return r == '[' || r == ']' }) {
			number, err := strconv.Atoi(index)
			list, _ := at.([]any)
			if err != nil || number >= len(list) {
				return nil
			}
			at = list[number]
		}
	}
	return at
}
