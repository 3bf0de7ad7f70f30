package fieldperm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "proviso.dev/proviso/api/policy/v1alpha1"
)

func hiding(name, field string, keep policyv1alpha1.HiddenKeep, resources ...string) *policyv1alpha1.FieldPermission {
	return &policyv1alpha1.FieldPermission{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1alpha1.FieldPermissionSpec{
		Resources: resources, Field: field, Permission: "example.com/" + name, ReadExclusive: true, Keep: keep}}
}

// HF-1, HF-2: a hidden field of pods is hidden in every template, and in the data of revisions.
func TestHiddenFields(t *testing.T) {
	table, issues := New(Config{FieldPermissions: []*policyv1alpha1.FieldPermission{
		hiding("env", ".spec.containers[].env[].value", "", "pods"),
		hiding("secretData", ".data[]", policyv1alpha1.KeepKeys, "secrets"),
		hiding("note", ".metadata.annotations[example.com/note]", "", "*"),
	}})
	if len(issues) > 0 {
		t.Fatal(issues)
	}
	note := ".metadata.annotations[example.com/note]"
	for resource, want := range map[string][]string{
		"secrets":                  {note, ".data"},
		"configmaps":               {note},
		"pods":                     {".spec.containers[].env[].value", note, ".spec.volumes[].ephemeral.volumeClaimTemplate" + note},
		"deployments.apps":         {".spec.template.spec.containers[].env[].value", note, ".spec.template.spec.volumes[].ephemeral.volumeClaimTemplate" + note, ".spec.template" + note},
		"controllerrevisions.apps": {".data.spec.template.spec.containers[].env[].value"},
		"cronjobs.batch":           {".spec.jobTemplate.spec.template.spec.containers[].env[].value"},
	} {
		r, err := ParseResource(resource)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, h := range table.Hidden(r) {
			got[h.Field.String()] = true
			if h.Keys != (h.Permission == "example.com/secretData") {
				t.Errorf("%s: %s keeps the wrong thing", resource, h.Field)
			}
		}
		for _, at := range want {
			if !got[at] {
				t.Errorf("%s: %s is not hidden, only %v", resource, at, got)
			}
		}
	}
	if empty, _ := New(Config{}); empty.HidesAny() || empty.Hidden(Resource{"", "secrets"}) != nil {
		t.Error("something is hidden by default")
	}
}

// HF-1: what is needed to serve an object cannot be hidden.
func TestNeededFieldsAreNotHidden(t *testing.T) {
	for _, tc := range []struct{ field, resource, want string }{
		{".metadata", "secrets", ".metadata.name"},
		{".spec", "pods", ".spec.nodeName"},
		{".spec.nodeName", "pods", ".spec.nodeName"},
		{".spec.nodeName", "*", ".spec.nodeName"},
		{".spec.replicas", "deployments.apps", ".spec.replicas"},
		{".spec.selector.matchLabels", "deployments.apps", ".spec.selector"},
		{".spec.selector", "replicationcontrollers", ".spec.selector"},
		{".status.replicas", "deployments.apps", ".status.replicas"},
		{".status.replicas", "statefulsets.apps", ".status.replicas"},
		{".status.replicas", "replicasets.apps", ".status.replicas"},
		{".status.replicas", "replicationcontrollers", ".status.replicas"},
		{".status.replicas", "*", ".status.replicas"},
		{".status", "deployments.apps", ".status.replicas"},
		{".status.readyReplicas", "deployments.apps", ""},
		{".status.replicas", "configmaps", ""},
		{".spec.containers[].name", "pods", ".spec.containers[].name"},
		{".spec.containers", "pods", ".spec.containers[].name"},
		{".spec.containers[].env", "pods", ""},
		{".data", "secrets", ""},
		{".message", "events", "two API groups"},
		{".spec.replicas", "configmaps", ""},
	} {
		_, err := FromFieldPermission(hiding("x", tc.field, "", tc.resource))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s of %s: %v", tc.field, tc.resource, err)
		}
	}
	keeps := hiding("x", ".data", policyv1alpha1.KeepKeys, "secrets")
	keeps.Spec.ReadExclusive = false
	if _, err := FromFieldPermission(keeps); err == nil || !cmp.Equal(err.Error(), "keep must come with readExclusive: true") {
		t.Error(err)
	}
}

// HF-1: what a Scale of a custom resource shows is known, and is more than what it sets.
func TestShownInScale(t *testing.T) {
	widgets := Resource{"example.com", "widgets"}
	table, _ := New(Config{ShownInScale: map[Resource][]Path{widgets: {path(".spec.count"), path(".status.count")}}})
	for r, want := range map[Resource]string{
		widgets: "[.spec.count .status.count]", {"apps", "deployments"}: "[.spec.replicas .status.replicas .spec.selector]", {"", "secrets"}: "[]",
	} {
		if got := fmt.Sprint(table.ShownInScale(r)); got != want {
			t.Errorf("%s: %s", r, got)
		}
	}
	var none *Table
	if got := none.ShownInScale(widgets); got != nil {
		t.Error(got)
	}
}
