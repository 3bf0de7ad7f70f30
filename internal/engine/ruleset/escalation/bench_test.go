package escalation

import (
	"fmt"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/ruleset"
	"proviso.dev/proviso/test/refmodel"
)

// BenchmarkCovers is somebody with the rights of an editor, with many exceptions, who hands them on; and a hostile role
// of thousands of unknown kinds, which has to be refused about as fast.
func BenchmarkCovers(b *testing.B) {
	kinds := []string{"*"}
	for i := range 40 {
		kinds = append(kinds, fmt.Sprintf("-thing%d.group%d.example.com", i, i%8), fmt.Sprintf("-Kind%d", i))
	}
	edit := []policyv1alpha1.PolicyRule{{Verbs: []string{"*"}, ResourceKinds: kinds}}
	ix := ruleset.Build(inputOf(refmodel.PolicyWorld(map[string][]policyv1alpha1.PolicyRule{"edwina": edit}, nil)))
	var many, verbs, urls []string
	for i := range 20_000 {
		many = append(many, fmt.Sprint("Kind", i))
		verbs = append(verbs, fmt.Sprint("verb", i))
		urls = append(urls, fmt.Sprint("/path", i, "*"))
	}
	for name, grant := range map[string][]policyv1alpha1.PolicyRule{
		"edit":  edit,
		"part":  {{Verbs: []string{"get", "list"}, ResourceKinds: []string{"pods", "services", "deployments.apps"}}},
		"kinds": {{Verbs: []string{"get"}, ResourceKinds: many}},
		"names": {{Verbs: []string{"get"}, ResourceKinds: []string{"pods"}, ResourceNames: many}},
		"verbs": {{Verbs: verbs, ResourceKinds: []string{"*"}}},
		"urls":  {{Verbs: []string{"get"}, NonResourceURLs: urls}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_ = Covers(ix, Grant{User: &user.DefaultInfo{Name: "edwina"}, Policy: grant})
			}
		})
	}
}

// BenchmarkCoversManyRules is a writer who holds many rules and hands out one, or many with conditions.
func BenchmarkCoversManyRules(b *testing.B) {
	for _, c := range manyRules() {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				if err := Covers(c.index, c.grant); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
