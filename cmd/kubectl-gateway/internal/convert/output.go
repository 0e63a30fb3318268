package convert

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"

	appv1 "gateway/api/app/v1"
)

// write prints the Gateways as YAML documents, or as JSON: several as a List.
func (c *command) write(gateways []*appv1.Gateway) error {
	objects := []map[string]any{}
	for i, gateway := range gateways {
		object, err := toObject(gateway)
		if err != nil {
			return err
		}
		objects = append(objects, object)
		if c.output == "json" {
			continue
		}
		if i > 0 {
			c.Say("---")
		}
		if err := c.Print(c.output, object); err != nil {
			return err
		}
	}
	switch {
	case c.output != "json":
		return nil
	case len(objects) == 1:
		return c.Print(c.output, objects[0])
	}
	return c.Print(c.output, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
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
