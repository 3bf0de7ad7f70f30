package hiddenfield

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/fieldperm"
)

func hidden(t testing.TB, keys bool, fields ...string) Set {
	t.Helper()
	var s Set
	for _, f := range fields {
		p, err := fieldperm.ParsePath(f)
		if err != nil {
			t.Fatal(err)
		}
		s = append(s, fieldperm.Hidden{Permission: "example.com/hidden", Source: "test", Field: p, Keys: keys})
	}
	return s
}

func byName(list fieldperm.Path) []string {
	switch list[len(list)-1].Name {
	case "containers", "env", "named":
		return []string{"name"}
	}
	return nil
}

// sample is an object with hidden values, drawn anew with another seed of them.
type sample struct {
	name string
	set  Set
	draw func(visible, secret *rand.Rand) runtime.Object
}

func word(r *rand.Rand) string { return fmt.Sprintf("w%d", r.IntN(5)) }

func metadata(visible, secret *rand.Rand, fields string) metav1.ObjectMeta {
	applied := fmt.Sprintf(`{"data":{"a":%q},"spec":{"shown":%q},"kind":"X"}`+"\n", word(secret), word(visible))
	if strings.Contains(fields, "f:secret") {
		applied = fmt.Sprintf(`{"spec":{"secret":%q,"shown":%q},"kind":"X"}`, word(secret), word(visible))
	}
	return metav1.ObjectMeta{
		Name: word(visible), UID: "u", ResourceVersion: "1", Annotations: map[string]string{"a": word(visible), lastApplied: applied},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "one", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}},
		},
	}
}

func samples(t testing.TB) []sample {
	return []sample{
		{"secret", hidden(t, false, ".data"), func(v, s *rand.Rand) runtime.Object {
			o := &corev1.Secret{ObjectMeta: metadata(v, s, `{"f:data":{".":{},"f:`+word(s)+`":{}},"f:type":{}}`), Type: corev1.SecretType(word(v))}
			if s.IntN(3) > 0 {
				o.Data = map[string][]byte{word(s): []byte(word(s)), "b": []byte(word(s))}
			}
			return o
		}},
		{"secret with keys", hidden(t, true, ".data"), func(v, s *rand.Rand) runtime.Object {
			o := &corev1.Secret{ObjectMeta: metadata(v, v, `{"f:data":{".":{},"f:a":{}}}`), Data: map[string][]byte{}}
			for range v.IntN(3) {
				o.Data[word(v)] = []byte(word(s) + "!")
			}
			return o
		}},
		{"deployment", hidden(t, false, ".spec.template.spec.containers[].env[].value"), func(v, s *rand.Rand) runtime.Object {
			o := &appsv1.Deployment{ObjectMeta: metadata(v, v, `{"f:spec":{"f:replicas":{}}}`)}
			for i := range v.IntN(3) {
				c := corev1.Container{Name: fmt.Sprint("c", i), Image: word(v)}
				for j := range v.IntN(3) {
					c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("e", j), Value: word(s)})
				}
				o.Spec.Template.Spec.Containers = append(o.Spec.Template.Spec.Containers, c)
			}
			return o
		}},
		{"revision", hidden(t, false, ".data.spec.template.spec.containers[].env[].value"), func(v, s *rand.Rand) runtime.Object {
			data := fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":%q,"env":[{"name":"a","value":%q}]}]}}}}`, word(v), word(s))
			return &appsv1.ControllerRevision{ObjectMeta: metadata(v, v, `{"f:data":{}}`), Data: runtime.RawExtension{Raw: []byte(data)}}
		}},
		{"custom", hidden(t, false, ".spec.secret", ".spec.nested.password", ".spec.nested.token", ".spec.list[].key", ".spec.named[].auth.key"), func(v, s *rand.Rand) runtime.Object {
			spec := map[string]any{"shown": word(v), "size": int64(v.IntN(9))}
			if s.IntN(2) == 0 {
				spec["secret"] = word(s)
			}
			switch s.IntN(4) {
			case 0:
				spec["nested"] = map[string]any{}
			case 1:
				spec["nested"] = map[string]any{"password": word(s), "token": word(s)}
			case 2:
				spec["nested"] = map[string]any{"token": word(s)}
			}
			var list, named []any
			for i := range v.IntN(3) {
				list = append(list, map[string]any{"shown": word(v), "key": word(s)})
				e := map[string]any{"name": fmt.Sprint("n", i), "x": word(v)}
				if s.IntN(2) == 0 {
					e["auth"] = map[string]any{"key": word(s)}
				}
				named = append(named, e)
			}
			spec["list"], spec["named"] = list, named
			m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&metav1.PartialObjectMetadata{ObjectMeta: metadata(v, s, `{"f:spec":{"f:shown":{},"f:secret":{}}}`)})
			if err != nil {
				t.Fatal(err)
			}
			return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x/v1", "kind": "X", "metadata": m["metadata"], "spec": spec}}
		}},
	}
}

func shownText(t *testing.T, o runtime.Object) string {
	t.Helper()
	b, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// HF-2, HF-3, HF-10: objects that differ in hidden fields only look the same, whatever is hidden, and stay as they are.
func TestTwoObjectsLookTheSame(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			for i := range uint64(500) {
				a, b := s.draw(rand.New(rand.NewPCG(i, 1)), rand.New(rand.NewPCG(i, 2))), s.draw(rand.New(rand.NewPCG(i, 1)), rand.New(rand.NewPCG(i, 3)))
				before := shownText(t, a)
				shownA, err := s.set.Show(a, nil)
				if err != nil {
					t.Fatal(err)
				}
				shownB, err := s.set.Show(b, &Memo{})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(shownText(t, shownA), shownText(t, shownB)); diff != "" {
					t.Fatalf("round %d: %s", i, diff)
				}
				if shownText(t, a) != before {
					t.Fatal("the object itself has changed")
				}
			}
		})
	}
}

// HF-2: what is remembered of one object shows nothing of the next, from which other fields may be hidden: by
// conditions, or in other namespaces.
func TestMemoIsOfOneSet(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			memo := &Memo{}
			for i := range uint64(300) {
				v := rand.New(rand.NewPCG(i, 1))
				o := s.draw(v, rand.New(rand.NewPCG(i, 2)))
				some := slices.DeleteFunc(slices.Clone(s.set), func(fieldperm.Hidden) bool { return v.IntN(2) == 0 })
				alone, err := some.Show(o, nil)
				if err != nil {
					t.Fatal(err)
				}
				shown, err := some.Show(o, memo)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(shownText(t, alone), shownText(t, shown)); diff != "" {
					t.Fatalf("round %d, %s: %s", i, some.Names(), diff)
				}
			}
		})
	}
}

// HF-4: what was shown and is written back leaves everything as it was, whatever else changes.
func TestRoundTripsKeepWhatIsHidden(t *testing.T) {
	for _, s := range samples(t) {
		t.Run(s.name, func(t *testing.T) {
			for i := range uint64(500) {
				o := s.draw(rand.New(rand.NewPCG(i, 1)), rand.New(rand.NewPCG(i, 2)))
				shown, err := s.set.Show(o, nil)
				if err != nil {
					t.Fatal(err)
				}
				restored, err := restoreAll(s.set, o, shown)
				if err != nil {
					t.Fatalf("round %d: %v\n%s", i, err, shownText(t, o))
				}
				if diff := cmp.Diff(shownText(t, o), shownText(t, restored.Object)); diff != "" {
					t.Fatalf("round %d: %s", i, diff)
				}
				if len(restored.Set) > 0 {
					t.Fatalf("round %d: taken as set: %v", i, restored.Set.Names())
				}
			}
		})
	}
}

// HF-4: elements are found by their key, new values are taken, and removals are refused.
func TestRestore(t *testing.T) {
	set := hidden(t, false, ".spec.containers[].env[].value")
	pod := func(containers ...corev1.Container) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
	}
	c := func(name string, env ...string) corev1.Container {
		out := corev1.Container{Name: name}
		for i := 0; i < len(env); i += 2 {
			out.Env = append(out.Env, corev1.EnvVar{Name: env[i], Value: env[i+1]})
		}
		return out
	}
	stored := pod(c("a", "x", "1", "y", "2"), c("b", "x", "3"), c("none"))
	for _, tc := range []struct {
		name          string
		written, want *corev1.Pod
		set           bool
	}{
		{"shuffled", pod(c("none"), c("b", "x", ""), c("a", "y", "", "x", "")), pod(c("none"), c("b", "x", "3"), c("a", "y", "2", "x", "1")), false},
		{"a new value", pod(c("a", "x", "9", "y", ""), c("b", "x", ""), c("none")), pod(c("a", "x", "9", "y", "2"), c("b", "x", "3"), c("none")), true},
		{"a new container", pod(c("a", "x", "", "y", ""), c("b", "x", ""), c("none"), c("d", "z", "5")), pod(c("a", "x", "1", "y", "2"), c("b", "x", "3"), c("none"), c("d", "z", "5")), true},
		{"what holds nothing goes", pod(c("a", "x", "", "y", ""), c("b", "x", "")), pod(c("a", "x", "1", "y", "2"), c("b", "x", "3")), false},
		{"a variable goes", pod(c("a", "x", ""), c("b", "x", ""), c("none")), nil, false},
		{"a container goes", pod(c("a", "x", "", "y", ""), c("none")), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			restored, err := restoreAll(set, stored, tc.written)
			var removal *Removal
			if tc.want == nil {
				if !errors.As(err, &removal) || !strings.Contains(err.Error(), "reveal:example.com/hidden") {
					t.Fatal(err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, restored.Object); diff != "" || (len(restored.Set) > 0) != tc.set {
				t.Errorf("set %v: %s", restored.Set.Names(), diff)
			}
		})
	}
}

// HF-3, HF-4: with keep: Keys an empty value stands for the stored one.
func TestKeysArePlaceholders(t *testing.T) {
	set := hidden(t, true, ".data")
	old := &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}}
	written := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{policyv1alpha1.AnnotationHidden: ".data"}}, Data: map[string][]byte{"a": {}, "c": []byte("3")}}
	restored, err := restoreAll(set, old, written)
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Secret{Data: map[string][]byte{"a": []byte("1"), "b": []byte("2"), "c": []byte("3")}}
	if diff := cmp.Diff(want, restored.Object); diff != "" {
		t.Error(diff)
	}
	if shown, err := set.Show(old, nil); err != nil || !strings.Contains(shownText(t, shown), `"a": "",`) {
		t.Errorf("%v %s", err, shownText(t, shown))
	}
}

// HF-4: patches that would test, copy, move or remove a hidden field, or change what it is in, are refused.
func TestPatches(t *testing.T) {
	set := hidden(t, false, ".data", ".spec.containers[].env[].value")
	for patch, want := range map[string]bool{
		`[{"op":"add","path":"/data","value":{}}]`:                                            true,
		`[{"op":"replace","path":"/data","value":{}}]`:                                        true,
		`[{"op":"add","path":"/metadata/labels","value":{}}]`:                                 true,
		`[{"op":"replace","path":"/spec/containers/0/env/1/value","value":"x"}]`:              true,
		`[{"op":"replace","path":"/spec/containers/0/image","value":"x"}]`:                    true,
		`[{"op":"test","path":"/data","value":{}}]`:                                           false,
		`[{"op":"test","path":"/data/password","value":"x"}]`:                                 false,
		`[{"op":"add","path":"/data/password","value":"x"}]`:                                  false,
		`[{"op":"remove","path":"/data"}]`:                                                    false,
		`[{"op":"copy","from":"/data/x","path":"/metadata/annotations/x"}]`:                   false,
		`[{"op":"move","from":"/spec","path":"/metadata/annotations/x"}]`:                     false,
		`[{"op":"test","path":"","value":{}}]`:                                                false,
		`[{"op":"test","path":"x/data","value":{}}]`:                                          false,
		`[{"op":"replace","path":"/spec/containers/0","value":{}}]`:                           false,
		`[{"op":"test","path":"/spec/containers/0/env/0","value":{}}]`:                        false,
		`[{"op":"test","path":"/spec/containers/0/env/0/value","value":"x"}]`:                 false,
		`[{"op":"test","path":"/metadata/name","value":"x"}]`:                                 true,
		`[{"op":"copy","from":"/metadata/name","path":"/spec/containers/0/env/0/value"}]`:     false,
		`[{"op":"add","path":"/metadata/annotations/x","from":"/data/password","value":"x"}]`: false,
	} {
		if _, err := set.JSONPatch([]byte(patch)); (err == nil) != want {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if out, _ := set.JSONPatch([]byte(`[{"op":"replace","path":"/data","value":{}}]`)); !strings.Contains(string(out), `"add"`) {
		t.Errorf("whether the field was there is told: %s", out)
	}
	for patch, want := range map[string]bool{
		`{"data":{"x":"y"}}`:      true,
		`{"metadata":{"x":null}}`: true,
		`{"data":null}`:           false,
		`{"data":{"x":null}}`:     false,
		`{"spec":null}`:           false,
		`{"spec":"x"}`:            false,
		`{"spec":{"x":null}}`:     true,
		`{"spec":{"containers":[{"name":"a","env":[{"name":"b","value":"c"}]}]}}`:             true,
		`{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`:                            false,
		`{"spec":{"containers":[{"name":"a","env":[{"name":"b","$patch":"delete"}]}]}}`:       false,
		`{"spec":{"containers":[{"name":"a","env":[{"name":"b","value":null}]}]}}`:            false,
		`{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a"}]}}`: true,
		`{"spec":{"$retainKeys":["containers"],"containers":[{"name":"a"}]}}`:                 false,
		`{"metadata":{"annotations":{"$patch":"replace"}}}`:                                   true,
		`{"$patch":"replace"}`:           false,
		`{"metadata":{}} {"data":null}`:  false,
		`{"metadata":{}`:                 false,
		`["metadata"]`:                   false,
		`null`:                           false,
		`{"data":null,"data":{"x":"y"}}`: true, // the last one counts, and it is written once
	} {
		if _, err := set.MergePatch([]byte(patch), true); (err == nil) != want {
			t.Errorf("%s: %v", patch, err)
		}
	}
}

// HF-4: a patch is written as it was read, so that two readers cannot disagree.
func TestPatchIsWrittenAsRead(t *testing.T) {
	set := hidden(t, false, ".data")
	if out, err := set.MergePatch([]byte(`{"data":null,"data":{"x":"y"},"n":12345678901234567890}`), false); err != nil || string(out) != `{"data":{"x":"y"},"n":12345678901234567890}` {
		t.Errorf("a merge patch: %s, %v", out, err)
	}
	if out, err := set.JSONPatch([]byte(`[{"op":"remove","op":"add","path":"/data","value":{}}]`)); err != nil || string(out) != `[{"op":"add","path":"/data","value":{}}]` {
		t.Errorf("a JSON patch: %s, %v", out, err)
	}
	for _, text := range []string{``, `{`, `{}`, `[1]`, `[] []`} {
		if _, err := set.JSONPatch([]byte(text)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("%s as a JSON patch: %v", text, err)
		}
	}
}

// HF-4: what a patch gives a value is known, however it is spelled.
func TestTouched(t *testing.T) {
	set := hidden(t, false, ".data")
	for patch, want := range map[string]bool{
		`{"data":{"x":"y"}}`: true, `{"stringData":{"x":"y"}}`: true, `{"metadata":{"labels":{"a":"b"}}}`: false,
		`[{"op":"add","path":"/data","value":{}}]`: true, `[{"op":"add","path":"/stringData","value":{}}]`: true, `[{"op":"add","path":"/type","value":"x"}]`: false,
	} {
		if got := len(set.Touched([]byte(patch))) > 0; got != want {
			t.Errorf("%s: %v", patch, got)
		}
	}
}

func BenchmarkShow(b *testing.B) {
	set := hidden(b, false, ".data")
	secret := &corev1.Secret{ObjectMeta: metadata(rand.New(rand.NewPCG(1, 1)), rand.New(rand.NewPCG(1, 2)), `{"f:data":{".":{},"f:a":{}},"f:type":{}}`), Data: map[string][]byte{"a": []byte("b")}}
	delete(secret.Annotations, lastApplied)
	memo := &Memo{}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := set.Show(secret, memo); err != nil {
			b.Fatal(err)
		}
	}
}

// HF-4: an apply does not take over, share or remove what is hidden.
func TestTakenOver(t *testing.T) {
	set := hidden(t, false, ".data")
	entry := func(name, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: name, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	const data, asText, other = `{"f:data":{"f:a":{}}}`, `{"f:stringData":{"f:a":{}}}`, `{"f:type":{}}`
	for _, tc := range []struct {
		name     string
		old, new []metav1.ManagedFieldsEntry
		want     bool
	}{
		{"nothing of it", []metav1.ManagedFieldsEntry{entry("one", data)}, []metav1.ManagedFieldsEntry{entry("one", data), entry("two", other)}, false},
		{"own", []metav1.ManagedFieldsEntry{entry("one", data)}, []metav1.ManagedFieldsEntry{entry("one", data)}, false},
		{"new", []metav1.ManagedFieldsEntry{entry("one", other)}, []metav1.ManagedFieldsEntry{entry("one", other), entry("two", data)}, false},
		{"shared", []metav1.ManagedFieldsEntry{entry("one", data)}, []metav1.ManagedFieldsEntry{entry("one", data), entry("two", data)}, true},
		{"taken", []metav1.ManagedFieldsEntry{entry("one", data)}, []metav1.ManagedFieldsEntry{entry("two", data)}, true},
		{"shared as a whole", []metav1.ManagedFieldsEntry{entry("one", `{"f:data":{}}`)}, []metav1.ManagedFieldsEntry{entry("one", `{"f:data":{}}`), entry("two", `{"f:data":{}}`)}, true},
		{"removed", []metav1.ManagedFieldsEntry{entry("one", data)}, []metav1.ManagedFieldsEntry{entry("one", other)}, true},
		{"shared as text", []metav1.ManagedFieldsEntry{entry("one", asText)}, []metav1.ManagedFieldsEntry{entry("one", asText), entry("two", asText)}, true},
	} {
		if got := set.TakenOver(tc.old, tc.new); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	for fields, want := range map[string]int{data: 1, asText: 1, other: 0} {
		if got := set.AppliedBy("one", []metav1.ManagedFieldsEntry{entry("one", fields)}); len(got) != want {
			t.Errorf("%s: applied are %v", fields, got)
		}
		if got := set.managers([]metav1.ManagedFieldsEntry{entry("one", fields)}, nil); len(got) == want {
			t.Errorf("%s: shown are %v", fields, got)
		}
	}
}

// HF-2: conflicts on hidden fields are told from others.
func TestConflicts(t *testing.T) {
	set := hidden(t, false, ".data", ".spec.containers[].env[].value")
	for field, want := range map[string]bool{
		".spec.containers": true, ".spec": true, ".spec.nodeName": false, ".data": true, ".data.x": true, ".stringData.x": true, ".stringData": true, ".database": false, ".type": false, `.spec.containers[name="a"].env[name="b"].value`: true, `.spec.containers[name="a"].image`: false,
	} {
		if _, got := set.InConflict(field); got != want {
			t.Errorf("%s: %v", field, got)
		}
	}
}

// HF-8: objects, lists and patches of audit events are redacted.
func TestRedact(t *testing.T) {
	set := hidden(t, false, ".data")
	for in, want := range map[string]string{
		`{"kind":"Secret","metadata":{"name":"x"},"data":{"a":"secret"}}`:                   `{"kind":"Secret","metadata":{"annotations":{"proviso.dev/hidden":".data"},"name":"x"}}`,
		`{"kind":"SecretList","items":[{"data":{"a":"secret"},"type":"x"}]}`:                `{"items":[{"type":"x"}],"kind":"SecretList"}`,
		`{"data":{"a":"secret"},"type":"x"}`:                                                `{"type":"x"}`,
		`[{"op":"add","path":"/data/a","value":"secret"}]`:                                  `[{"op":"add","path":"/data/a"}]`,
		`[{"op":"add","path":"","value":"secret"},{"op":"add","path":"/type","value":"x"}]`: `[{"op":"add","path":""},{"op":"add","path":"/type","value":"x"}]`,
	} {
		if got, ok := set.Redact([]byte(in)); !ok || string(got) != want {
			t.Errorf("%s: %v %s", in, ok, got)
		}
	}
	for _, in := range []string{"data: secret", `{"kind":"Table","rows":[{"cells":["secret"]}]}`} {
		if text, ok := set.Redact([]byte(in)); ok {
			t.Errorf("%s is shown: %s", in, text)
		}
	}
	for _, in := range []string{
		`{"kind":"Secret","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"stringData\":{\"a\":\"secret\"}}"}}}`,
		`{"stringData":{"a":"secret"}}`,
		`[{"op":"add","path":"/stringData/a","value":"secret"}]`,
		`[{"op":"add","path":"/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration","value":"secret"}]`,
	} {
		if text, ok := set.Redact([]byte(in)); !ok || strings.Contains(string(text), "secret") {
			t.Errorf("%s becomes %s", in, text)
		}
	}
}

// DA-16: values are replaced and keys kept; what is not known to be an object of the kind is not shown.
func TestReplace(t *testing.T) {
	set := hidden(t, false, ".data", ".spec.containers[].env")
	const applied = "kubectl.kubernetes.io/last-applied-configuration"
	for in, want := range map[string]string{
		`{"kind":"Secret","metadata":{"name":"x"},"data":{"a":"secret","b":7}}`:                                                          `{"data":{"a":"REDACTED","b":"REDACTED"},"kind":"Secret","metadata":{"name":"x"}}`,
		`{"kind":"Secret","metadata":{"annotations":{"` + applied + `":"{\"stringData\":{\"a\":\"secret\"}}"}}}`:                         `{"kind":"Secret","metadata":{"annotations":{"` + applied + `":"{\"stringData\":{\"a\":\"REDACTED\"}}"}}}`,
		`{"kind":"Secret","metadata":{"annotations":{"` + applied + `":"secret"}}}`:                                                      `{"kind":"Secret","metadata":{"annotations":{}}}`,
		`{"kind":"Secret","metadata":{"managedFields":[{"fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:a":{}},"f:type":{}}}]}}`: `{"kind":"Secret","metadata":{"managedFields":[{"fieldsType":"FieldsV1","fieldsV1":{"f:type":{}}}]}}`,
		`{"kind":"Secret","metadata":{"managedFields":"secret"}}`:                                                                        `{"kind":"Secret","metadata":{}}`,
		`{"kind":"Secret","spec":{"containers":[{"image":"i","env":[{"name":"N","value":"secret"}]}]}}`:                                  `{"kind":"Secret","spec":{"containers":[{"env":[{"name":"REDACTED","value":"REDACTED"}],"image":"i"}]}}`,
		`{"kind":"SecretList","items":[{"data":{"a":"secret"},"type":"x"}]}`:                                                             `{"items":[{"data":{"a":"REDACTED"},"type":"x"}],"kind":"SecretList"}`,
		`{"kind":"DeleteOptions","propagationPolicy":"Background"}`:                                                                      `{"kind":"DeleteOptions","propagationPolicy":"Background"}`,
		`{"kind":"Status","status":"Success"}`:                                                                                           `{"kind":"Status","status":"Success"}`,
	} {
		if got, ok := set.Replace([]byte(in), "Secret"); !ok || string(got) != want {
			t.Errorf("%s: %v %s", in, ok, got)
		}
	}
	for _, in := range []string{
		"secret", `[{"op":"add","path":"/data/a","value":"secret"}]`, `{"data":{"a":"secret"}}`, `{"kind":"Table","rows":[{"cells":["secret"]}]}`,
		`{"kind":"Scale","spec":{"replicas":3}}`, `{"kind":"Status","status":"Failure","message":"secret"}`, `{"kind":"SecretList","items":"secret"}`, `{"kind":"SecretList","items":["secret"]}`,
	} {
		if got, ok := set.Replace([]byte(in), "Secret"); ok {
			t.Errorf("%s is shown: %s", in, got)
		}
	}
	if _, ok := set.Replace([]byte(`{"kind":"","data":{"a":"secret"}}`), ""); ok {
		t.Error("an object of a kind that is not known is shown")
	}
}

// restoreAll restores a write other than a patch.
func restoreAll(s Set, old, written runtime.Object) (Restored, error) {
	r, err := s.Restore(old, written, byName)
	if err != nil {
		return r, err
	}
	return r, s.RestoreMetadata(old, r.Object, r.Set, true)
}
