package policytest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/hosts/offline/managed"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// enforced is what a managed cluster has of the policies of a test: a dump of it, or policy that is compiled for it.
func (t *Test) enforced(master string, accept []string) (*managed.Enforced, error) {
	documents, err := manifests.Read(t.paths, nil)
	if err != nil {
		return nil, err
	}
	for _, text := range t.texts {
		more, err := manifests.Read([]string{"-"}, bytes.NewReader(text.Data))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", text.Name, err)
		}
		documents = append(documents, more...)
	}
	return managed.Enforce(documents, master, accept)
}

// decideThere asks for one case and compares. Nothing there is time-limited, so the instant of a case does not matter.
func decideThere(ctx context.Context, there *managed.Enforced, c *Case) Result {
	who := &user.DefaultInfo{Name: c.User, Groups: c.Groups, Extra: c.Extra}
	if !slices.Contains(who.Groups, user.AllUnauthenticated) && !slices.Contains(who.Groups, user.AllAuthenticated) {
		who.Groups = append(slices.Clone(who.Groups), user.AllAuthenticated)
	}
	answer, err := there.Decide(ctx, managed.Question{User: who, Verb: c.Verb, Kind: c.Resource, Namespace: c.Namespace, Name: c.ObjectName, Object: c.Object, OldObject: c.OldObject})
	if err != nil {
		return Result{Problems: []string{err.Error()}}
	}
	got := Result{Decision: answer.Decision, Rule: strings.Join(answer.By, ", ")}
	if got.Rule == "" {
		got.Rule = "none"
	}
	if got.Decision != c.Expect.Decision {
		got.Problems = append(got.Problems, fmt.Sprintf("decision is %s, want %s: %s", got.Decision, c.Expect.Decision, answer.Reason))
	}
	if want := c.Expect.Rule; want != "" && got.Rule != want && !slices.ContainsFunc(answer.By, func(by string) bool { return by == want || strings.HasPrefix(by, want+"/") }) {
		got.Problems = append(got.Problems, fmt.Sprintf("decided by rule %s, want %s", got.Rule, want))
	}
	if want := c.Expect.Message; want != "" && !strings.Contains(answer.Reason, want) {
		got.Problems = append(got.Problems, fmt.Sprintf("the message is %q, want %q in it", answer.Reason, want))
	}
	got.Passed = len(got.Problems) == 0
	return got
}
