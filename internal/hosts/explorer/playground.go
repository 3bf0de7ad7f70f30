package explorer

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline"
	"proviso.dev/proviso/internal/state/source"
)

// playQuestion is a draft of a rule, and a request to try it on.
type playQuestion struct {
	// Rule is one rule of a role, as YAML.
	Rule string `json:"rule"`
	User string `json:"user"`
	action
	// Object is the object, and Old what it was before an update; as YAML.
	Object string `json:"object"`
	Old    string `json:"old"`
}

// playAnswer is what the engine makes of it.
type playAnswer struct {
	Command string `json:"command"`
	// File is a policy test that says the same.
	File string `json:"file"`
	// Decision is Allow, Deny, NoOpinion or Conditional.
	Decision authz.TracedAnswer   `json:"decision,omitempty"`
	Trace    *authz.DecisionTrace `json:"trace,omitempty"`
	// Problems are what is wrong with the rule.
	Problems []string `json:"problems,omitempty"`
}

const (
	playRole   = "playground"
	playMaster = "master"
)

// playground decides a request by a rule that is nowhere but here. The server is asked for nothing but the definition
// of a custom resource.
func (h *handler) playground(r *http.Request, q playQuestion) (*playAnswer, error) {
	var rule policyv1alpha1.PolicyRule
	out := &playAnswer{Command: "proviso test playground.test.yaml"}
	if err := yaml.UnmarshalStrict([]byte(q.Rule), &rule); err != nil {
		out.Problems = []string{strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: ")}
		return out, nil
	}
	if q.User == "" {
		q.User = "a-user"
	}
	home := q.Namespace
	if home == "" {
		home = playMaster
	}
	policy, err := policyFor(rule, home, q.User)
	if err != nil {
		return nil, err
	}
	texts := []source.Text{{Name: "the rule", Data: policy}}
	if definition := h.definition(r, q.Resource); definition != nil {
		texts = append(texts, source.Text{Name: "the definition", Data: definition})
	}
	host, err := offline.New(offline.Config{Texts: texts, MasterNamespace: playMaster})
	if err != nil {
		out.Problems = []string{err.Error()}
		return out, nil //nolint:nilerr // what is wrong with the rule is the answer
	}
	out.Problems = problems(host)
	spec := authz.SubjectAccessReviewSpec{Verb: q.Verb, ResourceKind: q.Resource, ResourceName: q.Name, Trace: true}
	if q.Subresource != "" {
		spec.ResourceKind += "/" + q.Subresource
	}
	content, old, err := contents(q)
	if err != nil {
		out.Problems = append(out.Problems, err.Error())
		return out, nil
	}
	spec.Content, spec.OldContent = content, old
	who := &user.DefaultInfo{Name: q.User, Groups: []string{user.AllAuthenticated}}
	status, err := host.Ask(r.Context(), who, q.Namespace, spec)
	if err != nil {
		return nil, err
	}
	if status.EvaluationError != "" {
		out.Problems = append(out.Problems, status.EvaluationError)
	}
	if status.Trace == nil {
		return out, nil
	}
	out.Decision, out.Trace = status.Trace.Decision, status.Trace
	out.Trace.Remedy = nil // it would be about the policy that is not here
	if out.File, err = testFile(policy, q, out.Decision, content, old); err != nil {
		return nil, err
	}
	return out, nil
}

// policyFor is the rule in a policy of its own. A deny rule is combined with one that allows everything: otherwise it
// would have no visible effect.
func policyFor(rule policyv1alpha1.PolicyRule, namespace, who string) ([]byte, error) {
	rules := []policyv1alpha1.PolicyRule{rule}
	if rule.Deny {
		rules = append(rules, policyv1alpha1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, ResourceKinds: []string{"*"}})
	}
	role := &authz.Role{TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: metav1.ObjectMeta{Name: playRole, Namespace: namespace}, Rules: rules}
	binding := &authz.RoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: playRole, Namespace: namespace}}
	binding.RoleRef.Namespace, binding.RoleRef.Name, binding.UserNames = namespace, playRole, []string{who}
	own := policyv1alpha1.SchemeGroupVersion.String()
	objects := []any{
		&policyv1alpha1.Policy{TypeMeta: metav1.TypeMeta{APIVersion: own, Kind: "Policy"}, ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: namespace}},
		&policyv1alpha1.PolicyBinding{TypeMeta: metav1.TypeMeta{APIVersion: own, Kind: "PolicyBinding"}, ObjectMeta: metav1.ObjectMeta{Name: namespace, Namespace: namespace}},
		role, binding,
	}
	var text []byte
	for i, object := range objects {
		tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		unstructured.RemoveNestedField(tree, "metadata", "creationTimestamp")
		data, err := yaml.Marshal(tree)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, "---\n"...)
		}
		text = append(text, data...)
	}
	return text, nil
}

// problems are what a server would refuse.
func problems(host *offline.Host) (all []string) {
	for _, d := range host.Conditions().Pending() {
		if _, issues := d.Program(); len(issues) > 0 {
			all = append(all, fmt.Sprint(issues))
		}
	}
	for _, p := range host.Snapshot().Rules.Problems() {
		if text := p.Error(); !slices.ContainsFunc(all, func(one string) bool { return strings.Contains(text, one) || strings.Contains(one, text) }) {
			all = append(all, text)
		}
	}
	return all
}

func contents(q playQuestion) (content, old *runtime.RawExtension, err error) {
	if content, err = rawOf(q.Object); err != nil {
		return nil, nil, fmt.Errorf("the object: %w", err)
	}
	if old, err = rawOf(q.Old); err != nil {
		return nil, nil, fmt.Errorf("the object before: %w", err)
	}
	switch {
	case content == nil:
		return old, nil, nil
	case q.Verb != "update" && q.Verb != "patch":
		return content, nil, nil
	}
	return content, old, nil
}

func rawOf(text string) (*runtime.RawExtension, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	return &runtime.RawExtension{Raw: raw}, nil
}

// testFile is a policy test of what was tried.
func testFile(policy []byte, q playQuestion, decision authz.TracedAnswer, content, old *runtime.RawExtension) (string, error) {
	expect := "Deny"
	switch decision {
	case authz.AnswerAllow:
		expect = "Allow"
	case authz.AnswerConditional:
		expect = "Conditional"
	}
	one := map[string]any{"name": "playground", "user": q.User, "verb": q.Verb, "resource": q.Resource, "expect": map[string]any{"decision": expect}}
	if q.Subresource != "" {
		one["resource"] = q.Resource + "/" + q.Subresource
	}
	if q.Namespace != "" {
		one["namespace"] = q.Namespace
	}
	if q.Name != "" {
		one["objectName"] = q.Name
	}
	for name, raw := range map[string]*runtime.RawExtension{"object": content, "oldObject": old} {
		if raw == nil {
			continue
		}
		var tree map[string]any
		if err := json.Unmarshal(raw.Raw, &tree); err != nil {
			return "", err
		}
		one[name] = tree
	}
	test, err := yaml.Marshal(map[string]any{"apiVersion": "tools.proviso.dev/v1alpha1", "kind": "PolicyTest", "metadata": map[string]any{"name": "playground"}, "cases": []any{one}})
	return string(policy) + "---\n" + string(test), err
}

// definition is the custom resource definition of a resource, if it has one that the user may read.
func (h *handler) definition(r *http.Request, resource string) []byte {
	gr := schema.ParseGroupResource(resource)
	if !strings.Contains(gr.Group, ".") || strings.HasSuffix(gr.Group, ".k8s.io") {
		return nil
	}
	client, err := dynamic.NewForConfig(h.Rest)
	if err != nil {
		return nil
	}
	object, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		Get(r.Context(), resource, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object.Object, "status")
	data, err := yaml.Marshal(object.Object)
	if err != nil {
		return nil
	}
	return data
}
