package managed

import (
	"context"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
)

// WhoCan lists who can do something there: by RBAC, unless an admission policy refuses it, and under conditions if that
// depends on the object, or on what is not known of the caller: the other groups of a user, the names of the members of
// a group. Whom a policy refuses whatever these are, is left out.
func (e *Enforced) WhoCan(ctx context.Context, namespace string, spec authz.ResourceAccessReviewSpec) (authz.ResourceAccessReviewStatus, error) {
	status, err := e.rbac.WhoCan(ctx, namespace, spec)
	if err != nil || status.EvaluationError != "" && len(status.UserNames)+len(status.GroupNames) == 0 {
		return status, err
	}
	out := authz.ResourceAccessReviewStatus{EvaluationError: status.EvaluationError, Incomplete: status.Incomplete, IncompleteReason: status.IncompleteReason}
	judge := func(who user.Info, always *[]string, one authz.ConditionalSubject) error {
		answer, err := e.Decide(ctx, Question{User: who, Verb: spec.Verb, Kind: spec.ResourceKind, Namespace: namespace, Name: spec.ResourceName, unidentified: true})
		switch {
		case err != nil:
			return err
		case answer.Decision == "Allow":
			*always = append(*always, one.UserName+one.GroupName)
		case answer.Decision == "Conditional":
			for i, by := range answer.By {
				one.Conditions = append(one.Conditions, authz.Condition{ID: by, Effect: authz.EffectDeny, Type: "ValidatingAdmissionPolicy", Condition: answer.Messages[i]})
			}
			out.Conditional = append(out.Conditional, one)
		}
		return nil
	}
	for _, name := range status.UserNames {
		if err := judge(userNamed(name), &out.UserNames, authz.ConditionalSubject{UserName: name}); err != nil {
			return out, err
		}
	}
	for _, name := range status.GroupNames {
		if err := judge(&user.DefaultInfo{Groups: []string{name, user.AllAuthenticated}}, &out.GroupNames, authz.ConditionalSubject{GroupName: name}); err != nil {
			return out, err
		}
	}
	return out, nil
}

// userNamed is a user with the groups that the name tells.
func userNamed(name string) user.Info {
	who := &user.DefaultInfo{Name: name, Groups: []string{user.AllAuthenticated}}
	if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
		who.Groups = append(who.Groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	return who
}
