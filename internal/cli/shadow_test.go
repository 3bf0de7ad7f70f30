package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// TR-7: what rules that are not enforced would have changed is listed, and one of them is written as enforced, with
// everything else as it was and after it was shown.
func TestShadow(t *testing.T) {
	index := int32(1)
	rule := authz.ShadowRule{ObjectMeta: metav1.ObjectMeta{Name: "role.volumes.1", Namespace: "hammer"}, About: authz.ShadowedObject{Kind: "Role", Namespace: "hammer", Name: "volumes", Rule: &index},
		Enforcement: "Warn", Denies: true, Description: "only class dev",
		Status: authz.ShadowRuleStatus{Since: metav1.NewTime(time.Now().Add(-3 * time.Hour)), Applied: 42, WouldDeny: 2, Flips: []authz.ShadowFlip{
			{User: "edgar", Verb: "create", Resource: "persistentvolumeclaims", Namespace: "hammer", Was: "Allow", Would: "Deny"}}}}
	list := authz.ShadowRuleList{Items: []authz.ShadowRule{rule}}
	role := func() map[string]any {
		return map[string]any{"kind": "Role", "metadata": map[string]any{"name": "volumes", "resourceVersion": "7"}, "rules": []any{
			map[string]any{"verbs": []any{"get"}, "enforcement": "Shadow"},
			map[string]any{"deny": true, "verbs": []any{"create"}, "unheardOf": true, "enforcement": "Warn"}}}
	}
	var written []string
	at := func(object func() map[string]any) func(*http.Request) any {
		return func(r *http.Request) any {
			if r.Method == http.MethodPut {
				body, _ := io.ReadAll(r.Body)
				written = append(written, r.URL.Query().Get("dryRun")+" "+string(body))
			}
			return object()
		}
	}
	run := func(args ...string) (out, errOut string, err error) {
		base := "/apis/authorization.proviso.dev/v1alpha1"
		s := answer(t, map[string]any{
			base: resources("authorization.proviso.dev/v1alpha1"), base + "/shadowrules": list, base + "/namespaces/hammer/shadowrules": list, base + "/namespaces/empty/shadowrules": authz.ShadowRuleList{},
			base + "/namespaces/secret/shadowrules":   metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "you cannot list shadowrules"},
			base + "/namespaces/hammer/roles/volumes": at(role),
			base + "/namespaces/secret/roles/volumes": at(role),
			"/apis/policy.proviso.dev/v1alpha1/clusterprotectedattributes/tier": at(func() map[string]any {
				return map[string]any{"metadata": map[string]any{"name": "tier"}, "attributeName": "tier", "enforcement": "Shadow"}
			}),
			"/apis/policy.proviso.dev/v1alpha1/fieldpermissions/f": at(func() map[string]any {
				return map[string]any{"spec": map[string]any{"field": ".spec", "enforcement": "Warn"}}
			}),
		})
		written = nil
		streams, _, o, e := genericiooptions.NewTestIOStreams()
		cmd := NewShadowCommand(streams)
		cmd.SetArgs(append(args, "--server", s.URL))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err = cmd.Execute()
		return o.String(), e.String(), err
	}

	out, _, err := run("-n", "hammer")
	if err != nil || !strings.Contains(out, "role.volumes.1   Warn          deny     3h      42        0             2            0           only class dev") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = run("-A", "--flips"); err != nil || !strings.Contains(out, "edgar   create persistentvolumeclaims in hammer   Allow   Deny") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, _, err = run("-n", "hammer", "-o", "json"); err != nil || json.Unmarshal([]byte(out), &authz.ShadowRuleList{}) != nil || !strings.Contains(out, `"wouldDeny": 2`) {
		t.Errorf("%v\n%s", err, out)
	}
	if _, errOut, err := run("-n", "empty"); err != nil || !strings.Contains(errOut, "Everything is enforced in namespace empty") {
		t.Errorf("%v\n%s", err, errOut)
	}

	out, _, err = run("promote", "role.volumes.1", "-n", "hammer")
	if err != nil || len(written) != 1 || strings.Contains(written[0], `"Warn"`) || !strings.Contains(written[0], `"Shadow"`) || !strings.Contains(written[0], "unheardOf") || !strings.Contains(written[0], `"resourceVersion":"7"`) {
		t.Errorf("%v: wrote %q", err, written)
	}
	shown, done := strings.Index(out, "it applied to 42 requests: 0 would have been allowed, 2 would have been denied"), strings.Index(out, "role.volumes.1 is enforced")
	if shown < 0 || done < shown || !strings.Contains(out, "deny: true") {
		t.Errorf("shown:\n%s", out)
	}
	if out, _, err = run("promote", "role.volumes.1", "-n", "hammer", "--dry-run"); err != nil || len(written) != 1 || !strings.HasPrefix(written[0], "All ") || !strings.Contains(out, "dry run") {
		t.Errorf("%v: wrote %q\n%s", err, written, out)
	}
	if out, _, err = run("promote", "role.volumes.1", "-n", "secret"); err != nil || len(written) != 1 || !strings.Contains(out, "you need the right to list shadowrules") {
		t.Errorf("%v: wrote %q\n%s", err, written, out)
	}
	for _, name := range []string{"clusterprotectedattribute.tier", "fieldpermission.f"} {
		if _, _, err = run("promote", name); err != nil || len(written) != 1 || strings.Contains(written[0], "enforcement") {
			t.Errorf("%s: %v: wrote %q", name, err, written)
		}
	}
	for _, name := range []string{"role.volumes.7", "role.volumes", "role..", "volumes", "secret.x.1", "role.volumes.-1"} {
		if _, _, err = run("promote", name, "-n", "hammer"); err == nil || len(written) != 0 {
			t.Errorf("%s: %v, wrote %q", name, err, written)
		}
	}
}
