package v1alpha1

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// PolicyRule says what a role allows or, with deny, takes away. All parts of a rule must match: a request has to use
// one of the verbs on one of the resource kinds, and the restrictions have to hold for the object.
type PolicyRule struct {
	// deny makes this rule refuse what it matches instead of allowing it. A deny rule wins over every allow rule of the
	// same tier. A deny rule that has a condition (where, when or attributeRestrictions) must name write or connect
	// verbs only, since it could not be enforced on reads.
	// +optional
	Deny bool `json:"deny,omitempty"`

	// verbs are the verbs this rule is about: get, list, watch, create, update, patch, delete, deletecollection, exec,
	// proxy, or any other verb literally. "*" means all verbs but escalate, bind, deny, impersonation, granular:…,
	// reveal:… and unsafe-delete-ignore-read-errors, which match only when named ("impersonate*", "granular:*" and
	// "reveal:*" name all of theirs); in a rule that denies it means all verbs. A leading "-" takes a verb out of this
	// rule; a list of only such entries means "all but these". update also matches patch, and delete also matches
	// deletecollection.
	// +listType=atomic
	Verbs []string `json:"verbs"`

	// apiGroups limits the rule to resources of these API groups. "" is the core group, "*" any group. Left out, the
	// rule holds for all groups.
	// +optional
	// +listType=atomic
	APIGroups []string `json:"apiGroups,omitempty"`

	// resourceKinds are the resources this rule is about: plurals (pods, pods/exec, deployments.apps) or kinds (Pod,
	// DeploymentConfig), in any case. "*" means all of them. A leading "-" takes a kind out of this rule; a list of
	// only such entries means "all but these". A kind that is not served yet is accepted, shown in the status, and
	// matches once it is served. A name without an API group means the built-in resources that have it, or else the
	// custom ones, and none of a guarded group; in deny rules and after "-" it means every plural and every kind of
	// that name.
	// +optional
	// +listType=atomic
	ResourceKinds []string `json:"resourceKinds,omitempty"`

	// resourceNames limits the rule to objects with these names. Left out, the rule holds for all names. A request that
	// does not say a name (create, list, watch, deletecollection, unless it selects one by metadata.name) is never
	// allowed by a rule with names. It can be denied by one: create and deletecollection are denied for the objects
	// that have one of the names, list and watch always, since their objects cannot be checked one by one.
	// +optional
	// +listType=atomic
	ResourceNames []string `json:"resourceNames,omitempty"`

	// nonResourceURLs are paths outside the resource API, such as /metrics. A trailing "*" matches every path that
	// begins so. They take effect in the master namespace only, since such requests have no namespace. A rule has
	// either resourceKinds or nonResourceURLs.
	// +optional
	// +listType=atomic
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`

	// where is a CEL expression about "resource", the object itself: `resource.spec.storageClassName == "dev"`. In an
	// allow rule it must hold for the stored object and for the new one, whichever exist; in a deny rule it applies if
	// any version matches or cannot be evaluated. It also lets list and watch through when the request's selectors
	// imply it. On a connection that the rule names, by its subresource (pods/exec) or by the verb exec or proxy,
	// "resource" is the target: the pod, service or node. On one that it reaches by "*" alone, where is false.
	// +optional
	Where string `json:"where,omitempty"`

	// when is a CEL expression about the raw request: request, object, oldObject, options, operation, namespaceObject.
	// Use it for bodies of another kind than the resource (Scale, Eviction, Binding, connect options) and for
	// conditions that compare old and new.
	// +optional
	When string `json:"when,omitempty"`

	// apiVersion is the version in which where and when see the object, such as "v1". Left out, it is the preferred
	// served version of the object's group.
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`

	// attributeRestrictions narrow the rule to changes or objects of a certain form, without writing CEL.
	// +optional
	AttributeRestrictions *AttributeRestrictions `json:"attributeRestrictions,omitempty"`

	// description says in one line what the rule is for. It is shown in refusals and in access reviews.
	// +optional
	Description string `json:"description,omitempty"`

	// enforcement is Enforce (the default), Warn or Shadow. A rule that is not enforced is evaluated and decides
	// nothing: what it would have changed is recorded (shadowrules.authorization.proviso.dev), and with Warn the
	// caller is told, too. Writing it takes the same rights as writing it enforced.
	// +optional
	Enforcement Enforcement `json:"enforcement,omitempty"`

	// Unrecognized holds the keys of the input that are not fields of a rule. Dropping one could widen the rule (a
	// misspelled where) or turn its meaning around (a misspelled deny), so they are kept through every round trip,
	// refused when written, and every evaluator must treat a rule that has any as one that may deny.
	Unrecognized map[string]runtime.RawExtension `json:"-"`
}

// AttributeRestrictions narrow a rule to changes or objects of a certain form. Every restriction that is given must
// hold. An empty list is kept apart from one that is left out: "no field may change" must not become "any field may".
type AttributeRestrictions struct {
	// fieldsMutable are the only field paths that may change, such as ".metadata.labels" or ".spec.replicas". A bare
	// "labels" means ".metadata.labels". Fields that the server owns never count. "fieldsMutatable" is accepted as a
	// spelling of this field.
	// +optional
	// +listType=atomic
	FieldsMutable []string `json:"fieldsMutable,omitzero"`

	// labelsContain are labels that the stored object has: "key", or "key=value".
	// +optional
	// +listType=atomic
	LabelsContain []string `json:"labelsContain,omitzero"`

	// sameNodeRestriction demands that the object's node is the caller's own, which is known from the user name
	// system:node:<name> or from the node name in the caller's extra attributes. "sameMinionRestriction" and the shape
	// {kind: sameMinionRestriction} are accepted as spellings of this field.
	// +optional
	SameNodeRestriction bool `json:"sameNodeRestriction,omitempty"`

	// Unrecognized holds the restrictions of the input that are not known. They are kept through every round trip,
	// refused when written, and every evaluator must treat a rule that has any as one that may deny.
	Unrecognized map[string]runtime.RawExtension `json:"-"`

	// Spelling holds the keys of the original design that the restrictions were given with. They are written back as
	// they were read, so that applying a file again changes nothing.
	// +listType=atomic
	Spelling []string `json:"-"`
}
