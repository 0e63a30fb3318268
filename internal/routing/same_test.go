package routing

import (
	"reflect"
	"testing"

	appv1 "gateway/api/app/v1"
)

// TestSameRoute: two routes that differ in any one field, however deep, are not the same.
func TestSameRoute(t *testing.T) {
	t.Parallel()
	all := variants(reflect.TypeFor[appv1.Route]())
	for i := range all {
		for j := range all {
			a, b := all[i].Interface().(appv1.Route), all[j].Interface().(appv1.Route)
			if got := sameRoute(&a, b.DeepCopy()); got != (i == j) {
				t.Errorf("%+v and %+v are the same: %t", a, b, got)
			}
		}
	}
	if len(all) < 50 {
		t.Errorf("%d routes are too few to have tried every field", len(all))
	}
}

// variants returns the zero value of a type and, for each field in it, one that has something there and nowhere else; of a slice, one with two
// elements, too.
func variants(of reflect.Type) []reflect.Value {
	all := []reflect.Value{reflect.Zero(of)}
	set := func(place func(value reflect.Value) reflect.Value, values []reflect.Value) {
		for _, value := range values {
			variant := reflect.New(of).Elem()
			place(variant).Set(value)
			all = append(all, variant)
		}
	}
	itself := func(v reflect.Value) reflect.Value { return v }
	switch of.Kind() {
	case reflect.Struct:
		for i := range of.NumField() {
			set(func(v reflect.Value) reflect.Value { return v.Field(i) }, variants(of.Field(i).Type)[1:])
		}
	case reflect.Pointer:
		set(func(v reflect.Value) reflect.Value { v.Set(reflect.New(of.Elem())); return v.Elem() }, variants(of.Elem()))
	case reflect.Slice:
		set(func(v reflect.Value) reflect.Value { v.Set(reflect.MakeSlice(of, 1, 1)); return v.Index(0) }, variants(of.Elem()))
		all = append(all, reflect.MakeSlice(of, 2, 2))
	case reflect.String:
		set(itself, []reflect.Value{reflect.ValueOf("x").Convert(of)})
	case reflect.Bool:
		set(itself, []reflect.Value{reflect.ValueOf(true)})
	default:
		set(itself, []reflect.Value{reflect.ValueOf(1).Convert(of)})
	}
	return all
}
