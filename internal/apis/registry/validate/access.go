package validate

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	access "proviso.dev/proviso/api/access/v1alpha1"
)

// Bounds of what can be asked for.
const (
	maxDuration  = 30 * 24 * time.Hour
	maxNames     = 64
	maxNameBytes = 512
	maxApprovals = 10
	maxText      = 1024
	maxPattern   = 256
	// maxRequester is how many bytes of a user's groups and extra are kept with a request.
	maxRequester = 16 << 10
)

// AccessRule checks an access rule.
func AccessRule(r *access.AccessRule, masterNamespace string) (errs field.ErrorList) {
	s, spec := &r.Spec, field.NewPath("spec")
	errs = append(errs, accessSubjects(s.Subjects, spec.Child("subjects"), "who may ask")...)
	errs = append(errs, accessRole(s.RoleRef, masterNamespace, spec.Child("roleRef"))...)
	errs = append(errs, accessPlaces(s, spec)...)
	errs = append(errs, seconds(s.MaxDurationSeconds, spec.Child("maxDurationSeconds"))...)
	if s.PendingSeconds != nil {
		errs = append(errs, seconds(*s.PendingSeconds, spec.Child("pendingSeconds"))...)
	}
	if s.Reason != nil {
		errs = append(errs, pattern(s.Reason.Pattern, spec.Child("reason", "pattern"))...)
	}
	errs = append(errs, accessApprovals(s, spec)...)
	if l := s.Limits; l != nil {
		for name, n := range map[string]*int32{"active": l.Active, "perDay": l.PerDay} {
			if n != nil && (*n < 1 || *n > 1000) {
				errs = append(errs, field.Invalid(spec.Child("limits", name), *n, "must be from 1 to 1000"))
			}
		}
	}
	return errs
}

func accessSubjects(s access.Subjects, path *field.Path, who string) (errs field.ErrorList) {
	if len(s.UserNames)+len(s.GroupNames) == 0 {
		errs = append(errs, field.Required(path, "name the users or groups "+who))
	}
	errs = append(errs, listed(s.UserNames, path.Child("userNames"), "user")...)
	return append(errs, listed(s.GroupNames, path.Child("groupNames"), "group")...)
}

func listed(list []string, path *field.Path, what string) (errs field.ErrorList) {
	if len(list) > maxNames {
		return field.ErrorList{field.TooMany(path, len(list), maxNames)}
	}
	for i, name := range list {
		if len(name) > maxNameBytes {
			errs = append(errs, field.TooLong(path.Index(i), "", maxNameBytes))
		}
	}
	return append(errs, names(list, path, what)...)
}

func accessRole(ref access.AccessRoleRef, masterNamespace string, path *field.Path) (errs field.ErrorList) {
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), "name the role that is asked for"))
	}
	if !ref.ClusterRole() {
		if ref.Namespace != masterNamespace {
			errs = append(errs, field.Invalid(path.Child("namespace"), ref.Namespace, fmt.Sprintf("must be %q, the master namespace, or left out", masterNamespace)))
		}
		return errs
	}
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	if ref.Kind != "ClusterRole" {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, []string{"ClusterRole"}))
	}
	if ref.Namespace != "" {
		errs = append(errs, field.Forbidden(path.Child("namespace"), "a ClusterRole has no namespace"))
	}
	return errs
}

func accessPlaces(s *access.AccessRuleSpec, spec *field.Path) (errs field.ErrorList) {
	switch {
	case len(s.Namespaces) == 0 && s.NamespaceSelector == nil:
		return field.ErrorList{field.Required(spec.Child("namespaces"), `list the namespaces that can be asked for, or "*", or give namespaceSelector`)}
	case len(s.Namespaces) > 0 && s.NamespaceSelector != nil:
		return field.ErrorList{field.Forbidden(spec.Child("namespaceSelector"), "namespaces are listed already: give one of the two")}
	case s.NamespaceSelector != nil:
		path := spec.Child("namespaceSelector")
		return append(errs, metav1validation.ValidateLabelSelector(s.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, path)...)
	}
	path := spec.Child("namespaces")
	errs = listed(s.Namespaces, path, "namespace")
	for i, name := range s.Namespaces {
		if name == "*" || name == "" {
			continue
		}
		for _, why := range validation.IsDNS1123Label(name) {
			errs = append(errs, field.Invalid(path.Index(i), name, why))
		}
	}
	return errs
}

func seconds(n int64, path *field.Path) field.ErrorList {
	if n < 1 || n > int64(maxDuration/time.Second) {
		return field.ErrorList{field.Invalid(path, n, fmt.Sprintf("must be from 1 to %d, which is 30 days", int64(maxDuration/time.Second)))}
	}
	return nil
}

func pattern(text string, path *field.Path) field.ErrorList {
	if len(text) > maxPattern {
		return field.ErrorList{field.TooLong(path, "", maxPattern)}
	}
	if _, err := regexp.Compile(text); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	return nil
}

func accessApprovals(s *access.AccessRuleSpec, spec *field.Path) (errs field.ErrorList) {
	path := spec.Child("approvals")
	switch {
	case s.BreakGlass && s.Approvals != nil:
		errs = append(errs, field.Forbidden(path, "a rule with breakGlass needs no approvals: give one of the two"))
	case !s.BreakGlass && s.Approvals == nil:
		errs = append(errs, field.Required(path, "say who has to approve, or set breakGlass"))
	case s.Approvals != nil:
		if s.Approvals.Count < 1 || s.Approvals.Count > maxApprovals {
			errs = append(errs, field.Invalid(path.Child("count"), s.Approvals.Count, fmt.Sprintf("must be from 1 to %d", maxApprovals)))
		}
		errs = append(errs, accessSubjects(s.Approvals.Subjects, path.Child("subjects"), "whose approval counts")...)
	}
	switch {
	case s.BreakGlass && len(s.AuditSinks) == 0:
		errs = append(errs, field.Required(spec.Child("auditSinks"), "a rule with breakGlass tells at least one AuditSink"))
	case !s.BreakGlass && len(s.AuditSinks) > 0:
		errs = append(errs, field.Forbidden(spec.Child("auditSinks"), "only a rule with breakGlass has them"))
	case !s.BreakGlass && s.WhenSinkDown != "":
		errs = append(errs, field.Forbidden(spec.Child("whenSinkDown"), "only a rule with breakGlass has it"))
	}
	errs = append(errs, listed(s.AuditSinks, spec.Child("auditSinks"), "AuditSink")...)
	if w := s.WhenSinkDown; w != "" && w != access.SinkDownDeny && w != access.SinkDownSpool {
		errs = append(errs, field.NotSupported(spec.Child("whenSinkDown"), w, []access.WhenSinkDown{access.SinkDownDeny, access.SinkDownSpool}))
	}
	return errs
}

// AccessRequest checks an access request, without looking at other objects.
func AccessRequest(r *access.AccessRequest) (errs field.ErrorList) {
	s, spec := &r.Spec, field.NewPath("spec")
	if s.RuleRef.Name == "" {
		errs = append(errs, field.Required(spec.Child("ruleRef", "name"), "name the AccessRule that you ask by"))
	}
	errs = append(errs, seconds(s.DurationSeconds, spec.Child("durationSeconds"))...)
	for _, err := range interval(s.NotBefore, nil) {
		err.Field = "spec." + err.Field
		errs = append(errs, err)
	}
	if len(s.Reason) > maxText {
		errs = append(errs, field.TooLong(spec.Child("reason"), "", maxText))
	}
	for name, list := range map[string][]string{"verbs": s.Verbs, "resourceKinds": s.ResourceKinds, "resourceNames": s.ResourceNames} {
		errs = append(errs, listed(list, spec.Child(name), "value")...)
	}
	if size := requesterSize(r); size > maxRequester {
		errs = append(errs, field.TooLong(spec.Child("requester"), "", maxRequester))
	}
	return errs
}

func requesterSize(r *access.AccessRequest) (n int) {
	for _, g := range r.Spec.Requester.Groups {
		n += len(g)
	}
	for key, values := range r.Spec.Requester.Extra {
		n += len(key)
		for _, v := range values {
			n += len(v)
		}
	}
	return n
}

// AskedBy checks an access request by its rule.
func AskedBy(r *access.AccessRequest, rule *access.AccessRule, now time.Time) (errs field.ErrorList) {
	s, spec := &r.Spec, field.NewPath("spec")
	if most := rule.Spec.MaxDurationSeconds; s.DurationSeconds > most {
		errs = append(errs, field.Invalid(spec.Child("durationSeconds"), s.DurationSeconds, fmt.Sprintf("AccessRule %q allows at most %d", rule.Name, most)))
	}
	if s.NotBefore != nil && s.NotBefore.After(now.Add(maxDuration)) {
		errs = append(errs, field.Invalid(spec.Child("notBefore"), s.NotBefore.UTC().Format(time.RFC3339), "must be within 30 days"))
	}
	want := rule.Spec.Reason
	switch {
	case want == nil:
	case s.Reason == "" && want.Required:
		errs = append(errs, field.Required(spec.Child("reason"), fmt.Sprintf("AccessRule %q wants to know why", rule.Name)))
	case s.Reason != "" && want.Pattern != "":
		if re, err := regexp.Compile(want.Pattern); err != nil || !re.MatchString(s.Reason) {
			errs = append(errs, field.Invalid(spec.Child("reason"), s.Reason, fmt.Sprintf("AccessRule %q wants it to match %s", rule.Name, want.Pattern)))
		}
	}
	if s.Once && slices.Equal(s.Verbs, []string{"deletecollection"}) {
		errs = append(errs, field.Forbidden(spec.Child("verbs"), "deletecollection cannot be granted once"))
	}
	return errs
}

// AccessDecision checks a decision; one that revokes says neither yes nor no.
func AccessDecision(d *access.AccessDecision, revokes bool) (errs field.ErrorList) {
	if d.RequestUID == "" {
		errs = append(errs, field.Required(field.NewPath("requestUID"), "give the uid of the request that is meant"))
	}
	switch path := field.NewPath("decision"); {
	case revokes && d.Decision != "":
		errs = append(errs, field.Forbidden(path, "a revocation has none"))
	case !revokes && d.Decision != access.Approve && d.Decision != access.Deny:
		errs = append(errs, field.NotSupported(path, d.Decision, []access.AccessVerdict{access.Approve, access.Deny}))
	}
	if len(d.Comment) > maxText {
		errs = append(errs, field.TooLong(field.NewPath("comment"), "", maxText))
	}
	return errs
}

// WholeSecond is an instant as it is stored.
func WholeSecond(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
