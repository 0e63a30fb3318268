package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlnodes "go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"

	"gateway/cmd/kubectl-gateway/internal/admission"
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

// refused returns what the API server has against an object: at the line of the first problem, and with the lines of
// those that are elsewhere. Problems without a field announce others.
func (d Document) refused(problems []admission.Problem) error {
	isAnnouncement := func(problem admission.Problem) bool { return problem.Field == "<nil>" }
	if named := slices.DeleteFunc(slices.Clone(problems), isAnnouncement); len(named) > 0 {
		problems = named
	}
	texts := make([]string, len(problems))
	for i, problem := range problems {
		texts[i] = Plain(problem.Text)
		if line := d.lineOf(problem.Field); line != d.lineOf(problems[0].Field) {
			texts[i] = fmt.Sprintf("line %d: %s", line, texts[i])
		}
	}
	return fmt.Errorf("%s: %s: the API server refuses it: %s", d.At(problems[0].Field), d, strings.Join(texts, "; "))
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
