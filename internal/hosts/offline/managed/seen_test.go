package managed

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func ann(q Question) Question {
	q.User = &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}
	return q
}

func object(apiVersion, kind string, metadata map[string]any) map[string]any {
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
}

// everything is the right to write some things, by RBAC.
const everything = `{apiGroups: ["*"], resources: [configmaps, secrets, pods/proxy, validatingadmissionpolicies, selfsubjectreviews], verbs: [create, update, delete]}`

// MC-5: a prediction is made with what admission policies on a cluster see: in which requests they are asked, and with
// which name, objects, version and namespace.
func TestWhatPoliciesSee(t *testing.T) {
	const place = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team, labels: {tier: prod}}\n"
	labelled := map[string]any{"name": "x", "labels": map[string]any{"env": "prod"}}
	byPlace := gives("team", "r", `{verbs: [create], resourceKinds: [configmaps], when: 'namespaceObject.metadata.labels.tier == "prod"'}`)
	byOld := gives("team", "r", `{verbs: [update], resourceKinds: [configmaps], when: 'oldObject.metadata.name == "x"'}`)
	byNamespace := gives("team", "r", `{verbs: [create], resourceKinds: [configmaps], when: 'object.metadata.namespace == "team"'}`)
	byVersion := gives("team", "r", `{verbs: [create], resourceKinds: [horizontalpodautoscalers.autoscaling], when: 'has(object.metadata)'}`)
	denied := gives("team", "r", "{verbs: [create, update], resourceKinds: [secrets]}, {deny: true, verbs: [create, update], resourceKinds: [secrets], resourceNames: [x]}")
	proxied := gives("team", "r", "{verbs: [exec], resourceKinds: [pods]}, {deny: true, verbs: [exec], resourceKinds: [pods], resourceNames: [x]}")
	named := besides(`{apiGroups: [""], resources: [configmaps], resourceNames: [x], verbs: [create, update]}`)
	for name, test := range map[string]struct {
		policy string
		ask    Question
		want   string
	}{
		"a protected label of what is guarded":    {protection + keepers + besides(everything), Question{Verb: "create", Kind: "configmaps", Namespace: "team", Object: object("v1", "ConfigMap", labelled)}, "Deny"},
		"a protected label of admission policies": {protection + keepers + besides(everything), Question{Verb: "create", Kind: "validatingadmissionpolicies.admissionregistration.k8s.io", Object: object("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", labelled)}, "Allow"},
		"a protected label of reviews":            {protection + keepers + besides(everything), Question{Verb: "create", Kind: "selfsubjectreviews.authentication.k8s.io", Object: object("authentication.k8s.io/v1", "SelfSubjectReview", labelled)}, "Allow"},
		"a create has no name":                    {named, Question{Verb: "create", Kind: "configmaps", Namespace: "team", Name: "x"}, "Deny"},
		"an update has the name of its object":    {named, Question{Verb: "update", Kind: "configmaps", Namespace: "team", Object: object("v1", "ConfigMap", labelled)}, "Allow"},
		"a namespace that is not known":           {byPlace, Question{Verb: "create", Kind: "configmaps", Namespace: "team"}, "Conditional"},
		"a namespace that is known":               {byPlace + place, Question{Verb: "create", Kind: "configmaps", Namespace: "team"}, "Allow"},
		"an update of one object":                 {byOld, Question{Verb: "update", Kind: "configmaps", Namespace: "team", Object: object("v1", "ConfigMap", labelled)}, "Allow"},
		"the namespace of an object":              {byNamespace, Question{Verb: "create", Kind: "configmaps", Namespace: "team", Object: object("v1", "ConfigMap", labelled)}, "Allow"},
		"the preferred version":                   {byVersion, Question{Verb: "create", Kind: "horizontalpodautoscalers.autoscaling", Namespace: "team", Object: object("autoscaling/v2", "HorizontalPodAutoscaler", labelled)}, "Allow"},
		"another version":                         {byVersion, Question{Verb: "create", Kind: "horizontalpodautoscalers.autoscaling", Namespace: "team", Object: object("autoscaling/v1", "HorizontalPodAutoscaler", labelled)}, "Deny"},
		"a denied name":                           {denied, Question{Verb: "update", Kind: "secrets", Namespace: "team", Name: "x"}, "Deny"},
		"a name that is not denied":               {denied, Question{Verb: "update", Kind: "secrets", Namespace: "team", Name: "y"}, "Allow"},
		"an object of whatever name":              {denied, Question{Verb: "create", Kind: "secrets", Namespace: "team"}, "Conditional"},
		"an object of a denied name":              {denied, Question{Verb: "create", Kind: "secrets", Namespace: "team", Object: object("v1", "Secret", labelled)}, "Deny"},
		"a connection to whatever name":           {proxied, Question{Verb: "create", Kind: "pods/exec", Namespace: "team"}, "Conditional"},
		"a connection to a denied name":           {proxied, Question{Verb: "create", Kind: "pods/exec", Namespace: "team", Name: "x"}, "Deny"},
	} {
		t.Run(name, func(t *testing.T) {
			_, there := both(t, test.policy)
			if got, err := there.Decide(t.Context(), ann(test.ask)); err != nil || got.Decision != test.want {
				t.Errorf("%+v, %v, want %s", got, err, test.want)
			}
		})
	}
}
