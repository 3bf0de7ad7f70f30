package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

// +genclient
// +genclient:nonNamespaced
// +genclient:onlyVerbs=create
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// NarrowedToken asks for a token of the caller that can do less. It is answered and never stored.
type NarrowedToken struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the token can do.
	Spec NarrowedTokenSpec `json:"spec"`

	// status has the token.
	// +optional
	Status NarrowedTokenStatus `json:"status,omitempty"`
}

// NarrowedTokenSpec is what a token can do.
type NarrowedTokenSpec struct {
	// rules are what the token can do, of what the caller can do. Without a rule it can do nothing.
	// +optional
	// +listType=atomic
	Rules []TokenRule `json:"rules,omitempty"`

	// expirationSeconds is how long the token lives. It never lives longer than the credential that asks.
	// +optional
	ExpirationSeconds *int64 `json:"expirationSeconds,omitempty"`

	// audience is who, besides this server, may confirm the token by a TokenReview that names it.
	// +optional
	Audience string `json:"audience,omitempty"`

	// description says what the token is for, in at most 256 bytes. Refusals and audit events show it.
	// +optional
	Description string `json:"description,omitempty"`

	// includeGrants lets the token use what was granted by AccessRequests.
	// +optional
	IncludeGrants bool `json:"includeGrants,omitempty"`
}

// TokenRule is a rule of Policy with the namespaces that it holds for.
type TokenRule struct {
	policyv1alpha1.PolicyRule `json:",inline"`

	// namespaces limits the rule to these namespaces. Left out, it holds everywhere.
	// +optional
	// +listType=set
	Namespaces []string `json:"namespaces,omitempty"`
}

// NarrowedTokenStatus has the token.
type NarrowedTokenStatus struct {
	// token is the token.
	// +optional
	Token string `json:"token,omitempty"`

	// id is what audit events and revocations call it.
	// +optional
	ID string `json:"id,omitempty"`

	// expirationTimestamp is when the token ends.
	// +optional
	ExpirationTimestamp *metav1.Time `json:"expirationTimestamp,omitempty"`
}
