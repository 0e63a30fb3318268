package operator

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// expectContains checks that the object has all fields of the YAML with those values; of lists, the items in that
// order, perhaps with others behind them.
func expectContains(t *testing.T, object *unstructured.Unstructured, want string) {
	t.Helper()
	if err := contains(object, want); err != nil {
		t.Error(err)
	}
}

func contains(object *unstructured.Unstructured, want string) error {
	var wanted any
	if err := yaml.Unmarshal([]byte(want), &wanted); err != nil {
		return fmt.Errorf("bad YAML in the test: %w", err)
	}
	return within(object.GetKind(), object.Object, wanted)
}

func within(path string, got, want any) error {
	var errs []error
	switch want := want.(type) {
	case map[string]any:
		fields, _ := got.(map[string]any)
		for name := range want {
			errs = append(errs, within(path+"."+name, fields[name], want[name]))
		}
	case []any:
		items, _ := got.([]any)
		for i := range want {
			if i >= len(items) {
				return fmt.Errorf("%s has %d items, want %d", path, len(items), len(want))
			}
			errs = append(errs, within(fmt.Sprintf("%s[%d]", path, i), items[i], want[i]))
		}
	default:
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	return errors.Join(errs...)
}
