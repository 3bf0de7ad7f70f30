package registry

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"proviso.dev/proviso/internal/state/policycodec"
)

// release is the release whose fields are kept; `go run ./hack/prove keep-release` writes them again.
const release = "testdata/fields-v0.1.txt"

// TestStoredFieldsOfReleases: what the release before this one has stored, this one has a place for; and what this one
// may store that the other does not know is in the guide, because the other quarantines it (OP-4).
func TestStoredFieldsOfReleases(t *testing.T) {
	now := map[string]bool{}
	for of, kind := range policycodec.StoredKinds() {
		object, err := policycodec.VersionedScheme().New(kind)
		if err != nil {
			t.Fatalf("%s: %v", of, err)
		}
		storedFields(kind.Kind, reflect.TypeOf(object), nil, now)
	}
	if len(now) < 100 {
		t.Fatalf("%d fields: they are looked for in the wrong place", len(now))
	}
	if os.Getenv("PROVISO_KEEP_RELEASE") != "" {
		if err := os.WriteFile(release, []byte(strings.Join(slices.Sorted(maps.Keys(now)), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(release)
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../../docs/how-to/upgrade.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, field := range strings.Fields(string(text)) {
		known[field] = true
		if !now[field] {
			t.Errorf("%s was stored by the release before and is no field now: it would be quarantined, or lost with the next write", field)
		}
	}
	for field := range now {
		kind := field[:strings.IndexAny(field, ".:")]
		if !known[kind+":struct"] && strings.Contains(string(guide), "`"+kind+"`") {
			continue // the release before does not serve the kind at all
		}
		if !known[field] && !strings.Contains(string(guide), "`"+field+"`") {
			t.Errorf("%s is not known to the release before, which quarantines what has it: name it in docs/how-to/upgrade.md", field)
		}
	}
}

// storedFields collects the paths of what can be stored, up to Kubernetes' own types.
func storedFields(path string, typ reflect.Type, inside []reflect.Type, into map[string]bool) {
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		storedFields(path, typ.Elem(), inside, into)
		return
	case reflect.Map:
		storedFields(path+"{}", typ.Elem(), inside, into)
		return
	case reflect.Struct:
		if strings.HasPrefix(typ.PkgPath(), "proviso.dev/") && !slices.Contains(inside, typ) {
			break
		}
		fallthrough
	default:
		into[fmt.Sprintf("%s:%s", path, typ.Kind())] = true
		return
	}
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			storedFields(path, field.Type, append(inside, typ), into)
		default:
			storedFields(path+"."+name, field.Type, append(inside, typ), into)
		}
	}
}
