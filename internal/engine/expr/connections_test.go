package expr

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"proviso.dev/proviso/internal/engine/connect"
)

// aimedAtExec is a where of a rule that names pods/exec.
func aimedAtExec(t *testing.T, source string) *Program {
	return compile(t, Where, source).Aimed(connect.Where(func(c connect.Connection) bool {
		return c.Resource == "pods" && c.Subresource == "exec"
	}))
}

// CA-26: what a where is about on a connection, and what it is without.
func TestWhereAboutTarget(t *testing.T) {
	const debug = `resource.metadata.labels["debug"] == "yes"`
	pod := func(debug string) runtime.Object {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"labels": map[string]any{"debug": debug}}}}
	}
	at := func(subresource string) *Request {
		return &Request{Verb: "create", Resource: "pods", Subresource: subresource}
	}
	exec, attach, itself := at("exec"), at("attach"), at("")
	broken := Reached{Err: errors.New("etcd is away")}
	for _, tc := range []struct {
		name        string
		source      string
		req         *Request
		data        DataConfig
		allow, deny bool
		fails       bool // the allow
		needed      bool // what is not known yet
	}{
		{"met", debug, exec, DataConfig{Target: Reached{Object: pod("yes")}}, true, true, false, false},
		{"not met", debug, exec, DataConfig{Target: Reached{Object: pod("no")}}, false, false, false, false},
		{"without labels", debug, exec, DataConfig{Target: Reached{Object: &unstructured.Unstructured{}}}, false, true, true, false},
		{"unreadable", debug, exec, DataConfig{Target: broken}, false, true, true, false},
		{"not known yet", debug, exec, DataConfig{Target: Reached{Err: ErrNotKnown}}, false, true, true, true},
		{"no target", debug, exec, DataConfig{}, false, true, false, false},
		{"no target to look at", "false", exec, DataConfig{}, false, false, false, false},
		{"no target that is needed", "true", exec, DataConfig{}, false, true, false, false},
		{"a null target", debug, exec, DataConfig{Target: Reached{}}, false, true, false, false},
		{"never the objects", debug, exec, DataConfig{OwnKind: true, Objects: Static{New: pod("yes"), Old: pod("yes")}}, false, true, false, false},
		{"not named", debug, attach, DataConfig{Target: Reached{Object: pod("yes")}}, false, true, false, false},
		{"not named and not met", debug, attach, DataConfig{Target: Reached{Object: pod("no")}}, false, true, false, false},
		{"the resource itself", debug, itself, DataConfig{OwnKind: true, Objects: Static{New: pod("yes")}, Target: Reached{Object: pod("no")}}, true, true, false, false},
		{"no request", debug, nil, DataConfig{Target: Reached{Object: pod("yes")}}, false, true, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := aimedAtExec(t, tc.source)
			tc.data.Operation = "CONNECT"
			data := NewData(tc.data)
			if got, err := p.Evaluate(t.Context(), tc.req, Allow, data); got != tc.allow || (err != nil) != tc.fails {
				t.Errorf("allow: %v, %v", got, err)
			}
			if got, err := p.Evaluate(t.Context(), tc.req, Deny, data); got != tc.deny || err != nil {
				t.Errorf("deny: %v, %v", got, err)
			}
			if data.NeededUnknown() != tc.needed {
				t.Errorf("needed: %v", !tc.needed)
			}
		})
	}
	// A condition that is aimed depends on what the request is for, also if its text does not.
	if p := compile(t, Where, debug); !IsOpen(p) || IsOpen(aimedAtExec(t, debug)) || IsOpen(All(p, aimedAtExec(t, debug))) {
		t.Error("the request is not read")
	}
}

// CA-26: text, and what selectors make of it: a connection is never narrowed.
func TestTextOfWhereAboutTarget(t *testing.T) {
	for _, tc := range []struct {
		in          string
		subresource string
		effect      Effect
		want        string
	}{
		{`resource.x == "dev"`, "exec", Allow, `target.x == "dev"`},
		{`resource.x == "dev"`, "exec", Deny, `target.x == "dev"`},
		{`resource.owner == request.user`, "exec", Allow, `target.owner == "edgar"`},
		{`request.user == "edgar"`, "exec", Allow, `target != null`},
		{`request.user == "edgar"`, "exec", Deny, `true`},
		{`request.user == "eve"`, "exec", Allow, `false`},
		{`resource.l.all(target, target == resource.x)`, "exec", Allow, `target.l.all(target_, target_ == target.x)`},
		{`resource.x == "dev"`, "", Allow, `object.x == "dev"`},
		{`resource.x == "dev"`, "attach", Allow, `object.x == "dev"`},
	} {
		r := edgar()
		r.Verb, r.APIGroup, r.Resource, r.Subresource = "create", "", "pods", tc.subresource
		p := aimedAtExec(t, tc.in)
		got := p.Text(r, tc.effect)
		if got != tc.want {
			t.Errorf("%s (%s %s)\n got %s\nwant %s", tc.in, tc.subresource, tc.effect, got, tc.want)
		}
		if _, issues := compiler(t).Compile(got, Options{}); issues != nil {
			t.Errorf("%s: text does not compile: %v", got, issues)
		}
		if got := p.fallback(r, Allow); tc.subresource == "exec" && got != "[target].all(resource, "+tc.in+"\n)" {
			t.Errorf("as it is written: %s", got)
		}
	}
	p, list := aimedAtExec(t, `resource.metadata.name == "x"`), &Request{Verb: "list", Resource: "pods", Subresource: "exec"}
	if _, err := Narrow(p, list, nil); err == nil || Implied(aimedAtExec(t, "true"), list, nil) {
		t.Error("a connection is narrowed")
	}
	if _, err := Narrow(p, &Request{Verb: "list", Resource: "pods"}, nil); err != nil {
		t.Errorf("a list is not: %v", err)
	}
}
