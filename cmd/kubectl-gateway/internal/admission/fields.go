package admission

import (
	"maps"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Field is what a CRD has about a field.
type Field struct {
	// Type is string, integer, boolean, array or object; "" if the field is unknown, or may have several.
	Type string
	// Names are the fields that it may have, sorted, and Required those that it must have.
	Names, Required []string
	// Pattern is an expression that its text has to match, and Values are the ones that there are; if any.
	Pattern string
	Values  []string
}

// FieldOf returns what the CRD of a kind has about a field, such as spec.rules[0]. Indexes do not matter.
func FieldOf(kind schema.GroupKind, path string) Field {
	definition, ok := definitions[kind]
	if !ok {
		return Field{}
	}
	c, err := definition()
	if err != nil {
		return Field{}
	}
	at := c.structural
	for name := range strings.SplitSeq(path, ".") {
		name, indexes, _ := strings.Cut(name, "[")
		next, ok := at.Properties[name]
		if !ok {
			return Field{}
		}
		at = &next
		for range strings.Count(indexes, "]") {
			if at = element(at); at == nil {
				return Field{}
			}
		}
	}
	return fieldOf(at)
}

// element returns the schema of the elements of a list, or of the values of a map; nil: there are none.
func element(of *structuralschema.Structural) *structuralschema.Structural {
	if of.AdditionalProperties != nil {
		return of.AdditionalProperties.Structural
	}
	return of.Items
}

func fieldOf(at *structuralschema.Structural) Field {
	found := Field{Type: at.Type, Names: slices.Sorted(maps.Keys(at.Properties))}
	if rules := at.ValueValidation; rules != nil {
		found.Required, found.Pattern = rules.Required, rules.Pattern
		for _, value := range rules.Enum {
			if text, ok := value.Object.(string); ok {
				found.Values = append(found.Values, text)
			}
		}
	}
	return found
}
