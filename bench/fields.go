package main

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/managedfields/managedfieldstest"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/builder3"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// fields is an update of a label and an image of a pod, by a caller who has only permissions for single fields: which
// fields have changed, and do they hold a permission for each. The peer is the bookkeeping of field owners that
// upstream does for the same update. Sizes are bytes of JSON.
func fields(b *bench) error {
	const name = "field-diff"
	if !b.wanted(name) {
		return nil
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(
		genericapiserver.DefaultOpenAPIV3Config(generatedopenapi.GetOpenAPIDefinitions, openapinamer.NewDefinitionNamer(scheme.Scheme)), "io.k8s.api.core.v1.Pod")
	if err != nil {
		return err
	}
	schemas, err := fieldperm.NewSchemas(definitions, false)
	if err != nil {
		return err
	}
	converter, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		return err
	}
	table, issues := fieldperm.New(fieldperm.Config{})
	if len(issues) > 0 {
		return fmt.Errorf("%s: %s", issues[0].Source, issues[0].Message)
	}
	for _, variables := range b.variables {
		manager := managedfieldstest.NewFakeFieldManager(converter, corev1.SchemeGroupVersion.WithKind("Pod"))
		pod := variablePod(variables)
		created, err := manager.Update(&corev1.Pod{TypeMeta: pod.TypeMeta}, pod, "creator")
		if err != nil {
			return err
		}
		stored := created.(*corev1.Pod)
		changed := stored.DeepCopy()
		changed.Labels["a"], changed.Spec.Containers[0].Image = "2", "registry.example.com/team/app:v2"
		text, err := json.Marshal(stored)
		if err != nil {
			return err
		}
		if err := b.compare(name, len(text), side{"proviso", func() error {
			r := table.Decide(fieldperm.Request{
				Target: fieldperm.Target{Resource: fieldperm.Resource{Resource: "pods"}, Version: "v1"},
				Check: func(verb string) (bool, error) {
					return verb == "granular:metadata" || verb == "granular:specification", nil
				},
				Objects: func() (*typed.TypedValue, *typed.TypedValue, error) {
					before, err := schemas.ObjectToTyped(stored)
					if err != nil {
						return nil, nil, err
					}
					after, err := schemas.ObjectToTyped(changed)
					return before, after, err
				}})
			if !r.Allowed() || len(r.Checks) == 0 {
				return fmt.Errorf("refused: %s %w", r.Reason(), r.Err)
			}
			return nil
		}}, side{"upstream-managed-fields", func() error {
			_, err := manager.Update(stored, changed, "updater")
			return err
		}}); err != nil {
			return err
		}
	}
	return nil
}

// variablePod has that many environment variables, a hundred in a container.
func variablePod(variables int) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "big", Namespace: "hammer", Labels: map[string]string{"a": "1"}}}
	p.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	for first := 0; first < variables; first += 100 {
		c := corev1.Container{Name: fmt.Sprint("c", first), Image: "registry.example.com/team/app:v1"}
		for i := first; i < min(variables, first+100); i++ {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("VARIABLE_", i), Value: strings.Repeat("v", 60)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}
