package expr

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// odd has fields of every shape that Kubernetes' own types have few of.
type odd struct {
	metav1.TypeMeta `json:",inline"`
	*oddInline      `json:",inline"`
	Name            oddName            `json:"name"`
	Must            *int64             `json:"must"`
	May             *int64             `json:"may,omitempty"`
	Twice           **string           `json:"twice"`
	Zero            int                `json:"zero,omitzero"`
	Unsigned        uint64             `json:"unsigned"`
	Ratio           float32            `json:"ratio"`
	Bytes           []byte             `json:"bytes"`
	Any             any                `json:"any"`
	Own             oddMarshaler       `json:"own"`
	OwnPointer      *oddMarshaler      `json:"ownPointer"`
	Time            metav1.Time        `json:"time"`
	Quantity        *resource.Quantity `json:"quantity"`
	Port            intstr.IntOrString `json:"port"`
	Texts           map[string]string  `json:"texts"`
	Named           map[oddName]string `json:"named"`
	Numbers         map[string]int32   `json:"numbers"`
	List            []odd              `json:"list"`
	Deep            *odd               `json:"deep,omitempty"`
	Untagged        bool
	Hidden          string `json:"-"`
}

type oddName string

// oddInline is inlined by a pointer that can be nil.
type oddInline struct {
	Inlined      string            `json:"inlined"`
	InlinedTexts map[string]string `json:"inlinedTexts"`
}

type oddMarshaler struct{ Inner string }

func (o *oddMarshaler) MarshalJSON() ([]byte, error) { return json.Marshal("own:" + o.Inner) }

func (o *odd) DeepCopyObject() runtime.Object { return o }

// random fills a value: with little, since a path has to end somewhere, and leaves a third of it empty.
func random(r *rand.Rand, v reflect.Value, depth int) {
	if !v.CanSet() || depth > 7 || r.IntN(3) == 0 {
		return
	}
	words := []string{"", "a", "b", "3"}
	switch v.Kind() {
	case reflect.String:
		v.SetString(words[r.IntN(len(words))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(r.Int64N(5) - 1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(r.Uint64N(5))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(r.IntN(8)) / 2)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		random(r, v.Elem(), depth+1)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf([]any{"a", int64(3), true, 1.5, map[string]any{"a": "b"}}[r.IntN(5)]))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		random(r, v.Index(0), depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if key := v.Type().Key(); key.Kind() == reflect.String {
			entry := reflect.New(v.Type().Elem()).Elem()
			random(r, entry, depth+1)
			v.SetMapIndex(reflect.ValueOf("a").Convert(key), entry)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			random(r, v.Field(i), depth+1)
		}
	}
}

// randomObject is an object of some kind, as Go has it or as a map.
func randomObject(t testing.TB, r *rand.Rand) runtime.Object {
	t.Helper()
	object := []runtime.Object{&odd{}, &odd{}, &appsv1.Deployment{}, &corev1.Pod{}, &corev1.Service{}, &corev1.ConfigMap{}}[r.IntN(6)]
	random(r, reflect.ValueOf(object).Elem(), 0)
	if r.IntN(3) > 0 {
		return object
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return object // it has a number that no map can have
	}
	return &unstructured.Unstructured{Object: content}
}

// randomPath is a path that objects of a type could have, and now and then one that they cannot.
func randomPath(r *rand.Rand, of reflect.Type) string {
	var b strings.Builder
	for range 1 + r.IntN(4) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		name := []string{"a", "none"}[r.IntN(2)]
		switch of.Kind() {
		case reflect.Struct:
			names := value.TypeReflectEntryOf(of).OrderedFields()
			if len(names) > 0 && r.IntN(9) > 0 {
				name = names[r.IntN(len(names))].JsonName
			}
			of = fieldOf(of, name)
		case reflect.Map:
			of = of.Elem()
		}
		if r.IntN(3) == 0 || strings.ContainsAny(name, "-./") {
			fmt.Fprintf(&b, "[%q]", name)
		} else {
			b.WriteString("." + name)
		}
	}
	return b.String()
}

func fieldOf(of reflect.Type, name string) reflect.Type {
	for _, f := range reflect.VisibleFields(of) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && f.IsExported() {
			return f.Type
		}
	}
	return reflect.TypeFor[string]()
}

// pathUses are expressions with a path P of an object.
var pathUses = []string{
	`P == "a"`, `P != Q`, `P < 3`, `P >= 0 || P == true`, `P`, `!P`, `P == null`, `P + 1 == 2`, `P.startsWith("a")`, `P.contains(Q)`,
	`P in ["a", "b"]`, `"a" in P`, `size(P) == 1`, `has(object.spec) && P == "a"`, `P["a"] == "b"`, `P[Q] == "b"`, `{"a": "b"}[P] == "b"`,
	`(P == "a" ? P : Q) == "a"`, `[P, Q] == [Q, P]`, `dyn(P) == 3`, `[1, 2].exists(i, i == P)`, `[dyn({"metadata": {"name": "z"}})].exists(object, object.metadata.name == "z" && P != 5)`,
	`P.all(x, x == "a")`, `P == "a" || true`, `P == "a" && false`, `P[0] == "a"`,
}

// Law: what is read from an object itself is what CEL finds, and so is every error.
func FuzzPathsReadAsCEL(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 1))
		object, oldObject := randomObject(t, r), randomObject(t, r)
		variable := []string{varObject, varOldObject}[r.IntN(2)]
		of := reflect.TypeOf([]runtime.Object{object, oldObject, &odd{}, &appsv1.Deployment{}}[r.IntN(4)])
		source := pathUses[r.IntN(len(pathUses))]
		source = strings.ReplaceAll(source, "Q", "oldObject"+randomPath(r, of))
		source = strings.ReplaceAll(source, "P", variable+randomPath(r, of))

		c := compiler(t)
		checked, iss := c.envs[When].StoredExpressionsEnv().Compile(source)
		if failedIssues(iss) {
			return
		}
		pl := c.planners[When].stored
		quick, err := pl.untracked(checked)
		if err != nil {
			t.Fatal(err)
		}
		slow, err := pl.NewInterpretable(checked.NativeRep(), interpreter.Optimize())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time, the type is known
			for _, d := range []*Data{nil, NewData(DataConfig{Objects: Static{New: object, Old: oldObject}}), NewData(DataConfig{Objects: Static{New: oldObject, Old: object}})} {
				var results []string
				for _, code := range []interpreter.InterpretableV2{quick, slow} {
					a := &activation{req: edgar(), data: d}
					out, _, err := (&bounded{code: code}).eval(nil, a) //nolint:staticcheck // nothing to wait for
					results = append(results, fmt.Sprintf("%T %v, error %v, unknown read %v", out, out, err, a.touched))
				}
				if results[0] != results[1] {
					t.Fatalf("%s\nread: %s\nCEL:  %s", source, results[0], results[1])
				}
			}
		}
	})
}

// Paths that end at a value are read without CEL; those that do not are not.
func TestPathsThatAreRead(t *testing.T) {
	three, none := int32(3), (*odd)(nil)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}}, Spec: appsv1.DeploymentSpec{Replicas: &three}}
	for _, tc := range []struct {
		object any
		path   string
		want   any
	}{
		{deployment, "spec.replicas", types.Int(3)},
		{deployment, "metadata.name", types.String("web")},
		{deployment, "metadata.labels.app", types.String("web")},
		{deployment, "spec.template.spec.hostNetwork", nil},       // left out if it is false
		{deployment, "spec.paused", nil},                          // likewise
		{deployment, "spec.strategy.rollingUpdate.maxSurge", nil}, // nil on the way
		{deployment, "metadata.creationTimestamp", nil},           // it says itself how it looks
		{deployment, "metadata.labels.none", nil},                 // no such key
		{deployment, "metadata.labels", nil},                      // no end of a path
		{deployment, "spec.none", nil},                            // no such field
		{&appsv1.Deployment{}, "spec.replicas", nil},              // left out
		{&odd{Name: "a"}, "name", types.String("a")},              // a type of its own
		{&odd{}, "inlined", types.String("")},                     // nil on the way, but inlined
		{&odd{}, "inlinedTexts.a", nil},                           //
		{&odd{oddInline: &oddInline{Inlined: "a"}}, "inlined", types.String("a")},
		{&odd{Unsigned: 1}, "unsigned", nil}, // it may be too large
		{&odd{Own: oddMarshaler{"a"}}, "own", nil},
		{&odd{Own: oddMarshaler{"a"}}, "own.Inner", nil},
		{none, "name", nil},
		{odd{Name: "a"}, "name", nil},
		{&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(3)}}}, "spec.replicas", types.Int(3)},
		{&unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": nil}}}, "spec.replicas", nil},
		{&unstructured.Unstructured{}, "spec.replicas", nil},
	} {
		p := &path{names: strings.Split(tc.path, ".")}
		for range 2 {
			if got := p.read(tc.object); fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("%s of %T: %v, want %v", tc.path, tc.object, got, tc.want)
			}
		}
	}
}

// Only paths of the objects are read so, and nothing that cel-go plans in its own way.
func TestPathsInExpressions(t *testing.T) {
	for source, want := range map[string][]string{
		`object.spec.replicas < 10`:                                      {"object spec replicas"},
		`object.metadata.labels["app"] == oldObject.metadata.name`:       {"object metadata labels app", "oldObject metadata name"},
		`object.metadata.name.startsWith("a")`:                           {"object metadata name"},
		`request.user == "edgar"`:                                        nil,
		`has(object.spec.replicas)`:                                      nil,
		`object.spec[request.user] == "a"`:                               nil,
		`(object.spec.a == 1 ? object.spec.b : object.spec.c) == 2`:      {"object spec a"},
		`[{"a": 1}].exists(object, object.a == 1)`:                       nil,
		`object.spec.list.exists(x, x.name == object.metadata.name)`:     {"object metadata name"},
		`[1].exists(oldObject, oldObject == 1) && object.spec.a == "a"`:  nil,
		`object == oldObject`:                                            nil,
		`{"a": object.spec.a}["a"] == object.spec.list[0].name`:          nil,
		`object.spec.a.b[object.spec.c] == 1 || object["spec"].d == "d"`: {"object spec d"},
	} {
		checked, iss := compiler(t).envs[When].StoredExpressionsEnv().Compile(source)
		if failedIssues(iss) {
			t.Fatal(iss.Err())
		}
		var got []string
		for _, names := range pathsIn(checked.NativeRep().Expr()) {
			got = append(got, strings.Join(names, " "))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// BenchmarkPath is object.spec.replicas of a Deployment, read and through CEL.
func BenchmarkPath(b *testing.B) {
	replicas := int32(3)
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
	checked, iss := compiler(b).envs[When].StoredExpressionsEnv().Compile("object.spec.replicas")
	if failedIssues(iss) {
		b.Fatal(iss.Err())
	}
	code, err := compiler(b).planners[When].stored.NewInterpretable(checked.NativeRep())
	if err != nil {
		b.Fatal(err)
	}
	p := &path{InterpretableV2: code, source: sourceObject, names: []string{"spec", "replicas"}}
	for name, code := range map[string]interpreter.InterpretableV2{"read": p, "CEL": code} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a := &activation{data: NewData(DataConfig{Objects: Static{New: deployment}})}
				if out, _, err := (&bounded{code: code}).eval(b.Context(), a); err != nil || out != types.Int(3) {
					b.Fatal(out, err)
				}
			}
		})
	}
	b.Run("field", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if p.read(deployment) == nil {
				b.Fatal("not read")
			}
		}
	})
}
