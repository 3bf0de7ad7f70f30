package revision

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TR-13: a token is read as it was written, and what was never one is refused.
func TestToken(t *testing.T) {
	var all []Entry
	for i, s := range sources {
		all = append(all, Entry{Source: s, At: uint64(i) << (4 * i), State: Mark(s, "1")})
	}
	for n := 1; n <= len(all); n++ {
		v := Of(all[:n]...)
		got, err := Parse(v.Token())
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%d entries: %v %v, want %v", n, got, err, v)
		}
	}
	whole := Of(all...).Token()
	for _, bad := range []string{"", "AA", "!", "1234", whole[:len(whole)-3], whole + "AAAA", strings.Repeat("A", 5000), "AQ", Vector{{Source: "pods", At: 1}}.Token(),
		"Af8BAAAAAAAAAAA", "AQUBAAAAAAAAAAAFAQAAAAAAAAAA"} {
		if v, err := Parse(bad); err == nil {
			t.Errorf("%q is read as %v", bad, v)
		}
	}
	if _, err := Parse("AgUBAAAAAAAAAAA"); err == nil || !strings.Contains(err.Error(), "another release") {
		t.Errorf("a token of another format: %v", err)
	}
}

func FuzzToken(f *testing.F) {
	f.Add(Of(Entry{Source: sources[5], At: 300, State: 7}).Token())
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, token string) {
		if v, err := Parse(token); err == nil {
			if again, err := Parse(v.Token()); err != nil || !reflect.DeepEqual(v, again) {
				t.Errorf("%v, again %v %v", v, again, err)
			}
		}
	})
}

// TR-14: what a vector lacks.
func TestLacks(t *testing.T) {
	const policies, roles = "policies.policy.proviso.dev", "roles.rbac.authorization.k8s.io"
	have := Of(Entry{policies, 10, 77}, Entry{roles, 5, 88})
	for _, test := range []struct {
		name   string
		wanted Entry
		lacks  bool
	}{
		{"older", Entry{policies, 9, 1}, false},
		{"the same", Entry{policies, 10, 77}, false},
		{"newer", Entry{policies, 11, 0}, true},
		{"newer, with another content", Entry{policies, 11, 78}, true},
		{"newer, with the same content", Entry{policies, 11, 77}, false},
		{"newer than one source, older than the other", Entry{roles, 7, 0}, true},
		{"a source that is not there", Entry{"namespaces", 1, 0}, true},
	} {
		if lacks := have.Lacks(Vector{test.wanted}); (len(lacks) > 0) != test.lacks {
			t.Errorf("%s: lacks %v", test.name, lacks)
		}
	}
	if got := have.With(Entry{policies, 12, 0}).With(Entry{roles, 1, 0}); !reflect.DeepEqual(got, Of(Entry{policies, 12, 0}, Entry{roles, 5, 88})) {
		t.Errorf("with: %v", got)
	}
}

// The state of a source depends on its objects and their versions, and on nothing else.
func TestState(t *testing.T) {
	marks := []uint64{Mark("a", "1"), Mark("b", "1"), Mark("c", "12"), Mark("c1", "2")}
	var sum uint64
	for _, i := range rand.Perm(len(marks)) {
		sum += marks[i]
	}
	for i, m := range marks {
		if State(sum-m) == State(sum) || State(sum-m+Mark("a", "2")) == State(sum) {
			t.Errorf("object %d makes no difference", i)
		}
	}
	if got := State(sum - marks[0] - marks[1] - marks[2] - marks[3]); got != State(0) || got == 0 {
		t.Errorf("without objects: %d", got)
	}
}
