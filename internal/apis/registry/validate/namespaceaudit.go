package validate

import (
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// NamespaceAuditSink checks a sink of a namespace. allowed reports why a sink cannot be at a host.
func NamespaceAuditSink(s *policy.NamespaceAuditSink, insecure bool, allowed func(host string) error) field.ErrorList {
	like := audit.AuditSink{ObjectMeta: s.ObjectMeta, Spec: audit.AuditSinkSpec{Policy: s.Spec.Policy, Webhook: s.Spec.Webhook, NotAfter: s.Spec.NotAfter, Redact: s.Spec.Redact}}
	errs := auditSink(&like, insecure, maxLocalPolicyRules)
	spec := field.NewPath("spec")
	if name := s.Spec.ServiceAccountName; name == "" {
		errs = append(errs, field.Required(spec.Child("serviceAccountName"), "name a service account of the namespace: the sink gets what it may read"))
	} else {
		for _, msg := range validation.IsDNS1123Subdomain(name) {
			errs = append(errs, field.Invalid(spec.Child("serviceAccountName"), name, msg))
		}
	}
	if s.Spec.Webhook == nil {
		return errs
	}
	path, config := spec.Child("webhook", "clientConfig"), s.Spec.Webhook.ClientConfig
	if config.Service != nil && config.Service.Namespace != s.Namespace {
		errs = append(errs, field.Invalid(path.Child("service", "namespace"), config.Service.Namespace, "must be the namespace of the sink"))
	}
	if config.URL != nil {
		u, err := url.Parse(*config.URL)
		if err != nil {
			return errs // it is refused already
		}
		if err := allowed(u.Hostname()); err != nil {
			errs = append(errs, field.Forbidden(path.Child("url"), err.Error()))
		}
	}
	return errs
}
