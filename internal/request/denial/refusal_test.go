package denial

import (
	"bytes"
	"flag"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"
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
		Note(c.attrs, c.by)
		klog.Flush()
		_, line, _ := strings.Cut(out.String(), "] ")
		if got := strings.TrimSuffix(line, "\n"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.vmodule, got, c.want)
		}
	}
}

// OP-5: refusals are counted by stage and rule, and rules without end make no series without end.
func TestRefusalsAreCounted(t *testing.T) {
	Note(nil, By{Stage: Fields, Rules: []string{"granular:scale"}})
	for i := range 2 * maxRules {
		Note(nil, By{Stage: Authorization, Rules: []string{fmt.Sprint("rule ", i)}})
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "proviso_refusals_total" {
			continue
		}
		if n := len(f.GetMetric()); n > maxRules+3 {
			t.Errorf("%d series", n)
		}
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
		if sum < 2*maxRules+1 {
			t.Errorf("%v refusals were counted", sum)
		}
		return
	}
	t.Error("there is no such metric")
}
