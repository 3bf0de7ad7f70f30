package auditrule

import (
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Effective is the compiled policy of a sink, as a server shows it.
type Effective struct {
	Sink       string `json:"sink"`
	Generation int64  `json:"generation"`
	// Active, Reason and Message are those of Sink.
	Active  bool   `json:"active"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Policy is the policy; nil if it cannot be shown as one, for which Problem is the reason.
	Policy  *auditv1.Policy `json:"policy,omitempty"`
	Problem string          `json:"problem,omitempty"`
	// From is the origin of each rule of the policy.
	From [][]string `json:"from,omitempty"`
}
