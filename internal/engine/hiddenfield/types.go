package hiddenfield

import (
	"reflect"
	"strings"
	"sync"
)

var types sync.Map // of reflect.Type to map[string][]int

// fieldsOf finds the fields of a type by their names in JSON. It is computed once per type.
func fieldsOf(t reflect.Type) map[string][]int {
	if known, ok := types.Load(t); ok {
		return known.(map[string][]int)
	}
	fields := map[string][]int{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct, strings.Contains(options, "inline") && f.Type.Kind() == reflect.Struct:
			for inner, index := range fieldsOf(f.Type) {
				fields[inner] = append([]int{i}, index...)
			}
		case name != "":
			fields[name] = []int{i}
		}
	}
	known, _ := types.LoadOrStore(t, fields)
	return known.(map[string][]int)
}
