package compare

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"proviso.dev/proviso/internal/engine/expr"
)

func comparer() *Comparer { return &Comparer{Cache: cache()} }

func allow(t *testing.T, kind expr.Kind, sources ...string) (a Access) {
	for _, s := range sources {
		a.Allow = append(a.Allow, program(t, kind, s))
	}
	return a
}

// TR-3: the relations, on a kind that everybody knows.
func TestRelations(t *testing.T) {
	claims := FromGo(reflect.TypeFor[corev1.PersistentVolumeClaim]())
	for _, test := range []struct {
		name, before, after string
		want                Relation
	}{
		{"the same", `resource.spec.storageClassName == "dev"`, `resource.spec.storageClassName == "dev"`, Equivalent},
		{"the other way round", `resource.spec.storageClassName == "dev"`, `"dev" == resource.spec.storageClassName`, Equivalent},
		{"one more class", `resource.spec.storageClassName == "dev"`, `resource.spec.storageClassName in ["dev", "test"]`, Wider},
		{"one class less", `resource.spec.storageClassName in ["dev", "test"]`, `resource.spec.storageClassName == "dev"`, Narrower},
		{"another class", `resource.spec.storageClassName == "dev"`, `resource.spec.storageClassName == "test"`, Neither},
		{"an absent field fails and is not false", `resource.spec.storageClassName != "dev"`, `!has(resource.spec.storageClassName) || resource.spec.storageClassName != "dev"`, Wider},
		{"de Morgan", `!(resource.spec.storageClassName == "a" || resource.spec.volumeName == "b")`, `resource.spec.storageClassName != "a" && resource.spec.volumeName != "b"`, Equivalent},
		{"a default", `resource.spec.?storageClassName.orValue("dev") == "dev"`, `!has(resource.spec.storageClassName) || resource.spec.storageClassName == "dev"`, Equivalent},
		{"a prefix of a prefix", `resource.metadata.name.startsWith("team-a-")`, `resource.metadata.name.startsWith("team-")`, Wider},
		{"a field that the kind does not have", `resource.spec.nonsense == "x"`, `false`, Equivalent},
		{"always there", `has(resource.spec)`, `true`, Equivalent},
		{"an empty name is absent", `resource.metadata.?name.orValue("") == ""`, `!has(resource.metadata.name)`, Equivalent},
		{"numbers", `resource.metadata.generation > 3 && resource.metadata.generation < 5`, `resource.metadata.generation == 4`, Equivalent},
		{"labels", `"a" in resource.metadata.?labels.orValue({})`, `has(resource.metadata.labels) && "a" in resource.metadata.labels`, Equivalent},
		{"all and exists", `resource.spec.?accessModes.orValue([]).all(m, m == "ReadOnlyMany")`, `!resource.spec.?accessModes.orValue([]).exists(m, m != "ReadOnlyMany")`, Equivalent},
		{"all of nothing", `resource.spec.?accessModes.orValue([]).all(m, m == "ReadOnlyMany")`, `resource.spec.accessModes.all(m, m == "ReadOnlyMany")`, Narrower},
		{"a regular expression", `resource.metadata.name.matches("^a")`, `resource.metadata.name.startsWith("a")`, Unclear},
		{"a regular expression against itself", `resource.metadata.name.matches("^a")`, `true && resource.metadata.name.matches("^a")`, Equivalent},
		{"who asks", `resource.spec.volumeName == request.user`, `request.user == resource.spec.volumeName`, Equivalent},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, operation := range []string{"CREATE", "UPDATE", "DELETE"} {
				got := comparer().Compare(t.Context(), allow(t, expr.Where, test.before), allow(t, expr.Where, test.after), Of(operation, claims))
				if got.Relation != test.want {
					t.Errorf("%s: %s, want %s (%s); gained %+v, lost %+v", operation, got.Relation, test.want, got.Why, got.Gained, got.Lost)
				}
			}
		})
	}
}

// TR-3: a witness is as small as it can be.
func TestWitnessIsMinimal(t *testing.T) {
	claims := FromGo(reflect.TypeFor[corev1.PersistentVolumeClaim]())
	got := comparer().Compare(t.Context(), allow(t, expr.Where, `resource.spec.storageClassName == "dev" && has(resource.metadata.labels)`), allow(t, expr.Where, `resource.spec.storageClassName in ["dev", "test"]`), Of("CREATE", claims))
	want := map[string]any{"metadata": map[string]any{}, "spec": map[string]any{"storageClassName": "dev"}}
	if got.Relation != Wider || !reflect.DeepEqual(got.Gained.Object, want) && got.Gained.Object["spec"].(map[string]any)["storageClassName"] != "test" {
		t.Errorf("%+v", got.Gained)
	}
	if len(got.Gained.Object["spec"].(map[string]any)) != 1 {
		t.Errorf("more than it takes: %v", got.Gained.Object)
	}
}

// A deny that fails denies, an allow that fails does not allow.
func TestDenies(t *testing.T) {
	deployments := Of("UPDATE", FromGo(reflect.TypeFor[appsv1.Deployment]()))
	deny := func(when string) Access {
		return Access{Allow: []expr.Condition{nil}, Deny: []expr.Condition{program(t, expr.When, when)}}
	}
	for _, test := range []struct {
		before, after string
		want          Relation
	}{
		{`object.metadata.labels["a"] == "b"`, `!has(object.metadata.labels) || !("a" in object.metadata.labels) || object.metadata.labels["a"] == "b"`, Equivalent},
		{`object.spec.replicas > 3`, `object.spec.?replicas.orValue(0) > 3`, Wider},
		{`object.spec.template.spec.?serviceAccountName != oldObject.spec.template.spec.?serviceAccountName`, `false`, Wider},
		{`object.spec.template.spec.?serviceAccountName != oldObject.spec.template.spec.?serviceAccountName`,
			`object.spec.template.spec.?serviceAccountName.orValue("") != oldObject.spec.template.spec.?serviceAccountName.orValue("")`, Equivalent},
	} {
		if got := comparer().Compare(t.Context(), deny(test.before), deny(test.after), deployments); got.Relation != test.want {
			t.Errorf("%s\n%s: %s (%s) %+v %+v", test.before, test.after, got.Relation, got.Why, got.Gained, got.Lost)
		}
	}
}

// Without a schema a field may be of any type, and with one it may not.
func TestUniverse(t *testing.T) {
	before, after := allow(t, expr.Where, `resource.spec.x != "a"`), allow(t, expr.Where, `resource.spec.x != "a" && resource.spec.x.startsWith("")`)
	if got := comparer().Compare(t.Context(), before, after, Of("CREATE", Unknown())); got.Relation != Narrower {
		t.Errorf("%s %s", got.Relation, got.Why)
	}
	text := apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"y"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"x": {Type: "string"}, "y": {Type: "integer"}}}
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", Required: []string{"spec"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": text}}
	if got := comparer().Compare(t.Context(), before, after, Of("CREATE", FromSchema(schema))); got.Relation != Equivalent {
		t.Errorf("%s %s %v", got.Relation, got.Why, got.Lost)
	}
	got := comparer().Compare(t.Context(), Access{}, before, Of("CREATE", FromSchema(schema)))
	if spec, _ := got.Gained.Object["spec"].(map[string]any); got.Relation != Wider || spec["y"] == nil {
		t.Errorf("the witness lacks what is required: %v", got.Gained)
	}
	text.Properties["x"] = apiextensionsv1.JSONSchemaProps{Type: "string", Pattern: "^z+$"}
	u := Of("CREATE", FromSchema(schema))
	if got := comparer().Compare(t.Context(), Access{}, before, u); got.Relation != Unclear {
		t.Errorf("a witness that may break a pattern was shown: %v", got.Gained)
	}
}

// The budget ends the search, and what it ended is unknown.
func TestBudget(t *testing.T) {
	var parts []string
	for _, f := range "abcdefghij" {
		parts = append(parts, `resource.data.`+string(f)+` == "x"`)
	}
	maps := Of("CREATE", FromGo(reflect.TypeFor[corev1.ConfigMap]()))
	before, after := allow(t, expr.Where, strings.Join(parts, " && ")), allow(t, expr.Where, strings.Join(parts, " || "))
	c := &Comparer{Cache: cache(), Budget: 3}
	if got := c.Compare(t.Context(), before, after, maps); got.Relation != Unclear || got.Why != errBudget.Error() {
		t.Errorf("%+v", got)
	}
	if got := comparer().Compare(t.Context(), before, after, maps); got.Relation != Wider {
		t.Errorf("%+v", got)
	}
}

// Paths that are compared with each other need each other's values: here, lists that are equal and have the element
// that one of them is asked for.
func TestEqualListsShareTheirElements(t *testing.T) {
	before := allow(t, expr.When, `object.spec.?size.orValue(0) == 0 || object.spec.?hosts != oldObject.spec.?hosts`)
	after := allow(t, expr.When, `object.spec.?size.orValue(3) == oldObject.spec.?size.orValue(3) && oldObject.spec.hosts.exists(h, h == "h")`)
	if got := comparer().Compare(t.Context(), before, after, Of("UPDATE", widget())); got.Relation != Neither {
		t.Errorf("%s %s", got.Relation, got.Why)
	}
	before = allow(t, expr.When, `object.spec.labels != oldObject.spec.labels`)
	after = allow(t, expr.When, `object.spec.labels.a == "x" && oldObject.spec.labels.b == "y"`)
	if got := comparer().Compare(t.Context(), before, after, Of("UPDATE", widget())); got.Relation != Neither {
		t.Errorf("%s %s", got.Relation, got.Why)
	}
}

// TR-3: two numbers that are compared with each other differ also beyond all constants, and between two.
func TestNumbersDifferWithinOneGap(t *testing.T) {
	for _, test := range []struct {
		before, after string
		want          Relation
	}{
		{`object.spec.size <= 100 || object.spec.size == oldObject.spec.size`, `object.spec.size <= 100 || oldObject.spec.size > 100`, Wider},
		{`object.spec.size <= 100 || object.spec.size == oldObject.spec.size`, `object.spec.size <= 100 || has(oldObject.spec.size) && oldObject.spec.size > 100`, Wider},
		{`object.spec.size > -50 || object.spec.size == oldObject.spec.size`, `object.spec.size > -50 || oldObject.spec.size <= -50`, Wider},
		{`object.spec.size > 70 || object.spec.size < 50 || object.spec.size == oldObject.spec.size`,
			`object.spec.size > 70 || object.spec.size < 50 || oldObject.spec.size >= 50 && oldObject.spec.size <= 70`, Wider},
		// Twins: only one number is in the gap; the same condition in other words.
		{`object.spec.size <= 100 || object.spec.size == oldObject.spec.size && object.spec.size == 101`, `object.spec.size <= 100 || object.spec.size == 101 && oldObject.spec.size == 101`, Equivalent},
		{`object.spec.size == oldObject.spec.size || object.spec.size <= 100`, `object.spec.size <= 100 || object.spec.size == oldObject.spec.size`, Equivalent},
	} {
		if got := comparer().Compare(t.Context(), allow(t, expr.When, test.before), allow(t, expr.When, test.after), Of("UPDATE", widget())); got.Relation != test.want {
			t.Errorf("%s\n%s: %s (%s), want %s", test.before, test.after, got.Relation, got.Why, test.want)
		}
	}
}

// TR-3: a field that expressions can name is never taken for one that does not exist.
func TestEveryDeclaredFieldHasAShape(t *testing.T) {
	u := Of("CREATE", widget())
	u.Namespaced, u.Impersonated = true, true
	vars := u.complete().variables()
	var check func(path string, shape *Shape, declared *apiservercel.DeclType)
	check = func(path string, shape *Shape, declared *apiservercel.DeclType) {
		if shape == nil {
			t.Errorf("%s has no shape", path)
			return
		}
		for name, field := range declared.Fields {
			check(path+"."+name, shape.Sub(name), field.Type)
		}
		if declared.ElemType != nil && shape.Type != Any {
			check(path+"[]", shape.Elem, declared.ElemType)
		}
	}
	check("request", vars["request"], expr.RequestType())
	check("impersonatedRequest", vars["impersonatedRequest"], expr.ImpersonatedType())
	check("namespaceObject", vars["namespaceObject"], expr.NamespaceType())
}

// TR-3, TM-6: a condition on what is not an object can hold: nothing is said of it that is not so. The time is free.
func TestConditionsOnTheRequestCanHold(t *testing.T) {
	u := Of("CREATE", widget())
	u.Namespaced = true
	for _, test := range []struct {
		when string
		want []Relation // against nothing
	}{
		{`request.time.getHours("UTC") >= 8 && request.time.getHours("UTC") < 18`, []Relation{Wider}},
		{`request.time < timestamp("2031-01-01T00:00:00Z")`, []Relation{Wider}},
		{`request.time == timestamp("2031-03-01T00:00:00Z")`, []Relation{Wider, Unclear}},
		{`request.userInfo.username == "edgar"`, []Relation{Wider}},
		{`"ops" in request.userInfo.groups`, []Relation{Wider}},
		{`request.userInfo.extra["scopes"] == ["x"]`, []Relation{Wider}},
		{`has(request.userInfo.uid)`, []Relation{Wider}},
		{`request.fieldSelector.requirements.exists(r, r.key == "spec.nodeName")`, []Relation{Unclear}},
		{`size(request.labelSelector.requirements) > 0`, []Relation{Unclear}},
		{`namespaceObject.metadata.uid == "u"`, []Relation{Wider}},
		{`has(namespaceObject.metadata.deletionTimestamp)`, []Relation{Wider}},
		{`namespaceObject.metadata.generation > 3`, []Relation{Wider}},
		{`"kubernetes" in namespaceObject.metadata.finalizers`, []Relation{Wider}},
		{`namespaceObject.status.phase == "Active"`, []Relation{Wider}},
		{`object.metadata.nonsense == "x"`, []Relation{Equivalent}}, // a widget has no metadata
		{`request.userInfo.username == "edgar" && request.user != "edgar"`, []Relation{Equivalent}},
	} {
		got := comparer().Compare(t.Context(), Access{}, allow(t, expr.When, test.when), u)
		if !slices.Contains(test.want, got.Relation) {
			t.Errorf("%s: %s (%s), want %v", test.when, got.Relation, got.Why, test.want)
		}
	}
}

// TR-3: what a schema says by other words than properties can be there.
func TestSchemasThatAllowMore(t *testing.T) {
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"template": {Type: "object", XEmbeddedResource: true, Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "string"}}},
		"free":     {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}},
		"closed":   {Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{}},
	}}
	revision := FromGo(reflect.TypeFor[appsv1.ControllerRevision]())
	for _, test := range []struct {
		shape *Shape
		where string
		want  Relation
	}{
		{FromSchema(schema), `resource.template.kind == "Pod"`, Wider},
		{FromSchema(schema), `resource.template.metadata.labels.a == "b"`, Wider},
		{FromSchema(schema), `resource.template.spec == "x"`, Wider},
		{FromSchema(schema), `resource.free.x == "y"`, Wider},
		{FromSchema(schema), `resource.free.x.y == "z"`, Wider},
		{FromSchema(schema), `resource.closed.x == "y"`, Equivalent},
		{FromSchema(schema), `resource.template.nonsense == "y"`, Equivalent},
		{revision, `resource.data.spec == "y"`, Wider},
		{revision, `resource.metadata.creationTimestamp.x == "y"`, Equivalent},
	} {
		if got := comparer().Compare(t.Context(), Access{}, allow(t, expr.Where, test.where), Of("CREATE", test.shape)); got.Relation != test.want {
			t.Errorf("%s: %s (%s), want %s", test.where, got.Relation, got.Why, test.want)
		}
	}
}
