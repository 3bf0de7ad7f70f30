package policycodec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	access "proviso.dev/proviso/api/access/v1alpha1"
	audit "proviso.dev/proviso/api/auditregistration/v1alpha1"
	policy "proviso.dev/proviso/api/policy/v1alpha1"
)

// encrypted is the prefix of data stored with an EncryptionConfiguration; only the server has its keys.
const encrypted = "k8s:enc:"

// StoredKinds returns our stored kinds, by the part of their keys after the prefix: group and resource.
func StoredKinds() map[string]schema.GroupVersionKind {
	p, a, x := policy.SchemeGroupVersion, audit.SchemeGroupVersion, access.SchemeGroupVersion
	return map[string]schema.GroupVersionKind{
		p.Group + "/policies":                   p.WithKind("Policy"),
		p.Group + "/policybindings":             p.WithKind("PolicyBinding"),
		p.Group + "/fieldpermissions":           p.WithKind("FieldPermission"),
		p.Group + "/protectedattributes":        p.WithKind("ProtectedAttribute"),
		p.Group + "/clusterprotectedattributes": p.WithKind("ClusterProtectedAttribute"),
		p.Group + "/namespaceauditsinks":        p.WithKind("NamespaceAuditSink"),
		a.Group + "/auditsinks":                 a.WithKind("AuditSink"),
		a.Group + "/auditclasses":               a.WithKind("AuditClass"),
		x.Group + "/accessrules":                x.WithKind("AccessRule"),
		x.Group + "/accessrequests":             x.WithKind("AccessRequest"),
		x.Group + "/accessusages":               x.WithKind("AccessUsage"),
		x.Group + "/tokenrevocations":           x.WithKind("TokenRevocation"),
	}
}

// Stored is one of our objects as stored in etcd.
type Stored struct {
	Resource, Namespace, Name string
	// Problems lists what this release does not understand about it, and how it treats that; empty if it understands
	// everything.
	Problems []string
	// Encrypted is true if it was not checked because it is encrypted.
	Encrypted bool
}

// Understand reads what is stored under a key, below the prefix that the server stores everything under (/registry). It
// returns false for objects that are not ours.
func Understand(prefix, key string, data []byte) (Stored, bool) {
	rest, ok := strings.CutPrefix(key, strings.TrimSuffix(prefix, "/")+"/")
	parts := strings.SplitN(rest, "/", 3)
	if !ok || len(parts) < 3 {
		return Stored{}, false
	}
	of := parts[0] + "/" + parts[1]
	kind, ours := StoredKinds()[of]
	if !ours {
		return Stored{}, false
	}
	r := recovering{scheme: VersionedScheme(), codec: StorageCodec(), kind: kind, prefix: strings.TrimSuffix(prefix, "/") + "/" + of + "/"}
	s := Stored{Resource: parts[1] + "." + parts[0]}
	s.Namespace, s.Name = r.identity(key)
	if strings.HasPrefix(string(data), encrypted) {
		s.Encrypted = true
		return s, true
	}
	if why := r.mismatch(data, s.Namespace, s.Name); why != "" {
		s.Problems = []string{why}
		return s, true
	}
	obj, _, err := StorageCodec().Decode(data, nil, nil)
	if err != nil {
		s.Problems = []string{err.Error()}
		return s, true
	}
	s.Problems = notUnderstood(obj)
	if len(s.Problems) == 0 {
		s.Problems = onlyIgnored(data, kind.GroupKind())
	}
	return s, true
}

// onlyIgnored lists the unknown fields that the writer lists as harmless. They only get lost at the next write, which
// is reason enough to ask before a downgrade.
func onlyIgnored(data []byte, kind schema.GroupKind) (problems []string) {
	var top parts
	if json.Unmarshal(data, &top) != nil {
		return nil
	}
	if listed, _ := top.ignorable(); len(listed) == 0 {
		return nil
	}
	found := shapeOf(kind).strangers(data, "", nil)
	var roles map[string]parts
	if top.one("roles", &roles) {
		for _, name := range slices.Sorted(maps.Keys(roles)) {
			var rules []json.RawMessage
			if !roles[name].one("rules", &rules) {
				continue
			}
			for i, rule := range rules {
				plain := *ruleShape()
				plain.own = false
				found = append(found, plain.strangers(rule, fmt.Sprintf(".roles[%s].rules[%d]", name, i), nil)...)
			}
		}
	}
	for _, s := range found {
		problems = append(problems, fmt.Sprintf("unknown %s, which its writer lists as harmless: the next write loses it", strings.TrimPrefix(s.shown, ".")))
	}
	return problems
}

// notUnderstood lists the parts of an object that are quarantined.
func notUnderstood(obj runtime.Object) (problems []string) {
	if why := cmp.Or(Unreadable(obj), Quarantined(obj)); why != "" {
		return []string{why}
	}
	switch o := obj.(type) {
	case *policy.Policy:
		for _, name := range slices.Sorted(maps.Keys(o.Roles)) {
			role := o.Roles[name]
			if why := role.Annotations[policy.AnnotationQuarantined]; why != "" {
				problems = append(problems, fmt.Sprintf("role %q: %s", name, why))
			}
			for i := range role.Rules {
				for _, field := range unknownInRule(&role.Rules[i]) {
					problems = append(problems, fmt.Sprintf("role %q, rule %d: unknown %s", name, i, field))
				}
			}
		}
	case *policy.PolicyBinding:
		for _, name := range slices.Sorted(maps.Keys(o.RoleBindings)) {
			marks := o.RoleBindings[name].Annotations
			if why := cmp.Or(marks[policy.AnnotationQuarantined], marks[policy.AnnotationUnreadable]); why != "" {
				problems = append(problems, fmt.Sprintf("role binding %q: %s", name, why))
			}
		}
	}
	return problems
}

func unknownInRule(rule *policy.PolicyRule) []string {
	fields := slices.Sorted(maps.Keys(rule.Unrecognized))
	if rule.AttributeRestrictions != nil {
		for _, name := range slices.Sorted(maps.Keys(rule.AttributeRestrictions.Unrecognized)) {
			fields = append(fields, "attributeRestrictions."+name)
		}
	}
	return fields
}
