package auditrule

import (
	"fmt"
	"strings"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/platform/terminal"
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
	// From says of each rule of the policy where it comes from.
	From [][]string `json:"from,omitempty"`
}

// Text is the policy as YAML, with comments that say where each rule comes from.
func (e *Effective) Text() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "# AuditSink %s, generation %d: %s\n", terminal.Text(e.Sink), e.Generation, terminal.Text(e.Reason))
	for _, line := range []string{e.Message, e.Problem} {
		if line != "" {
			fmt.Fprintf(&b, "# %s\n", terminal.Text(line))
		}
	}
	if e.Policy == nil {
		return b.String(), nil
	}
	head := map[string]any{"apiVersion": auditv1.SchemeGroupVersion.String(), "kind": "Policy", "omitStages": e.Policy.OmitStages}
	if e.Policy.OmitManagedFields {
		head["omitManagedFields"] = true
	}
	text, err := yaml.Marshal(head)
	if err != nil {
		return "", err
	}
	b.Write(text)
	b.WriteString("rules:\n")
	for i := range e.Policy.Rules {
		if i < len(e.From) {
			fmt.Fprintf(&b, "# %s\n", terminal.Text(strings.Join(e.From[i], "; ")))
		}
		rule, err := yaml.Marshal(e.Policy.Rules[i : i+1])
		if err != nil {
			return "", err
		}
		b.Write(rule)
	}
	return b.String(), nil
}
