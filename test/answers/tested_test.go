package answers

import (
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
	"proviso.dev/proviso/internal/hosts/offline/policytest"
)

// tested: a policy test that expects what the server does passes (TR-8).
func (x *trial) tested(documents []manifests.Document, refused map[at]string) {
	dir := x.TempDir()
	var policy strings.Builder
	for _, d := range documents {
		policy.WriteString(mustJSON(d.Object) + "\n---\n")
	}
	test := policytest.Test{TypeMeta: metav1.TypeMeta{APIVersion: offline.ToolsVersion, Kind: "PolicyTest"}, Policies: []string{"policy.yaml"}}
	test.Metadata.Name = "answers"
	var asked []at
	for i, s := range x.subjects {
		for j, r := range x.requests {
			spec, can := x.spec(r)
			if !can || r.url != "" || len(r.also) > 0 && r.verb == "impersonate" || r.resource == "users" {
				continue
			}
			c := policytest.Case{Name: s.User + " " + r.name, User: s.User, Groups: append([]string{user.AllAuthenticated}, s.Groups...), Extra: s.Extra, Verb: r.verb, Resource: r.kind(),
				Namespace: r.namespace, ObjectName: r.object, Expect: policytest.Expectation{Decision: "Allow"}}
			if refused[at{i, j}] != "" {
				c.Expect.Decision = "Deny"
			}
			if spec.Content != nil {
				c.Object = parse(string(spec.Content.Raw))
			}
			if spec.OldContent != nil {
				c.OldObject = parse(string(spec.OldContent.Raw))
			}
			test.Cases, asked = append(test.Cases, c), append(asked, at{i, j})
		}
	}
	for name, text := range map[string]string{"policy.yaml": policy.String(), "answers.test.yaml": mustJSON(test)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			x.Fatal(err)
		}
	}
	tests, err := policytest.Find([]string{dir})
	if err != nil {
		x.Fatal(err)
	}
	report, err := (&policytest.Runner{MasterNamespace: "master"}).Run(x.Context(), tests)
	if err != nil {
		x.Fatal(err)
	}
	for k, result := range report.Cases {
		r, why := x.requests[asked[k].request], refused[asked[k]]
		x.compared++
		switch {
		case result.Passed, result.Decision == "Conditional" && r.content == nil:
		case r.verb == "create" && result.Decision == "Deny": // files know no defaults, as in reviews
		case result.Decision == "" || !decides(r, result.Decision == "Allow", why, ""):
			x.found("test", "%s: %v, the server says %q", result.Case, result.Problems, why)
		}
	}
}
