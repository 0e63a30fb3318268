package convert

import (
	"bytes"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
)

// encode returns the Gateways as YAML documents, or as JSON: several as a List.
func encode(gateways []*appv1.Gateway, format string) ([]byte, error) {
	objects := []map[string]any{}
	for _, gateway := range gateways {
		object, err := toObject(gateway)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	if format == "json" {
		var all any = map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}
		if len(objects) == 1 {
			all = objects[0]
		}
		content, err := json.MarshalIndent(all, "", "    ")
		return append(content, '\n'), err
	}
	var b bytes.Buffer
	for i, object := range objects {
		content, err := yaml.Marshal(object)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(content)
	}
	return b.Bytes(), nil
}

// dropEmpty removes the objects without content, which are those that the Go types cannot leave out. The filter Cache
// has no settings.
func dropEmpty(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			dropEmpty(field)
			if object, ok := field.(map[string]any); field == nil || ok && len(object) == 0 && key != "cache" {
				delete(value, key)
			}
		}
	case []any:
		for _, item := range value {
			dropEmpty(item)
		}
	}
}

// toObject returns a Gateway as it is written.
func toObject(gateway *appv1.Gateway) (map[string]any, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(gateway)
	if err != nil {
		return nil, fmt.Errorf("failed to write Gateway %s: %w", objectName(gateway), err)
	}
	delete(object, "status")
	dropEmpty(object)
	return object, nil
}
