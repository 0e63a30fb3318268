// Package compact makes objects take less memory that are kept for long. In: an object as it was decoded, which nobody
// else has. Out: the same object, in which equal values are one, and slices have no room for more elements.
package compact

import (
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// most is how many values are known, and mostLists how many lists, so that these do not take more memory than they
	// save.
	most      = 4096
	mostLists = 512
	// longest is how many bytes a text has that others may have, too, and longestList how many elements a list.
	longest     = 256
	longestList = 8
)

// known has the values that objects share: texts, pointers to what can be compared, by that, and lists of structs that
// can be compared, by arrays. It also has which types these are: to ask each value allocates.
var known struct {
	sync.Mutex
	texts           map[string]string
	pointers, lists map[any]reflect.Value
	comparable      map[reflect.Type]bool
}

// Object makes an object take less memory; object is a pointer to it. Afterwards nobody may change it or anything in
// it, since other objects may share that. So it is called once for an object.
func Object(object any) {
	known.Lock()
	defer known.Unlock()
	compact(reflect.ValueOf(object).Elem())
}

// compact makes a value take less memory.
func compact(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if meta, ok := v.Addr().Interface().(*metav1.ObjectMeta); ok { // the rest is of the object alone
			compact(reflect.ValueOf(&meta.Namespace).Elem())
			return
		}
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				compact(field)
			}
		}
	case reflect.String:
		if v.Len() > 0 && v.Len() <= longest {
			v.SetString(one(&known.texts, most, v.String(), v.String()))
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if compact(v.Elem()); isComparable(v.Type().Elem()) {
			v.Set(one(&known.pointers, most, v.Elem().Interface(), reflect.ValueOf(v.Interface())))
		}
	case reflect.Slice:
		if v.Cap() > v.Len() {
			clipped := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(clipped, v)
			v.Set(clipped)
		}
		if kind := v.Type().Elem().Kind(); kind == reflect.Struct || kind == reflect.String || kind == reflect.Pointer {
			for i := range v.Len() {
				compact(v.Index(i))
			}
		}
		if elem := v.Type().Elem(); elem.Kind() == reflect.Struct && v.Len() > 0 && v.Len() <= longestList && isComparable(elem) {
			array := v.Convert(reflect.ArrayOf(v.Len(), elem))
			v.Set(one(&known.lists, mostLists, array.Interface(), reflect.ValueOf(v.Interface())))
		}
	}
}

// isComparable reports whether all values of a type can be compared. With an interface, some may not.
func isComparable(t reflect.Type) bool {
	is, ok := known.comparable[t]
	if ok {
		return is
	}
	is = t.Kind() != reflect.Interface && t.Comparable()
	switch t.Kind() {
	case reflect.Array:
		is = is && isComparable(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			is = is && isComparable(t.Field(i).Type)
		}
	}
	if known.comparable == nil {
		known.comparable = map[reflect.Type]bool{}
	}
	known.comparable[t] = is
	return is
}

// one returns the value that is known by a key, which is this one from now on if there is none.
func one[K comparable, V any](known *map[K]V, most int, key K, value V) V {
	if one, ok := (*known)[key]; ok {
		return one
	}
	if len(*known) >= most || *known == nil {
		*known = map[K]V{}
	}
	(*known)[key] = value
	return value
}
