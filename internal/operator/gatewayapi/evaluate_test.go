package gatewayapi

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	source "gateway/internal/source/gatewayapi"
)

// TestFaultsAreSoughtInAllObjects: a kind that is left out could end the evaluation of all others.
func TestFaultsAreSoughtInAllObjects(t *testing.T) {
	var objects source.Objects
	var kinds []string
	fields := reflect.ValueOf(&objects).Elem()
	for i := range fields.NumField() {
		field := fields.Field(i)
		if field.Kind() == reflect.Slice && field.Type().Elem().Implements(reflect.TypeFor[metav1.Object]()) {
			field.Set(reflect.Append(field, reflect.New(field.Type().Elem().Elem())))
			kinds = append(kinds, fields.Type().Field(i).Name)
		}
	}
	all := map[string]bool{}
	objects.Each(func(kind string, _ metav1.Object) { all[kind] = true })
	if len(all) != len(kinds) || len(kinds) < 13 {
		t.Errorf("faults are sought in objects of %d kinds, and there is one of each of %q", len(all), kinds)
	}
	none := objects.Only(func(string, metav1.Object) bool { return false })
	none.Each(func(kind string, _ metav1.Object) { t.Errorf("a %s cannot be left out", kind) })
}
