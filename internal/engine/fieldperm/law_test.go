package fieldperm

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// world is a random table, a random caller and a random change of a deployment.
type world struct {
	fps      []*policyv1alpha1.FieldPermission
	verbs    []string
	mode     Mode
	old, new *appsv1.Deployment // old may be nil
}

var (
	lawFields = []string{
		".metadata.labels[super.safe.com/a]", ".metadata.labels[]", ".metadata.labels", ".metadata.annotations[env]", ".metadata.finalizers[plain]",
		".spec.replicas", ".spec.template", ".spec.template.spec.containers[app].image", ".spec.template.spec.containers[].image",
		".spec.template.spec.containers[].ports[]", ".spec.template.spec.nodeName", ".spec.template.spec.nodeSelector", ".status.conditions[SuperSafe]",
	}
	lawPodFields = []string{".spec.nodeName", ".spec.hostNetwork", ".metadata.labels[env]", ".spec.containers[].args", ".spec.containers[app]"}
	lawShipped   = []string{
		"metadata", "labels", "label(super.safe.com)", "label(other.com)", "label(env)", "annotations", "annotation(super.safe.com)", "annotation(env)", "annotation(other.com)",
		"finalizers", "finalizer(plain)", "finalizer(super.safe.com)", "ownerReferences", "specification", "status", "conditions", "condition(SuperSafe)", "replicas", "nodeAssignment",
	}
)

func randomWorld(r *rand.Rand) world {
	w := world{mode: pick(r, Granular, General), new: randomDeployment(r)}
	if r.Intn(5) > 0 {
		w.old = randomDeployment(r)
	}
	if some(r) && w.old != nil { // most writes change little
		w.new = w.old.DeepCopy()
		switch r.Intn(4) {
		case 0:
			w.new.Labels = randomMap(r)
		case 1:
			randomPodSpec(r, &w.new.Spec.Template.Spec)
		case 2:
			w.new.Status = randomDeployment(r).Status
		case 3:
			w.new.Spec.Template.Labels = randomMap(r)
		}
	}
	for i := range r.Intn(5) {
		w.fps = append(w.fps, randomPermission(r, i))
	}
	for _, name := range lawShipped {
		if r.Intn(3) == 0 {
			w.verbs = append(w.verbs, VerbPrefix+name)
		}
	}
	for i := range 5 {
		if some(r) {
			w.verbs = append(w.verbs, fmt.Sprintf("%sex.com/p%d", VerbPrefix, i))
		}
		for _, key := range []string{"env", "app", "super.safe.com", "containerPort=80,protocol=TCP"} {
			if some(r) {
				w.verbs = append(w.verbs, fmt.Sprintf("%sex.com/p%d(%s)", VerbPrefix, i, key))
			}
		}
	}
	return w
}

func randomPermission(r *rand.Rand, i int) *policyv1alpha1.FieldPermission {
	fp := permissionObject(fmt.Sprint("fp", i), pick(r, lawFields...), fmt.Sprintf("ex.com/p%d", i), nil, pick(r, "deployments.apps", "deployments.apps", "*"))
	if r.Intn(3) == 0 {
		fp = permissionObject(fp.Name, pick(r, lawPodFields...), fp.Spec.Permission, nil, pick(r, "pods", "*"))
	}
	fp.Spec.Exclusive = some(r)
	if strings.Contains(fp.Spec.Field, "[") && r.Intn(3) == 0 {
		parameter("key", pick(r, "", "slash-delimited-prefix"))(&fp.Spec)
	}
	return fp
}

func (w world) decide(t testing.TB, extra ...*policyv1alpha1.FieldPermission) (Result, *holding) {
	table := mustTable(t, append(slices.Clone(w.fps), extra...)...)
	h := holds(w.verbs...)
	var old runtime.Object
	if w.old != nil {
		old = w.old
	}
	return table.Decide(Request{Target: deploymentTarget, Mode: w.mode, Check: h.check, Objects: objects(t, old, w.new)}), h
}

// naive is FP-5, FP-6, FP-7, FP-8 and FP-15 read aloud: structured-merge-diff says which fields change, and every
// declaration is tried on every one of them. It returns the fields that are refused, as names.
func (w world) naive(t testing.TB) []string {
	var old *typed.TypedValue
	if w.old != nil {
		old = typedOf(t, w.old)
	}
	var refused []string
	for _, field := range naiveLeaves(t, old, typedOf(t, w.new)) {
		if !w.covered(field) {
			refused = append(refused, strings.Join(field, "\x00"))
		}
	}
	return refused
}

func naiveLeaves(t testing.TB, old, new *typed.TypedValue) [][]string {
	var set *fieldpath.Set
	if old == nil {
		var err error
		if set, err = new.ToFieldSet(); err != nil {
			t.Fatal(err)
		}
	} else {
		c, err := old.Compare(new)
		if err != nil {
			t.Fatal(err)
		}
		set = c.Added.Union(c.Removed).Union(c.Modified)
	}
	var all [][]string
	set.Leaves().Iterate(func(p fieldpath.Path) {
		var names []string
		var path Path
		for _, e := range p {
			names = append(names, smdName(e))
			path = append(path, Field(smdName(e)))
		}
		if !neverCounts(path) && !(len(names) == 1 && names[0] == "metadata") {
			all = append(all, names)
		}
	})
	return all
}

type naiveRule struct {
	path          []string // "*" for every entry
	literals      int
	verb          string
	parameterized bool
	prefix        bool
	exclusive     bool
}

// rules lists every declaration that applies to deployments, with templates written out.
func (w world) rules() []naiveRule {
	var all []naiveRule
	add := func(root string, field, name string, parameterized, prefix, exclusive bool) {
		rule := naiveRule{verb: VerbPrefix + name, parameterized: parameterized, prefix: prefix, exclusive: exclusive}
		text := strings.NewReplacer("[]", "\x00*", "[", "\x00", "]", "").Replace(root + field)
		for _, part := range strings.Split(text, "\x00") {
			if strings.HasPrefix(part, ".") {
				rule.path = append(rule.path, strings.Split(part[1:], ".")...)
				continue
			}
			// a key, maybe with fields after it
			key, rest := part, ""
			if i := strings.LastIndex(part, "."); i > 0 && slices.Contains([]string{"image", "ports", "args"}, part[i+1:]) {
				key, rest = part[:i], part[i+1:]
			}
			rule.path = append(rule.path, key)
			if key != "*" {
				rule.literals++
			}
			if rest != "" {
				rule.path = append(rule.path, rest)
			}
		}
		all = append(all, rule)
	}
	add("", ".metadata", "metadata", false, false, false)
	add("", ".metadata.labels", "labels", false, false, false)
	add("", ".metadata.labels[]", "label", true, true, false)
	add("", ".metadata.annotations", "annotations", false, false, false)
	add("", ".metadata.annotations[]", "annotation", true, true, false)
	add("", ".metadata.finalizers", "finalizers", false, false, false)
	add("", ".metadata.finalizers[]", "finalizer", true, true, false)
	add("", ".metadata.ownerReferences", "ownerReferences", false, false, false)
	add("", ".spec", "specification", false, false, false)
	add("", ".status", "status", false, false, false)
	add("", ".status.conditions", "conditions", false, false, false)
	add("", ".status.conditions[]", "condition", true, false, false)
	add("", ".spec.replicas", "replicas", false, false, false)
	add(".spec.template", ".spec.nodeName", "nodeAssignment", false, false, false)
	for _, fp := range w.fps {
		s := fp.Spec
		parameterized := s.Parameter != nil
		prefix := parameterized && s.Parameter.Treatment != ""
		if s.Resources[0] != "pods" {
			add("", s.Field, s.Permission, parameterized, prefix, s.Exclusive)
		}
		if (s.Resources[0] == "pods" || s.Resources[0] == "*" && s.Exclusive) && !strings.HasPrefix(s.Field, ".status") {
			add(".spec.template", s.Field, s.Permission, parameterized, prefix, s.Exclusive)
		}
	}
	return all
}

func (w world) covered(field []string) bool {
	var best []naiveRule
	covered := false
	for _, rule := range w.rules() {
		verb, ok := rule.matches(field)
		if !ok {
			continue
		}
		rule.verb = verb
		if !rule.exclusive {
			covered = covered || slices.Contains(w.verbs, verb)
			continue
		}
		switch {
		case len(best) == 0, len(rule.path) > len(best[0].path), len(rule.path) == len(best[0].path) && rule.literals > best[0].literals:
			best = []naiveRule{rule}
		case len(rule.path) == len(best[0].path) && rule.literals == best[0].literals:
			best = append(best, rule)
		}
	}
	if len(best) > 0 {
		return !slices.ContainsFunc(best, func(r naiveRule) bool { return !slices.Contains(w.verbs, r.verb) })
	}
	return covered || w.mode == General
}

func (rule naiveRule) matches(field []string) (verb string, ok bool) {
	if len(field) < len(rule.path) {
		return "", false
	}
	key := ""
	for i, name := range rule.path {
		if name != "*" && name != field[i] {
			return "", false
		}
		if name == "*" || isKey(rule.path, i) {
			key = field[i]
		}
	}
	if !rule.parameterized {
		return rule.verb, true
	}
	if rule.prefix {
		key, _, _ = strings.Cut(key, "/")
	}
	return rule.verb + "(" + key + ")", true
}

// isKey tells a literal key of lawFields from a field.
func isKey(path []string, i int) bool {
	return slices.Contains([]string{"super.safe.com/a", "env", "plain", "app", "SuperSafe"}, path[i])
}

// laws of one world: the engine decides as brute force does; it asks each verb once and at most 32; one verb more never
// refuses what was allowed; nor does a permission more that is not exclusive; what changes nothing is allowed for
// anyone.
func (w world) laws(t testing.TB, r *rand.Rand) (denied bool) {
	t.Helper()
	got, h := w.decide(t)
	if got.Err != nil || got.TooMany {
		t.Fatalf("error %v, too many %v", got.Err, got.TooMany)
	}
	refused := w.naive(t)
	if got.Allowed() != (len(refused) == 0) {
		t.Fatalf("engine says %q, brute force refuses %q\nholding %v\npermissions %s", got.Reason(), refused, w.verbs, describeWorld(w))
	}
	if got.Missing != nil {
		p := mustPath(t, got.Missing.Field)
		names := make([]string, len(p))
		for i, e := range p {
			names[i] = e.Name
		}
		if !slices.Contains(refused, strings.Join(names, "\x00")) {
			t.Fatalf("engine names %s (%s), brute force refuses %q\nmode %v create %v holding %v\npermissions %s", got.Missing.Field, got.Reason(), refused, w.mode, w.old == nil, w.verbs, describeWorld(w))
		}
	}
	seen := map[string]bool{}
	for _, v := range h.asked {
		if seen[v] || len(h.asked) > MaxChecks {
			t.Fatalf("asked %v", h.asked)
		}
		seen[v] = true
	}
	wider := w
	wider.verbs = append(slices.Clone(w.verbs), VerbPrefix+pick(r, lawShipped...), fmt.Sprintf("%sex.com/p%d", VerbPrefix, r.Intn(5)))
	if after, _ := wider.decide(t); got.Allowed() && !after.Allowed() {
		t.Fatalf("more permissions refuse: %s", after.Reason())
	}
	more := randomPermission(r, 9)
	more.Spec.Exclusive = false
	if after, _ := w.decide(t, more); got.Allowed() && !after.Allowed() {
		t.Fatalf("another permission refuses: %s", after.Reason())
	}
	if again, _ := w.decide(t); again.Reason() != got.Reason() {
		t.Fatalf("said %q and then %q", got.Reason(), again.Reason())
	}
	still := w
	still.old, still.verbs = w.new, nil
	if same, asked := still.decide(t); !same.Allowed() || len(asked.asked) > 0 {
		t.Fatalf("changes nothing and is refused: %s", same.Reason())
	}
	return !got.Allowed()
}

func describeWorld(w world) string {
	var b strings.Builder
	for _, fp := range w.fps {
		fmt.Fprintf(&b, "%+v\n", fp.Spec)
	}
	return b.String()
}

// FP-5, FP-6, FP-7, FP-8, FP-15: every changed field is charged, and to the right permission.
func TestLaws(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	denied := 0
	runs := lawRuns(150)
	for range runs {
		if randomWorld(r).laws(t, r) {
			denied++
		}
	}
	if denied == 0 || denied == runs {
		t.Errorf("%d of %d worlds were refused: the generator proves nothing", denied, runs)
	}
}

func FuzzLaws(f *testing.F) {
	for seed := range int64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		r := rand.New(rand.NewSource(seed))
		randomWorld(r).laws(t, r)
	})
}
