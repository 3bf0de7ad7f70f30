package accessrequests

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/features/feature"
)

// heard keeps what people are told.
type heard []string

func (*heard) Warn(runtime.Object, string, string) {}

func (h *heard) Inform(_ runtime.Object, reason, message string) {
	*h = append(*h, reason+": "+message)
}

// TM-12: an Event says which rule a request is by and what became of it. It quotes nothing that only readers of the
// request may see: every user who may list events reads it.
func TestEventsQuoteNothing(t *testing.T) {
	var told heard
	d := &desk{kernel: &feature.Kernel{Warner: &told}}
	r := &access.AccessRequest{Spec: access.AccessRequestSpec{RuleRef: access.AccessRuleRef{Name: "on-call"}, Reason: "SECRET"}}
	r.Spec.Requester.Username = "SECRET"
	r.Status.Approvals = []access.AccessApproval{{By: "SECRET", Comment: "SECRET"}}
	r.Status.Conditions = []metav1.Condition{{Type: access.ConditionApproved, Message: "by SECRET: SECRET"}}
	for _, state := range []access.AccessState{access.AccessPending, access.AccessActive} {
		r.Status.State = state
		d.Tell(r, "Why")
	}
	want := `[Why: The request by AccessRule "on-call" is Pending Why: The request by AccessRule "on-call" is Active]`
	if got := fmt.Sprint(told); got != want || strings.Contains(got, "SECRET") {
		t.Errorf("told %s, want %s", got, want)
	}
}
