package refusal

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/klog/v2"
)

// OP-7: one line for a refusal, if somebody wants it, with what was asked for and the rule.
func TestOneLine(t *testing.T) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	var out bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&out)
	t.Cleanup(func() { klog.LogToStderr(true) })
	pods := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "edgar"}, Verb: "delete", Resource: "pods", Subresource: "status", Namespace: "hammer", Name: "web", ResourceRequest: true}
	by := By{Stage: Conditions, Authorizer: "policy-master", Rules: []string{"Role master/guard, rule 2"}}
	for _, c := range []struct {
		vmodule string
		attrs   authorizer.Attributes
		by      By
		want    string
	}{
		{"refusal=1", pods, by, ""},
		{"refusal=2", pods, by, `"Request refused" stage="conditions" user="edgar" verb="delete" resource="pods" subresource="status" namespace="hammer" name="web" authorizer="policy-master" rule="Role master/guard, rule 2"`},
		{"refusal=2", authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "eve\nforged line"}, Verb: "get", Path: "/metrics"}, By{Stage: Authorization},
			`"Request refused" stage="authorization" user="eve forged line" verb="get" path="/metrics"`},
		{"refusal=2", nil, by, ""},
	} {
		if err := flags.Set("vmodule", c.vmodule); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		Log(c.attrs, c.by)
		klog.Flush()
		_, line, _ := strings.Cut(out.String(), "] ")
		if got := strings.TrimSuffix(line, "\n"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.vmodule, got, c.want)
		}
	}
}
