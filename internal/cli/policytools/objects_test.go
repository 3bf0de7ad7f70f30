package policytools

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// having is a server with objects, one a line: "pods hammer/db: label label". Every page has one of them.
func having(text string) lister {
	if text == "" {
		return nil
	}
	return func(_ context.Context, resource schema.GroupVersionResource, namespace string, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		var all []metav1.PartialObjectMetadata
		for line := range strings.Lines(text) {
			head, labels, _ := strings.Cut(strings.TrimSpace(line), ":")
			kind, name, _ := strings.Cut(head, " ")
			home, name, _ := strings.Cut(name, "/")
			if kind != resource.Resource || namespace != "" && home != namespace {
				continue
			}
			object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: name, Labels: map[string]string{}}}
			for _, key := range strings.Fields(labels) {
				object.Labels[key] = "x"
			}
			all = append(all, object)
		}
		var n int
		_, _ = fmt.Sscan(options.Continue, &n)
		page := &metav1.PartialObjectMetadataList{}
		if n < len(all) {
			page.Items = all[n : n+1]
		}
		if n+1 < len(all) {
			page.Continue = fmt.Sprint(n + 1)
		}
		return page, nil
	}
}

// TR-9: labels are looked for where the rule holds, in all of its objects, and only where all of them are known.
func TestLintLabels(t *testing.T) {
	const rule = `apiVersion: authorization.proviso.dev/v1alpha1
kind: Role
metadata: {name: a, namespace: %s}
rules: [{verbs: [update], resourceKinds: %s, %s}]
---
apiVersion: authorization.proviso.dev/v1alpha1
kind: RoleBinding
metadata: {name: a, namespace: %[1]s}
roleRef: {namespace: %[1]s, name: a}
userNames: [edgar]
`
	const team, contain = `where: 'resource.metadata.labels.team == "a"'`, `attributeRestrictions: {labelsContain: ["team=a"]}`
	refused := lister(func(context.Context, schema.GroupVersionResource, string, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	})
	endless := lister(func(context.Context, schema.GroupVersionResource, string, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{Continue: "more"}, Items: make([]metav1.PartialObjectMetadata, 500)}, nil
	})
	for _, test := range []struct {
		name, namespace, kinds, condition string
		live                              lister
		finds                             bool
		says                              string
	}{
		{"nobody has it", "hammer", "[pods]", team, having("pods hammer/a: app\npods hammer/b: taem"), true, "no object has the label team: 2 were checked, pods in hammer\n    Write taem"},
		{"the last has it", "hammer", "[pods]", team, having("pods hammer/a: app\npods hammer/b: app\npods hammer/c: team"), false, ""},
		{"a restriction", "hammer", "[pods]", contain, having("pods hammer/a: app"), true, "attributeRestrictions.labelsContain[0]"},
		{"a restriction that holds", "hammer", "[pods]", contain, having("pods hammer/a: team"), false, ""},
		{"another namespace has it", "hammer", "[pods]", team, having("pods hammer/a: app\npods other/b: team"), true, ""},
		{"everywhere", "master", "[pods]", team, having("pods hammer/a: app\npods other/b: team"), false, ""},
		{"another kind has it", "hammer", "[pods, services]", team, having("pods hammer/a: app\nservices hammer/b: team"), false, ""},
		{"a subresource", "hammer", "[pods/status]", team, having("pods hammer/a: app"), true, ""},
		{"no objects at all", "hammer", "[pods]", team, having("pods other/a: team"), false, ""},
		{"refused", "hammer", "[pods]", team, refused, false, "Labels of pods in hammer are not checked: you may not list them."},
		{"too many", "hammer", "[pods]", team, endless, false, "there are more than 10000"},
		{"any kind", "hammer", `["*"]`, team, refused, false, "Role hammer/a rules[0].where: labels are not checked because the rule names"},
		{"files alone", "hammer", "[pods]", team, nil, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := write(t, map[string]string{"a.yaml": fmt.Sprintf(rule, test.namespace, test.kinds, test.condition)})
			command := func(streams genericiooptions.IOStreams) *cobra.Command { return newLintCommand(streams, test.live) }
			out, code, err := execute(t, command, "", filepath.Join(dir, "a.yaml"))
			if code != 0 || err != nil || strings.Contains(out, "PV019") != test.finds || !strings.Contains(out, test.says) {
				t.Errorf("%d %v\n%s", code, err, out)
			}
		})
	}
}
