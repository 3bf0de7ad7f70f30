package protectedattr

import (
	"fmt"
	"maps"
	"math/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/engine/ruleset/matching"
)

// world is a random set of protections, a caller, and a stateful set before and after: the object with most places.
type world struct {
	protections []Protection
	roles       []Role
	old, new    *appsv1.StatefulSet // old may be nil
	namespace   string
}

var (
	lawKeys = []string{"env", "example.com/env", "example.com/tier", "tier"}
	// lawNames are keys, and all keys of a domain.
	lawNames = append([]string{"example.com/*", "example.com/*", "other.example.com/*"}, lawKeys...)
	// lawResources limit a protection: the set itself, what is made from it, and what has nothing to do with it.
	lawResources = []string{"statefulsets", "StatefulSet", "statefulsets.apps", "pods", "persistentvolumeclaims", "controllerrevisions", "namespaces", "*.apps", "statefulsets.other"}
	lawValues    = []string{"", "dev", "prod"}
	lawRoles     = []Role{
		releaseManagers, testers, owners,
		{Kind: KindRole, Namespace: "anvil", Name: "owners"},
		{Kind: "Group", Name: "broken"},
	}
)

func pick[T any](r *rand.Rand, list []T) T { return list[r.Intn(len(list))] }

func randomWorld(r *rand.Rand) world {
	w := world{namespace: pick(r, []string{"hammer", "anvil"})}
	for i := range r.Intn(6) {
		p := Protection{
			Name: fmt.Sprintf("p%d", i), Namespace: pick(r, []string{"", "", "hammer", "anvil"}), Attribute: Attribute(r.Intn(2)),
			Key: pick(r, lawNames), Role: pick(r, lawRoles), ObjectOnly: r.Intn(3) == 0, Closed: r.Intn(3) == 0,
		}
		for range r.Intn(3) * r.Intn(2) {
			p.Resources = append(p.Resources, pick(r, lawResources))
		}
		for range r.Intn(3) {
			p.Values = append(p.Values, pick(r, lawValues))
		}
		w.protections = append(w.protections, p)
	}
	for _, role := range lawRoles {
		if r.Intn(3) == 0 {
			w.roles = append(w.roles, role)
		}
	}
	w.new = randomSet(r)
	switch r.Intn(4) {
	case 0: // create
	case 1: // untouched
		w.old = w.new.DeepCopy()
	case 2: // one place changed
		w.old = w.new.DeepCopy()
		w.old.Spec.VolumeClaimTemplates = randomClaims(r)
	case 3:
		w.old = randomSet(r)
	}
	return w
}

func randomAttributes(r *rand.Rand) map[string]string {
	var m map[string]string
	for range r.Intn(3) {
		if m == nil {
			m = map[string]string{}
		}
		m[pick(r, lawKeys)] = pick(r, lawValues)
	}
	return m
}

func randomMeta(r *rand.Rand) metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: randomAttributes(r), Annotations: randomAttributes(r)}
}

func randomClaims(r *rand.Rand) []corev1.PersistentVolumeClaim {
	var all []corev1.PersistentVolumeClaim
	for _, i := range r.Perm(3)[:r.Intn(4)] {
		c := corev1.PersistentVolumeClaim{ObjectMeta: randomMeta(r)}
		c.Name = "c" + strconv.Itoa(i)
		all = append(all, c)
	}
	return all
}

func randomSet(r *rand.Rand) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: randomMeta(r)}
	s.Spec.Template.ObjectMeta = randomMeta(r)
	s.Spec.VolumeClaimTemplates = randomClaims(r)
	for _, i := range r.Perm(3)[:r.Intn(4)] {
		v := plain("v" + strconv.Itoa(i))
		if r.Intn(3) > 0 {
			v = ephemeral(v.Name, randomAttributes(r))
		}
		s.Spec.Template.Spec.Volumes = append(s.Spec.Template.Spec.Volumes, v)
	}
	return s
}

func (w world) request() *Request {
	return &Request{User: "edgar", Group: "apps", Resource: "statefulsets", Namespace: w.namespace, Kinds: lawKinds, Member: members(w.roles...)}
}

// lawKinds is what is served.
var lawKinds = matching.NewKinds([]matching.Served{
	{Group: "apps", Resource: "statefulsets", Kind: "StatefulSet", Builtin: true}, {Resource: "pods", Kind: "Pod", Builtin: true},
	{Group: "apps", Resource: "controllerrevisions", Kind: "ControllerRevision", Builtin: true}, {Resource: "namespaces", Kind: "Namespace", Builtin: true},
	{Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Builtin: true},
})

// lawPlaces are the names of resources that a protection can be limited to and still be about a place of a stateful
// set.
func lawPlaces(place string) []string {
	set := []string{"statefulsets", "StatefulSet", "statefulsets.apps", "controllerrevisions", "*.apps"}
	switch {
	case place == "":
		return set
	case place == "template": // its labels become those of the pods, of the revision and, by the selector, of the claims
		return []string{"pods", "controllerrevisions", "*.apps", "persistentvolumeclaims"}
	}
	return []string{"persistentvolumeclaims"}
}

// about reports whether a protection is about an attribute at a level.
func (p Protection) about(s slot, level string) bool {
	return p.Namespace == level && p.Attribute == s.kind && (!p.ObjectOnly || s.place == "") &&
		(p.Key == s.key || strings.HasSuffix(p.Key, "/*") && strings.HasPrefix(s.key, strings.TrimSuffix(p.Key, "*"))) &&
		(len(p.Resources) == 0 || slices.ContainsFunc(p.Resources, func(name string) bool { return slices.Contains(lawPlaces(s.place), name) }))
}

// flat is the naive view of an object: every attribute of every place with its value.
type slot struct {
	place string
	kind  Attribute
	key   string
}

func flat(s *appsv1.StatefulSet) map[slot]string {
	all := map[slot]string{}
	add := func(place string, m metav1.ObjectMeta) {
		for k, v := range m.Labels {
			all[slot{place, Label, k}] = v
		}
		for k, v := range m.Annotations {
			all[slot{place, Annotation, k}] = v
		}
	}
	if s == nil {
		return all
	}
	add("", s.ObjectMeta)
	add("template", s.Spec.Template.ObjectMeta)
	for _, v := range s.Spec.Template.Spec.Volumes {
		if v.Ephemeral != nil {
			add("volume "+v.Name, v.Ephemeral.VolumeClaimTemplate.ObjectMeta)
		}
	}
	for _, c := range s.Spec.VolumeClaimTemplates {
		add("claim "+c.Name, c.ObjectMeta)
	}
	return all
}

// naive is PA-2 to PA-5 read aloud, over every slot and every protection. It returns the slots that are refused.
func (w world) naive() map[slot]bool {
	old, new := flat(w.old), flat(w.new)
	refused := map[slot]bool{}
	for s := range maps.Keys(union(old, new)) {
		before, had := old[s]
		after, has := new[s]
		if had && has && before == after {
			continue
		}
		for _, level := range []string{"", w.namespace} {
			if had && w.keeps(s, level, before, true) || has && w.keeps(s, level, after, false) {
				refused[s] = true
			}
		}
	}
	return refused
}

// keeps reports whether a level keeps the caller from setting a value, or from removing it.
func (w world) keeps(s slot, level, value string, removed bool) bool {
	covered, listed, closed, member, memberOfAny := false, false, false, false, false
	for _, p := range w.protections {
		if !p.about(s, level) {
			continue
		}
		is := p.Role.Kind != "Group" && slices.Contains(w.roles, p.Role)
		memberOfAny = memberOfAny || is
		closed = closed || p.Closed && len(p.Values) > 0
		lists := slices.Contains(p.Values, value)
		listed = listed || lists
		if lists || len(p.Values) == 0 {
			covered, member = true, member || is
		}
	}
	switch {
	case member:
		return false
	case removed && closed && !listed:
		return !memberOfAny
	}
	return covered || closed
}

func union(a, b map[slot]string) map[slot]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

func (w world) object(s *appsv1.StatefulSet) any {
	if s == nil {
		return nil
	}
	return s
}

// laws checks one world: the index says what brute force says, for structs and for JSON; what is untouched is never
// refused; conditions deny exactly what is refused; another membership never refuses what was allowed.
func (w world) laws(t *testing.T, r *rand.Rand, conditions bool) {
	t.Helper()
	ix, err := New(Config{Protections: w.protections})
	if err != nil {
		t.Fatal(err)
	}
	req := w.request()
	refused := w.naive()
	got := ix.Check(req, w.object(w.old), w.object(w.new))
	if got.Allowed() != (len(refused) == 0) {
		t.Fatalf("index says %q, brute force refuses %v\nin %+v", got.Reason(), refused, w)
	}
	if !got.Allowed() {
		f := got.Refusal()
		if f == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(refused)), func(s slot) bool {
			return s.kind == f.Attribute && s.key == f.Key && (s.place == "") == (f.Where == "")
		}) {
			t.Fatalf("index names %+v, brute force refuses %v", f, refused)
		}
	}
	loose := func(s *appsv1.StatefulSet) any {
		if s == nil {
			return nil
		}
		return loosely(t, s)
	}
	if as := ix.Check(req, loose(w.old), loose(w.new)); as.Reason() != got.Reason() {
		t.Fatalf("as JSON %q, as structs %q", as.Reason(), got.Reason())
	}
	if same := ix.Check(req, w.object(w.new), w.object(w.new)); !same.Allowed() {
		t.Fatalf("untouched and refused: %s", same.Reason())
	}
	wider := w
	wider.roles = append(slices.Clone(w.roles), pick(r, lawRoles))
	if got.Allowed() && !ix.Check(wider.request(), w.object(w.old), w.object(w.new)).Allowed() {
		t.Fatalf("membership in %v refuses what was allowed", wider.roles)
	}
	if conditions {
		w.conditionsAgree(t, ix, got)
	}
}

func lawRuns(def int) int {
	if n, err := strconv.Atoi(os.Getenv("PROVISO_LAW_RUNS")); err == nil {
		return n
	}
	return def
}

// PA-2, PA-4, PA-5, PA-14, PA-15: untouched is never refused, changed is never missed.
func TestLaws(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	denied := 0
	for range lawRuns(1_500) {
		w := randomWorld(r)
		w.laws(t, r, false)
		if len(w.naive()) > 0 {
			denied++
		}
	}
	if denied == 0 {
		t.Error("no world was refused: the generator proves nothing")
	}
}

func FuzzLaws(f *testing.F) {
	for seed := range int64(8) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		r := rand.New(rand.NewSource(seed))
		randomWorld(r).laws(t, r, true)
	})
}

// FuzzBodies: no decoded body makes a check panic, and one that changes nothing is never refused for what it holds.
func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"metadata":{"labels":{"env":"prod"}}}`, `{"metadata":null}`, `{"metadata":{"labels":{"env":null}}}`,
		`{"spec":{"template":{"metadata":{"labels":{"env":"prod"}},"spec":{"volumes":[{"name":"a","ephemeral":{"volumeClaimTemplate":{"metadata":{"annotations":{"env":1}}}}}]}}}}`,
		`{"spec":{"volumeClaimTemplates":[{"metadata":{"name":"a","labels":{"env":"prod"}}},null,7]}}`, `{"spec":[]}`,
	} {
		f.Add(seed, seed)
	}
	ix := mustIndex(f, clusterLabel("env", "env", releaseManagers), Protection{Name: "n", Attribute: Annotation, Key: "env", Role: testers})
	f.Fuzz(func(t *testing.T, old, new string) {
		o, n := decode([]byte(old)), decode([]byte(new))
		req := &Request{User: "edgar", Group: "apps", Resource: "statefulsets", Namespace: "hammer"}
		v := ix.Check(req, o, n)
		if v.Allowed() == (v.Reason() != "") {
			t.Errorf("allowed %v with reason %q", v.Allowed(), v.Reason())
		}
		if same := ix.Check(req, n, n); same.Refusal() != nil {
			t.Errorf("untouched and refused: %s", same.Reason())
		}
	})
}
