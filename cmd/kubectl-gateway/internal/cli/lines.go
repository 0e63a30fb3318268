package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"
)

// At returns the file and the line of a field, such as spec.listeners[0].port, or of what lacks it.
func (d Document) At(field string) string {
	if d.part.file == "" {
		return d.Source
	}
	return fmt.Sprintf("%s:%d", d.part.file, d.lineOf(field))
}

// lineOf returns the line of a field, or of what lacks it. That of the object itself is where the document begins.
func (d Document) lineOf(field string) int {
	var document yamlnodes.Node
	if yamlnodes.Unmarshal(d.part.text, &document) != nil || len(document.Content) == 0 {
		return d.part.line
	}
	node, line, rest := document.Content[0], 1, d.item+field
	for node != nil && rest != "" {
		if node.Kind == yamlnodes.AliasNode {
			node = node.Alias
		}
		node, rest = child(node, strings.TrimPrefix(rest, "."))
		if node != nil {
			line = node.Line
		}
	}
	return d.part.line + line - 1
}

// child returns the part of a node that a field begins with, and the rest of the field; nil: there is none.
func child(node *yamlnodes.Node, field string) (*yamlnodes.Node, string) {
	if node.Kind == yamlnodes.SequenceNode {
		for i, element := range node.Content {
			if rest, ok := strings.CutPrefix(field, fmt.Sprintf("[%d]", i)); ok {
				return element, rest
			}
		}
		return nil, ""
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		for _, name := range []string{key.Value, "[" + key.Value + "]"} {
			if rest, ok := strings.CutPrefix(field, name); ok && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
				value := *value
				value.Line = key.Line
				return &value, rest
			}
		}
	}
	return nil, ""
}

// Where returns the file and the line that an error of a decoder is about.
func (d Document) Where(err error) string {
	var unknown strictjson.FieldError
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &unknown):
		return d.At(unknown.FieldPath())
	case errors.As(err, &wrong):
		return d.At(wrong.Field)
	}
	return d.Source
}
