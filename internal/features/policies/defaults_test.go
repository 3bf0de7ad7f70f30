package policies

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// PO-10: the bindings that every server begins with name default roles of the master namespace, and nobody but
// administrators and what everybody who is authenticated has.
func TestDefaultBindingsNameDefaultRoles(t *testing.T) {
	roles := DefaultRoles()
	groups := map[string]string{"cluster-admin": user.SystemPrivilegedGroup, "basic-user": user.AllAuthenticated}
	bindings := DefaultRoleBindings("ops")
	for _, b := range bindings {
		if len(roles[b.RoleRef.Name]) == 0 || b.RoleRef.Namespace != "ops" || b.Namespace != "ops" {
			t.Errorf("%s binds %+v, which is no default role of the master namespace", b.Name, b.RoleRef)
		}
		if len(b.UserNames) > 0 || !slices.Equal(b.GroupNames, []string{groups[b.RoleRef.Name]}) {
			t.Errorf("%s binds %v %v", b.Name, b.UserNames, b.GroupNames)
		}
	}
	if len(bindings) != len(groups) {
		t.Errorf("%d bindings", len(bindings))
	}
}

// PO-10: an upgrade writes a default role again only if nobody has edited it. The hash tells: it is the same for the
// same rules, and another for each role and each change.
func TestHashTellsEditedRoles(t *testing.T) {
	seen := map[string]string{}
	for name, rules := range DefaultRoles() {
		hash := rulesHash(rules)
		if hash == "" || hash != rulesHash(DefaultRoles()[name]) {
			t.Errorf("%s: %q, and then %q", name, hash, rulesHash(DefaultRoles()[name]))
		}
		if other, twice := seen[hash]; twice {
			t.Errorf("%s and %s have the same hash", name, other)
		}
		seen[hash] = name
		edited := slices.Clone(rules)
		edited[0].Verbs = append(slices.Clone(edited[0].Verbs), "frobnicate")
		if rulesHash(edited) == hash {
			t.Errorf("%s: the hash does not tell that it was edited", name)
		}
	}
}

// PA-16: those who work in a namespace can read what is protected in it, and everybody what is protected everywhere.
// Only reading is added.
func TestDefaultRolesReadProtections(t *testing.T) {
	for role, resource := range map[string]string{"view": "protectedattributes", "edit": "protectedattributes", "admin": "protectedattributes", "basic-user": "clusterprotectedattributes"} {
		found := false
		for _, rule := range DefaultRoles()[role] {
			if slices.Contains(rule.ResourceKinds, resource+".policy.proviso.dev") {
				found = slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) && len(rule.ResourceKinds) == 1
			}
		}
		if !found {
			t.Errorf("%s does not read %s, and no more than that", role, resource)
		}
	}
}
