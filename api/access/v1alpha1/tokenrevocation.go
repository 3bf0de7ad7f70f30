package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +genclient:nonNamespaced
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TokenRevocation ends narrowed tokens before their time.
type TokenRevocation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which tokens are meant. It cannot be changed.
	Spec TokenRevocationSpec `json:"spec"`

	// ignorable are paths of fields of this object that a server which does not know them can ignore, such as
	// ".spec.note"; empty brackets stand for every key or element. Any other field that a server does not know may
	// deny. The server that stores the object sets the list; a client cannot.
	// +optional
	// +listType=atomic
	Ignorable []string `json:"ignorable,omitempty"`
}

// TokenRevocationSpec says which tokens are meant: those that tokenIDs or userNames name.
type TokenRevocationSpec struct {
	// tokenIDs are ids of tokens.
	// +optional
	// +listType=set
	TokenIDs []string `json:"tokenIDs,omitempty"`

	// userNames are names of users, all of whose tokens are meant.
	// +optional
	// +listType=set
	UserNames []string `json:"userNames,omitempty"`

	// issuedBefore limits it to tokens that were issued before. Left out, the server sets it to now.
	// +optional
	IssuedBefore *metav1.Time `json:"issuedBefore,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object

// TokenRevocationList is a list of token revocations.
type TokenRevocationList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the token revocations.
	Items []TokenRevocation `json:"items"`
}
