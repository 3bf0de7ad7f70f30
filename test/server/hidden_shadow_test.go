package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
	"proviso.dev/proviso/client/clientset/versioned"
)

// HF-1: to hide a field warns with the number of those who will not see it any more; one that is not enforced yet hides
// nothing, and counts who would have seen less.
func TestHidingIsTriedFirst(t *testing.T) {
	f, s := hiding(t)
	f.namespace(t, "tried")
	const leases = "/apis/coordination.k8s.io/v1/namespaces/tried/leases"
	f.admin(t, http.MethodPost, leases, jsonBody, `{"metadata":{"name":"x"},"spec":{"holderIdentity":"me"}}`)
	f.grant(t, "tried-one", []string{"coordination.k8s.io"}, []string{"leases"}, "get")
	f.grant(t, "tried-two", []string{"coordination.k8s.io"}, []string{"leases"}, "get", "reveal:example.com/holder")
	f.settled(t, "the rights", func() bool {
		return f.may(t, "tried-one", "coordination.k8s.io", "leases", "get") && f.may(t, "tried-two", "coordination.k8s.io", "leases", "reveal:example.com/holder")
	})
	heard := &collectedWarnings{}
	config := rest.CopyConfig(s.admin)
	config.WarningHandlerWithContext = heard
	client := versioned.NewForConfigOrDie(config).PolicyV1alpha1().FieldPermissions()
	tried := &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: "holder"}, Spec: policyv1alpha1.FieldPermissionSpec{
		Resources: []string{"leases.coordination.k8s.io"}, Field: ".spec.holderIdentity", Permission: "example.com/holder", ReadExclusive: true, Enforcement: policyv1alpha1.EnforcementShadow}}
	made, err := client.Create(t.Context(), tried, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	counted := func() (n int) {
		for _, text := range *heard {
			if strings.Contains(text, "may get leases.coordination.k8s.io and do not hold reveal:example.com/holder") {
				_, _ = fmt.Sscan(text, &n)
			}
		}
		return n
	}
	before := counted()
	if before == 0 {
		t.Errorf("the warnings are %q", *heard)
	}
	get := func(user string) string {
		return fmt.Sprint(f.as(t, user, http.MethodGet, leases+"/x", jsonBody, "").body["spec"])
	}
	const report = "/apis/authorization.proviso.dev/v1alpha1/shadowrules"
	f.settled(t, "the record", func() bool {
		if get("tried-one") != "map[holderIdentity:me]" || get("tried-two") != "map[holderIdentity:me]" {
			t.Fatal("a permission that is not enforced hides something")
		}
		return strings.Contains(fmt.Sprint(f.admin(t, http.MethodGet, report, jsonBody, "").body), "tried-one")
	})
	if text := fmt.Sprint(f.admin(t, http.MethodGet, report, jsonBody, "").body); strings.Contains(text, "tried-two") {
		t.Errorf("who holds the verb would have seen as much: %s", text)
	}
	// Another one who holds the verb is not counted.
	f.grant(t, "tried-one-too", []string{"coordination.k8s.io"}, []string{"leases"}, "get")
	f.settled(t, "another reader", func() bool { return f.may(t, "tried-one-too", "coordination.k8s.io", "leases", "get") })
	if _, err := client.Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"spec":{"enforcement":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if after := counted(); after != before+1 {
		t.Errorf("%d before, %d with one more", before, after)
	}
	f.settled(t, "the enforcement", func() bool { return get("tried-one") != get("tried-two") })
	f.admin(t, http.MethodDelete, fieldsGroup+"/holder", jsonBody, "")
}
