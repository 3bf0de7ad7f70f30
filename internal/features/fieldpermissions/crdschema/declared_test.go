package crdschema

import (
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// FP-3: what is stored reads as declarations of each version, in order.
func TestDeclared(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", Annotations: map[string]string{Annotation: `{
			"v1": {"/properties/spec/properties/a~1b": {"x-kubernetes-permission-verb": "example.com/ab", "x-kubernetes-permission-exclusive": true}},
			"v2": {
				"/properties/spec/properties/parts/items/properties/size": {"x-kubernetes-permission-verb": "example.com/size",
					"x-kubernetes-permission-parameterized-by": "key", "x-kubernetes-permission-parameter-treatment": "slash-delimited-prefix"},
				"/properties/spec/additionalProperties": {"x-kubernetes-permission-verb": "example.com/any"}},
			"gone": {"/properties/spec": {"x-kubernetes-permission-verb": "specification"}}}`}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v2"}, {Name: "v1", Storage: true}},
		},
	}
	got, err := Declared(crd)
	if err != nil {
		t.Fatal(err)
	}
	base := fieldperm.Declaration{Source: `CustomResourceDefinition "widgets.example.com"`, Resources: []fieldperm.Resource{{Group: "example.com", Resource: "widgets"}}}
	anyEntry, size, ab := base, base, base
	anyEntry.Version, anyEntry.Permission, anyEntry.Field = "v2", "example.com/any", mustPath(t, ".spec[]")
	size.Version, size.Permission, size.Field = "v2", "example.com/size", mustPath(t, ".spec.parts[].size")
	size.Parameter = &fieldperm.Parameter{From: "key", Treatment: "slash-delimited-prefix"}
	ab.Version, ab.Permission, ab.Exclusive = "v1", "example.com/ab", true
	ab.Field = fieldperm.Path{fieldperm.Field("spec"), fieldperm.Field("a/b")}
	if want := []fieldperm.Declaration{anyEntry, size, ab}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}

	for _, tc := range []struct{ text, want string }{
		{`{`, "cannot be read"},
		{`{"v1": {"/properties/spec": {"x-kubernetes-permission-verb": 1}}}`, "must be a string"},
		{`{"v1": {"/allOf/0": {"x-kubernetes-permission-verb": "labels"}}}`, "does not describe a field"},
		{`{"v1": {"/properties": {"x-kubernetes-permission-verb": "labels"}}}`, "does not describe a field"},
		{`{"v1": {"` + strings.Repeat("/items", 65) + `": {"x-kubernetes-permission-verb": "labels"}}}`, "at most 64 levels"},
		{`"` + strings.Repeat("x", maxRecord) + `"`, "longer than"},
	} {
		crd.Annotations[Annotation] = tc.text
		if _, err := Declared(crd); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.80s: %v, want %s", tc.text, err, tc.want)
		}
	}
	delete(crd.Annotations, Annotation)
	if got, err := Declared(crd); got != nil || err != nil {
		t.Errorf("%v %v", got, err)
	}
}

func mustPath(t testing.TB, text string) fieldperm.Path {
	t.Helper()
	p, err := fieldperm.ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
