package sidecar

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/warning"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
	authzv1alpha1 "proviso.dev/proviso/api/authorization/v1alpha1"
	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
	"proviso.dev/proviso/internal/hosts/sidecar/webhooks"
	"proviso.dev/proviso/internal/state/snapshot"
)

// nodeUser is the prefix of the names of nodes, all of which are in the group of nodes.
const nodeUser = "system:node:"

// exempted names a subject that is exempt, or that has members who are; empty if there is none (SC-8).
func exempted(e webhooks.Exempt, users, groups []string) string {
	for _, name := range users {
		if slices.Contains(e.Users, name) || strings.HasPrefix(name, nodeUser) && slices.Contains(e.Groups, user.NodesGroup) {
			return "user " + name
		}
	}
	for _, name := range groups {
		if slices.Contains(e.Groups, name) || slices.Contains(groupsOf(e), name) {
			return "group " + name
		}
	}
	return ""
}

// groupsOf are the groups in which exempt callers are whom no setting names: everybody who is logged in, and those of
// service accounts.
func groupsOf(e webhooks.Exempt) []string {
	all := map[string]bool{user.AllAuthenticated: true}
	for _, name := range e.Users {
		if rest, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok {
			namespace, _, _ := strings.Cut(rest, ":")
			all["system:serviceaccounts"], all["system:serviceaccounts:"+namespace] = true, true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// exemptWarner warns a user who binds a role to exempt callers that its rules do not hold for them.
type exemptWarner struct{ exempt webhooks.Exempt }

// Handles implements admission.Interface.
func (exemptWarner) Handles(o admission.Operation) bool {
	return o == admission.Create || o == admission.Update
}

// Validate implements admission.ValidationInterface. It refuses nothing.
func (w exemptWarner) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	tell := func(binding string, users, groups []string) {
		if who := exempted(w.exempt, users, groups); who != "" {
			warning.AddWarning(ctx, "", exemptWarning(binding, who))
		}
	}
	switch o := a.GetObject().(type) {
	case *authzv1alpha1.RoleBinding:
		tell(o.Name, o.UserNames, o.GroupNames)
	case *policyv1alpha1.PolicyBinding:
		for name, b := range o.RoleBindings {
			tell(name, b.UserNames, b.GroupNames)
		}
	}
	return nil
}

func exemptWarning(binding, who string) string {
	return fmt.Sprintf("role binding %s is for %s: callers who are exempt from the sidecar are among them, and no rule of Policy holds for those", binding, who)
}

// advice lists the parts of the policy that have no effect beside a stock server.
type advice struct {
	Exempt []string `json:"exempt,omitempty"`
	// Shown are permissions that hide a field, which here every reader of the object sees.
	Shown []string `json:"shown,omitempty"`
	// Audit is the highest level that each audit sink asks for.
	Audit map[string]string `json:"audit,omitempty"`
}

// shownWarning is about a permission that was stored by a server which hides fields (HF-9).
func shownWarning(p *policyv1alpha1.FieldPermission) string {
	return fmt.Sprintf("field permission %s hides nothing: a stock API server answers reads itself, and shows %s of %s to everybody who may read them", p.Name, p.Spec.Field, strings.Join(p.Spec.Resources, ", "))
}

func adviceOf(exempt webhooks.Exempt, from snapshot.Source) (advice, error) {
	a := advice{Audit: map[string]string{}}
	bindings, err := from.Objects(snapshot.PolicyBindings)
	if err != nil {
		return a, err
	}
	for _, c := range snapshot.Of[*policyv1alpha1.PolicyBinding](bindings) {
		for name, b := range c.RoleBindings {
			if who := exempted(exempt, b.UserNames, b.GroupNames); who != "" {
				a.Exempt = append(a.Exempt, exemptWarning(c.Namespace+"/"+name, who))
			}
		}
	}
	slices.Sort(a.Exempt)
	permissions, err := from.Objects(snapshot.FieldPermissions)
	if err != nil {
		return a, err
	}
	for _, p := range snapshot.Of[*policyv1alpha1.FieldPermission](permissions) {
		if p.Spec.ReadExclusive {
			a.Shown = append(a.Shown, shownWarning(p))
		}
	}
	slices.Sort(a.Shown)
	sinks, err := from.Objects(snapshot.AuditSinks)
	if err != nil {
		return a, err
	}
	for _, s := range snapshot.Of[*auditv1alpha1.AuditSink](sinks) {
		a.Audit[s.Name] = wanted(s).String()
	}
	return a, nil
}

// wanted is the highest level that a sink asks for.
func wanted(s *auditv1alpha1.AuditSink) auditrule.Level {
	highest, _ := auditrule.LevelOf(s.Spec.Policy.Level)
	for _, r := range s.Spec.Policy.Rules {
		level, _ := auditrule.LevelOf(r.Level)
		highest = max(highest, level)
	}
	return highest
}
