package enforce

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/utils/ptr"

	"proviso.dev/proviso/internal/request/requestctx"
)

type props = apiextensions.JSONSchemaProps

func fieldsOf(fields map[string]props) props { return props{Type: "object", Properties: fields} }

// NI-5: a change of a schema hides what the server drops by it, at any depth, and nothing else.
func TestWhatASchemaHides(t *testing.T) {
	text := props{Type: "string"}
	open := props{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	some := func(fields map[string]props) props {
		return props{Type: "object", XPreserveUnknownFields: ptr.To(true), Properties: fields}
	}
	someMap := func(of props) props {
		return props{Type: "object", XPreserveUnknownFields: ptr.To(true), AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &of}}
	}
	anyText := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &text}}
	anything := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true}}
	bySchema := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Schema: &text}}
	closed := props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{}}
	list := func(of props) props {
		return props{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &of}}
	}
	a, ab := fieldsOf(map[string]props{"a": text}), fieldsOf(map[string]props{"a": text, "b": text})
	in := func(p props) props { return fieldsOf(map[string]props{"in": p}) }
	for _, tc := range []struct {
		name     string
		old, new props
		want     string
	}{
		{"nothing", ab, ab, ""},
		{"a field more", a, ab, ""},
		{"a field less", ab, a, ".b"},
		{"a field less, further in", in(ab), in(a), ".in.b"},
		{"a field less in a list", in(list(ab)), in(list(a)), ".in[].b"},
		{"a field less in a map", in(anyMap(ab)), in(anyMap(a)), ".in.*.b"},
		{"a field by its name in a map", ab, anyText, ""},
		{"all fields are kept", ab, open, ""},
		{"all fields are kept by a map", ab, anything, ""},
		{"no longer all fields", open, ab, "what is below the object"},
		{"no longer all fields, further in", in(open), in(ab), "what is below .in"},
		{"no longer a map", in(anyText), in(a), "what is below .in"},
		{"no longer a list", in(list(ab)), in(text), "what is below .in"},
		{"a list of anything", in(list(ab)), in(open), ""},
		{"a field less by its name in a map", in(ab), anyMap(a), ".in.b"},
		{"no longer a map of anything", in(anything), in(a), "what is below .in"},
		{"no longer a map by its schema", in(bySchema), in(a), "what is below .in"},
		{"what was never a map", in(closed), in(a), ""},
		{"a map that keeps all", in(anyText), in(open), ""},
		{"a map of anything, then of something", in(anything), in(anyText), "what is below .in.*"},
		{"no longer an object in it", props{Type: "object", XEmbeddedResource: true, Properties: ab.Properties}, ab, "what is below the object"},
		{"an object in it", ab, props{Type: "object", XEmbeddedResource: true, Properties: ab.Properties}, "what is below the object"},
		{"all fields, and one with a schema", open, some(map[string]props{"in": a}), "what is below .in"},
		{"all fields, and one that keeps all", open, some(map[string]props{"in": open}), ""},
		{"all fields, and one with a schema in one that keeps all", open, some(map[string]props{"in": some(map[string]props{"on": a})}), "what is below .in.on"},
		{"all fields, and a map of something", open, someMap(text), "what is below .*"},
		{"all fields, and a list of something", in(open), in(props{XPreserveUnknownFields: ptr.To(true), Items: list(a).Items}), "what is below .in[]"},
		{"a map, and one field with a schema", in(anyMap(ab)), in(some(map[string]props{"on": a})), ".in.on.b"},
	} {
		if got := dropped(&tc.old, &tc.new, ""); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if dropped(nil, &ab, "") == "" || dropped(&ab, nil, "") != "" || dropped(nil, nil, "") != "" {
		t.Error("without a schema everything is kept")
	}

	define := defined
	both, less := map[string]props{"v1": ab, "v2": ab}, map[string]props{"v1": ab, "v2": a}
	for _, tc := range []struct {
		name    string
		was, is *apiextensions.CustomResourceDefinition
		want    string
	}{
		{"the same", define(nil, both), define(nil, both), ""},
		{"one version", define(nil, both), define(nil, less), ".b of version v2"},
		{"a version is gone", define(nil, both), define(nil, map[string]props{"v1": ab}), ""},
		{"a version is gone whose schema had more", define(nil, map[string]props{"v1": a, "v2": ab}), define(nil, map[string]props{"v1": a}), ".b of version v2"},
		{"a version more", define(nil, map[string]props{"v1": ab}), define(nil, both), ""},
		{"a version more that drops", define(nil, map[string]props{"v1": ab}), define(nil, less), ".b of version v1"},
		{"versions that differ, as before", define(nil, less), define(nil, less), ""},
		{"stored in another version", define(nil, less), stored(define(nil, less), "v2"), ".b of version v1"},
		{"no longer served", define(nil, less), unserved(define(nil, less), "v1"), ".b of version v1"},
		{"no longer served, nor stored", define(nil, less), unserved(define(nil, less), "v2"), ""},
		{"was not served", unserved(define(nil, less), "v2"), define(nil, both), ""},
		{"not served, and perhaps still stored", unserved(define(nil, both), "v2"), unserved(define(nil, less), "v2"), ".b of version v2"},
		{"stored, and not served", unserved(define(nil, both), "v1"), unserved(define(nil, map[string]props{"v1": a, "v2": ab}), "v1"), ".b of version v1"},
		{"another webhook", define(nil, both), byWebhook(define(nil, both)), "what the webhook of the conversion leaves out"},
		{"the webhook as before", byWebhook(define(nil, both)), byWebhook(define(nil, both)), ""},
		{"no webhook any more", byWebhook(define(nil, less)), define(nil, less), ".b of version v1"},
		{"nothing is dropped", define(ptr.To(true), both), define(ptr.To(true), less), ""},
		{"dropped from now on", define(ptr.To(true), both), define(nil, both), "every field without a schema"},
	} {
		if got := hiddenBy(tc.was, tc.is); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	shared := define(nil, map[string]props{})
	shared.Spec.Versions = []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true}}
	shared.Spec.Validation = &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &ab}
	if got := hiddenBy(shared, define(nil, map[string]props{"v1": a})); got != ".b of version v1" {
		t.Errorf("a schema that all versions share: %q", got)
	}
}

// NI-5: the server gives objects that it reads the defaults of their schema. A change of one changes what rules see,
// and so does a change of what becomes of null.
func TestWhatASchemaFills(t *testing.T) {
	text := props{Type: "string"}
	with := func(value apiextensions.JSON) props { return props{Type: "boolean", Default: &value} }
	yes, no := with(true), with(false)
	null := props{Type: "string", Nullable: true}
	object := func(of props) props { return fieldsOf(map[string]props{"in": of}) }
	list := func(of props) props {
		return props{Type: "array", Items: &apiextensions.JSONSchemaPropsOrArray{Schema: &of}}
	}
	open := props{Type: "object", XPreserveUnknownFields: ptr.To(true)}
	free := func(of props) props {
		return props{Type: "object", XPreserveUnknownFields: ptr.To(true), Properties: map[string]props{"in": of}}
	}
	keepsNull := props{Type: "object", XPreserveUnknownFields: ptr.To(true), Nullable: true}
	for _, tc := range []struct {
		name     string
		old, new props
		want     string
	}{
		{"nothing", object(yes), object(yes), ""},
		{"a default", object(text), object(yes), ".in"},
		{"no default", object(yes), object(text), ".in"},
		{"another default", object(yes), object(no), ".in"},
		{"a field with a default", fieldsOf(nil), object(yes), ".in"},
		{"a field without", fieldsOf(nil), object(text), ""},
		{"a field that may be null", fieldsOf(nil), object(null), ""},
		{"a default, further in", object(object(text)), object(object(yes)), ".in.in"},
		{"a field with a default in it", object(fieldsOf(nil)), object(object(yes)), ".in.in"},
		{"a default in a list", object(list(object(text))), object(list(object(yes))), ".in[].in"},
		{"a list with a default in it", object(text), object(list(object(yes))), ".in[].in"},
		{"a default in a map", object(anyMap(object(text))), object(anyMap(object(yes))), ".in.*.in"},
		{"a default of the elements", object(list(text)), object(list(yes)), ".in[]"},
		{"a default of the entries", object(anyMap(text)), object(anyMap(yes)), ".in.*"},
		{"a default for one entry", object(anyMap(object(text))), object(object(object(yes))), ".in.in.in"},
		{"may be null", object(text), object(null), ".in"},
		{"may not be null", object(null), object(text), ".in"},
		{"a default where all fields are kept", open, free(yes), ".in"},
		{"a field that may not be null, where all are kept", open, free(open), ".in"},
		{"a field that may be null, where all are kept", open, free(keepsNull), ""},
		{"all fields are kept", object(text), open, ""},
	} {
		if got := refilled(&tc.old, &tc.new, true, ""); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	none := object(text)
	if refilled(nil, &none, true, "") == "" || refilled(&none, nil, true, "") != "" || refilled(nil, nil, true, "") != "" {
		t.Error("without a schema there are no defaults, and null stays")
	}

	both := func(v1, v2 props) *apiextensions.CustomResourceDefinition {
		return defined(nil, map[string]props{"v1": object(v1), "v2": object(v2)})
	}
	for _, tc := range []struct {
		name    string
		was, is *apiextensions.CustomResourceDefinition
		want    string
	}{
		{"the same", both(yes, yes), both(yes, yes), ""},
		{"in one version", both(text, text), both(text, yes), "another default or nullable of .in in version v2 would change what rules see"},
		{"in one that is not served", unserved(both(text, text), "v2"), unserved(both(text, yes), "v2"), "another default or nullable of .in in version v2 would change what rules see"},
		{"by storing another version", both(text, yes), stored(both(text, yes), "v2"), "another default or nullable of .in in version v1 would change what rules see"},
		{"no longer pruned", defined(nil, map[string]props{"v1": object(yes)}), defined(ptr.To(true), map[string]props{"v1": object(text)}), "another default or nullable of .in in version v1 would change what rules see"},
	} {
		if got := reshaped(tc.was, tc.is); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// NI-4: a subresource decides which request writes which fields, so rules about the one or the other would miss some.
func TestSwitchingSubresources(t *testing.T) {
	scale := func(path string) *apiextensions.CustomResourceSubresourceScale {
		return &apiextensions.CustomResourceSubresourceScale{SpecReplicasPath: path}
	}
	status := &apiextensions.CustomResourceSubresourceStatus{}
	all := func(s ...*apiextensions.CustomResourceSubresources) *apiextensions.CustomResourceDefinition {
		d := defined(nil, map[string]props{"v1": fieldsOf(nil), "v2": fieldsOf(nil)})
		if len(s) == 1 {
			d.Spec.Subresources = s[0]
			return d
		}
		for i := range d.Spec.Versions {
			d.Spec.Versions[i].Subresources = s[i]
		}
		return d
	}
	type sub = apiextensions.CustomResourceSubresources
	const statusOf, scaleOf = "another subresource status of version %s would change which requests write which fields", "another subresource scale of version %s would change which requests write which fields"
	for _, tc := range []struct {
		name    string
		was, is *apiextensions.CustomResourceDefinition
		want    string
	}{
		{"the same", all(&sub{Status: status}), all(&sub{Status: status}), ""},
		{"none, in two ways", all(&sub{}), all(nil, nil), ""},
		{"the same in every version, and shared", all(&sub{Status: status}, &sub{Status: status}), all(&sub{Status: status}), ""},
		{"on", all(&sub{}), all(&sub{Status: status}), fmt.Sprintf(statusOf, "v1")},
		{"off", all(&sub{Status: status}), all(&sub{}), fmt.Sprintf(statusOf, "v1")},
		{"off in one version", all(&sub{Status: status}), all(&sub{Status: status}, nil), fmt.Sprintf(statusOf, "v2")},
		{"off in one version that is not served", unserved(all(&sub{Status: status}), "v2"), unserved(all(&sub{Status: status}, nil), "v2"), fmt.Sprintf(statusOf, "v2")},
		{"a version more that has none", defined(nil, map[string]props{"v1": fieldsOf(nil)}), all(nil, &sub{Status: status}), fmt.Sprintf(statusOf, "v1")},
		{"scale", all(&sub{}), all(&sub{Scale: scale(".spec.a")}), fmt.Sprintf(scaleOf, "v1")},
		{"another scale", all(&sub{Scale: scale(".spec.a")}), all(&sub{Scale: scale(".spec.b")}), fmt.Sprintf(scaleOf, "v1")},
	} {
		if got := reshaped(tc.was, tc.is); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// NI-4, NI-5: a change of a definition that shows rules other objects, or has other requests write them, is refused to
// callers whom a rule denies something on the objects or their subresources, and to nobody else.
func TestReshapingIsRefused(t *testing.T) {
	change := []rule{everything}
	deny := func(what ...string) []rule {
		return append(change, rule{Deny: true, Verbs: []string{"update"}, ResourceKinds: what})
	}
	w := newEffectsWorld(t, map[string][]rule{
		"object": deny("widgets"), "status": deny("widgets/status"), "scale": deny("widgets/scale"), "all": deny("*/*"), "other": deny("configmaps/status"), "free": change,
		"where": append(change, rule{Deny: true, Verbs: []string{"delete"}, ResourceKinds: []string{"widgets"}, Where: "!(has(resource.spec.released) && resource.spec.released)"}),
	}, map[string][]rule{"local": deny("widgets/status")})
	yes := apiextensions.JSON(true)
	definition := func(d *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
		d.Name = "widgets.example.com"
		d.Spec.Group, d.Spec.Names, d.Spec.Version = "example.com", apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"}, "v1"
		return d
	}
	plain := definition(defined(nil, map[string]props{"v1": fieldsOf(nil)}))
	filled := definition(defined(nil, map[string]props{"v1": fieldsOf(map[string]props{"released": {Type: "boolean", Default: &yes}})}))
	switched := definition(defined(nil, map[string]props{"v1": fieldsOf(nil)}))
	switched.Spec.Subresources = &apiextensions.CustomResourceSubresources{Status: &apiextensions.CustomResourceSubresourceStatus{}}
	for who, denied := range map[string]string{"object": "update on widgets.example.com", "status": "update on widgets.example.com/status", "scale": "update on widgets.example.com/scale",
		"all": "update on widgets.example.com/status", "where": "delete on widgets.example.com", "local": "update on widgets.example.com/status", "other": "", "free": ""} {
		for name, is := range map[string]*apiextensions.CustomResourceDefinition{"a default": filled, "a subresource": switched, "nothing": plain} {
			ctx := w.context()
			attrs := admission.NewAttributesRecord(is, plain, schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, "", plain.Name,
				definitionResource.WithVersion("v1"), "", admission.Update, nil, false, userOf(who))
			_, err := w.effects.check(ctx, requestctx.From(ctx), New(Config{}).facts(requestctx.From(ctx), attrs, nil), nil)
			refused := denied != "" && is != plain
			if apierrors.IsForbidden(err) != refused || err != nil && !refused || refused && !strings.Contains(err.Error(), "one denies you "+denied+": ") {
				t.Errorf("%s by %s: %v, want refused %v", name, who, err, refused)
			}
		}
	}
}

func anyMap(of props) props {
	return props{Type: "object", AdditionalProperties: &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: &of}}
}

func defined(unpruned *bool, versions map[string]props) *apiextensions.CustomResourceDefinition {
	d := &apiextensions.CustomResourceDefinition{}
	d.Spec.PreserveUnknownFields = unpruned
	for _, name := range []string{"v1", "v2"} {
		if s, ok := versions[name]; ok {
			d.Spec.Versions = append(d.Spec.Versions, apiextensions.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: name == "v1", Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &s}})
		}
	}
	return d
}

func stored(d *apiextensions.CustomResourceDefinition, version string) *apiextensions.CustomResourceDefinition {
	for i := range d.Spec.Versions {
		d.Spec.Versions[i].Storage = d.Spec.Versions[i].Name == version
	}
	return d
}

func unserved(d *apiextensions.CustomResourceDefinition, version string) *apiextensions.CustomResourceDefinition {
	for i := range d.Spec.Versions {
		if d.Spec.Versions[i].Name == version {
			d.Spec.Versions[i].Served = false
		}
	}
	return d
}

func byWebhook(d *apiextensions.CustomResourceDefinition) *apiextensions.CustomResourceDefinition {
	d.Spec.Conversion = &apiextensions.CustomResourceConversion{Strategy: apiextensions.WebhookConverter}
	return d
}
