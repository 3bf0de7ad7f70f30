package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"proviso.dev/proviso/internal/platform/terminal"
)

// place is where objects of a kind are.
type place struct {
	mapping   *meta.RESTMapping
	namespace string // empty: of the cluster, or of all namespaces
	client    dynamic.ResourceInterface
}

// find looks up a resource by its name, its short name, or its kind.
func (t *tools) find(ctx context.Context, resource, namespace string, all bool) (p place, err error) {
	flags, mapper, err := t.mapper(ctx)
	if err != nil {
		return p, err
	}
	kind, err := mapper.KindFor(schema.ParseGroupResource(resource).WithVersion(""))
	if err != nil {
		return p, fmt.Errorf("resource: %w", err)
	}
	return placeOf(flags, mapper, kind, namespace, all)
}

// at is where objects of a kind are.
func (t *tools) at(ctx context.Context, kind schema.GroupVersionKind, namespace string) (p place, err error) {
	flags, mapper, err := t.mapper(ctx)
	if err != nil {
		return p, err
	}
	return placeOf(flags, mapper, kind, namespace, false)
}

func (t *tools) mapper(ctx context.Context) (*genericclioptions.ConfigFlags, meta.RESTMapper, error) {
	flags, err := t.access.flags(ctx)
	if err != nil {
		return nil, nil, err
	}
	mapper, err := flags.ToRESTMapper()
	return flags, mapper, err
}

func placeOf(flags *genericclioptions.ConfigFlags, mapper meta.RESTMapper, kind schema.GroupVersionKind, namespace string, all bool) (p place, err error) {
	if p.mapping, err = mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
		return p, err
	}
	if p.mapping.Scope.Name() == meta.RESTScopeNameNamespace && !all {
		if p.namespace = namespace; namespace == "" {
			if p.namespace, _, err = flags.ToRawKubeConfigLoader().Namespace(); err != nil {
				return p, err
			}
		}
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return p, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return p, err
	}
	p.client = client.Resource(p.mapping.Resource).Namespace(p.namespace)
	return p, nil
}

// refused adds the output of explain to a refusal.
func (t *tools) refused(ctx context.Context, p place, verb, name string, err error) error {
	if !apierrors.IsForbidden(err) {
		return err
	}
	q := question{Verb: verb, Resource: p.mapping.Resource.GroupResource().String(), Name: name, Namespace: p.namespace}
	q.AllNamespaces = p.namespace == "" && p.mapping.Scope.Name() == meta.RESTScopeNameNamespace
	why, failed := t.ask(ctx, "", "explain", q)
	if failed != nil {
		return err
	}
	return fmt.Errorf("%w\n\n%s", err, why)
}

// one names an object.
type one struct {
	Resource  string `json:"resource" jsonschema:"the resource with its group, such as pods or deployments.apps"`
	Name      string `json:"name" jsonschema:"the name of the object"`
	Namespace string `json:"namespace,omitempty" jsonschema:"the namespace; the one of the kubeconfig if it is left out"`
}

func (t *tools) get(ctx context.Context, o one) (string, error) {
	p, err := t.find(ctx, o.Resource, o.Namespace, false)
	if err != nil {
		return "", err
	}
	object, err := p.client.Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return "", t.refused(ctx, p, "get", o.Name, err)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	text, err := yaml.Marshal(object.Object)
	return string(text), err
}

// Limits of a list.
const (
	usualObjects = 100
	mostObjects  = 500
)

// many names objects.
type many struct {
	Resource      string `json:"resource" jsonschema:"the resource with its group, such as pods or deployments.apps"`
	Namespace     string `json:"namespace,omitempty" jsonschema:"the namespace; the one of the kubeconfig if it is left out"`
	AllNamespaces bool   `json:"allNamespaces,omitempty" jsonschema:"list the objects of every namespace"`
	LabelSelector string `json:"labelSelector,omitempty" jsonschema:"such as app=web"`
	FieldSelector string `json:"fieldSelector,omitempty" jsonschema:"such as status.phase=Running"`
	Limit         int64  `json:"limit,omitempty" jsonschema:"how many objects at most; 100 if it is left out, 500 at most"`
	Continue      string `json:"continue,omitempty" jsonschema:"the text that the previous answer ended with, to go on"`
}

func (t *tools) list(ctx context.Context, m many) (string, error) {
	if m.Limit < 0 || m.Limit > mostObjects {
		return "", fmt.Errorf("limit: %d is not between 1 and %d", m.Limit, mostObjects)
	}
	if m.Limit == 0 {
		m.Limit = usualObjects
	}
	p, err := t.find(ctx, m.Resource, m.Namespace, m.AllNamespaces)
	if err != nil {
		return "", err
	}
	table, err := t.table(ctx, p, metav1.ListOptions{LabelSelector: m.LabelSelector, FieldSelector: m.FieldSelector, Limit: m.Limit, Continue: m.Continue})
	if err != nil {
		return "", t.refused(ctx, p, "list", "", err)
	}
	return printed(table, m.AllNamespaces), nil
}

// table asks for the table that kubectl shows. A server without tables answers with a list.
func (t *tools) table(ctx context.Context, p place, options metav1.ListOptions) (*metav1.Table, error) {
	flags, err := t.access.flags(ctx)
	if err != nil {
		return nil, err
	}
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	version := p.mapping.Resource.GroupVersion()
	config.GroupVersion, config.NegotiatedSerializer, config.APIPath = &version, scheme.Codecs.WithoutConversion(), "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	result := client.Get().NamespaceIfScoped(p.namespace, p.namespace != "").Resource(p.mapping.Resource.Resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").VersionedParams(&options, metav1.ParameterCodec).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	text, err := result.Raw()
	if err != nil {
		return nil, err
	}
	table := &metav1.Table{}
	if err := json.Unmarshal(text, table); err != nil || table.Kind == "Table" {
		return table, err
	}
	list := &metav1.PartialObjectMetadataList{}
	if err := json.Unmarshal(text, list); err != nil {
		return nil, err
	}
	table.ListMeta, table.ColumnDefinitions = list.ListMeta, []metav1.TableColumnDefinition{{Name: "Name"}}
	for i := range list.Items {
		raw, err := json.Marshal(&list.Items[i])
		if err != nil {
			return nil, err
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: []any{list.Items[i].Name}, Object: runtime.RawExtension{Raw: raw}})
	}
	return table, nil
}

// printed returns a table as text, without the columns that kubectl omits.
func printed(table *metav1.Table, namespaces bool) string {
	if len(table.Rows) == 0 {
		return "nothing found"
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	var titles []string
	if namespaces {
		titles = append(titles, "NAMESPACE")
	}
	for _, c := range table.ColumnDefinitions {
		if c.Priority == 0 {
			titles = append(titles, terminal.Text(strings.ToUpper(c.Name)))
		}
	}
	fmt.Fprintln(w, strings.Join(titles, "\t"))
	for _, row := range table.Rows {
		var cells []string
		if namespaces {
			var m metav1.PartialObjectMetadata
			_ = json.Unmarshal(row.Object.Raw, &m) // a cell is empty otherwise
			cells = append(cells, m.Namespace)
		}
		// An aggregated server is not always right: it may send more cells than columns.
		for i, cell := range row.Cells[:min(len(row.Cells), len(table.ColumnDefinitions))] {
			if table.ColumnDefinitions[i].Priority == 0 {
				cells = append(cells, terminal.Text(fmt.Sprint(cell)))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush()
	if table.Continue != "" {
		fmt.Fprintf(&out, "\nThere are more. continue: %s\n", table.Continue)
	}
	return out.String()
}
