package fuzz

import (
	"maps"
	"regexp"
	"slices"
)

// hasRule is a CEL rule, or a part of one, by which the value of a field decides whether there is another field.
var hasRule = regexp.MustCompile(`\(self\.(\w+) == '(\w+)'\) == has\(self\.(\w+)\)`)

// chooser chooses values of the fields of an object on which something else turns, and keeps what follows from them.
type chooser struct {
	g      *generator
	schema object
	chosen object
}

// decided returns the schema of an object with such fields chosen: what other fields may be, or must be there, then
// depends on nothing any more.
func (g *generator) decided(schema object) object {
	c := chooser{g, schema, object{}}
	rules, _ := schema["x-kubernetes-validations"].([]any)
	for _, rule := range rules {
		for _, m := range hasRule.FindAllStringSubmatch(rule.(object)["rule"].(string), -1) {
			if c.value(m[1]) == any(m[2]) {
				c.add(object{"required": []any{m[3]}})
			} else {
				c.remove(m[3])
			}
		}
	}
	// Of alternatives that turn on no field, one is chosen.
	if alternatives, ok := schema["anyOf"].([]any); ok {
		c.add(alternatives[g.r.IntN(len(alternatives))].(object))
	}
	// An implication has two alternatives: what must be, or that a field is not what it turns on, or is what turns it off.
	implications, _ := schema["allOf"].([]any)
	for _, implication := range implications {
		alternatives := at(implication, "anyOf").([]any)
		fields, turnsOn := at(alternatives[1], "not", "properties").(object)
		if !turnsOn {
			fields = at(alternatives[1], "properties").(object)
		}
		field := sortedKeys(fields)[0]
		if slices.Contains(at(fields, field, "enum").([]any), c.value(field)) == turnsOn {
			c.add(alternatives[0].(object))
		}
	}
	required, _ := c.schema["required"].([]any)
	if most, ok := c.schema["maxProperties"].(float64); ok && len(required) == int(most) {
		c.only(required)
	}
	return c.schema
}

// value returns the value of a field, which is chosen now if it was not before.
func (c *chooser) value(field string) any {
	if value, ok := c.chosen[field]; ok {
		return value
	}
	property := at(c.schema, "properties", field).(object)
	value := pick(c.g, property["enum"].([]any)...)
	c.chosen[field] = value
	c.add(object{"properties": object{field: object{"enum": []any{value}}}})
	if value != property["default"] {
		c.add(object{"required": []any{field}})
	}
	return value
}

func (c *chooser) add(with object) { c.schema = merged(c.schema, with) }

func (c *chooser) remove(field string) {
	properties := maps.Clone(c.schema["properties"].(object))
	delete(properties, field)
	c.schema = maps.Clone(c.schema)
	c.schema["properties"] = properties
}

func (c *chooser) only(fields []any) {
	for field := range c.schema["properties"].(object) {
		if !slices.Contains(fields, any(field)) {
			c.remove(field)
		}
	}
}

// merged returns a schema with what another says added.
func merged(schema, with object) object {
	result := maps.Clone(schema)
	for key, value := range with {
		had, isObject := result[key].(object)
		list, isList := result[key].([]any)
		switch {
		case isObject:
			result[key] = merged(had, value.(object))
		case isList && key == "required":
			all := slices.Clone(list)
			for _, field := range value.([]any) {
				if !slices.Contains(all, field) {
					all = append(all, field)
				}
			}
			result[key] = all
		case isList && key == "enum":
			result[key] = slices.DeleteFunc(slices.Clone(list), func(one any) bool { return !slices.Contains(value.([]any), one) })
		case key == "pattern" && result[key] != nil:
			// Strings are made for the pattern of the field, and have to match the other one too.
			result["anyOf"] = []any{object{"pattern": value}}
		default:
			result[key] = value
		}
	}
	return result
}
