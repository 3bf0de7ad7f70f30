package webhooks

import (
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// cases are the requests, as authorization was asked about them, that an admission can belong to (SC-6). The one that
// it does belong to is among them: admission does not say whether an update was a patch, which method a connection
// used, and whether a create was made by its name.
func cases(r *admissionv1.AdmissionRequest, caller user.Info) []authorizer.Attributes {
	with := func(verb, namespace, name string) authorizer.Attributes {
		return authorizer.AttributesRecord{
			User: caller, Verb: verb, Namespace: namespace, Name: name, APIGroup: r.Resource.Group, APIVersion: r.Resource.Version,
			Resource: r.Resource.Resource, Subresource: r.SubResource, ResourceRequest: true,
		}
	}
	var all []authorizer.Attributes
	switch r.Operation {
	case admissionv1.Create:
		if r.SubResource == "" {
			all = append(all, with("create", placeOfNew(r), "")) // by POST
		}
		return append(all, with("create", r.Namespace, r.Name)) // by PUT or apply, or of a subresource
	case admissionv1.Update:
		return []authorizer.Attributes{with("update", r.Namespace, r.Name), with("patch", r.Namespace, r.Name)}
	case admissionv1.Delete:
		if r.Name == "" {
			return []authorizer.Attributes{with("deletecollection", r.Namespace, "")}
		}
		return []authorizer.Attributes{with("delete", r.Namespace, r.Name)}
	case admissionv1.Connect:
		for _, verb := range []string{"create", "get", "update", "patch", "delete", ""} {
			all = append(all, with(verb, r.Namespace, r.Name))
		}
	}
	return all
}

// placeOfNew is the namespace that authorization sees of a POST: a namespace that is made is in none.
func placeOfNew(r *admissionv1.AdmissionRequest) string {
	if r.Resource.Group == "" && r.Resource.Resource == "namespaces" {
		return ""
	}
	return r.Namespace
}
