package questions

// Resource is a resource that is not served but that authorization is asked about.
type Resource struct {
	Group, Resource, Kind string
	// Verbs are those that a server asks about.
	Verbs []string
}

// Virtual returns the resources that no server serves but that a server asks about: for impersonation, and for the
// approval of signers.
func Virtual() []Resource {
	const authentication = "authentication.k8s.io"
	impersonate, modes := []string{"impersonate"}, []string{"impersonate:user-info"}
	return []Resource{
		{"", "users", "User", impersonate}, {"", "groups", "Group", impersonate},
		{authentication, "users", "User", modes}, {authentication, "groups", "Group", modes},
		{authentication, "uids", "UID", append(impersonate, modes...)}, {authentication, "userextras", "UserExtra", append(impersonate, modes...)},
		{"certificates.k8s.io", "signers", "", []string{"approve", "attest", "sign"}},
	}
}

// Special returns the verbs that a server asks about for a served resource, in addition to those of requests.
func Special(group, resource string) []string {
	switch {
	case group == "" && resource == "serviceaccounts":
		return []string{"impersonate"}
	case group == "rbac.authorization.k8s.io" && (resource == "roles" || resource == "clusterroles"), group == "authorization.proviso.dev" && resource == "roles":
		return []string{"bind", "escalate"}
	case group == "policy.proviso.dev" && resource == "fieldpermissions":
		return []string{"escalate"}
	}
	return nil
}
