package base

import (
	"net/url"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"proviso.dev/proviso/internal/state/journal"
)

// PA-13: a webhook may change labels between the version that is stored and those that are served, so all of them are
// looked at; without one, a conversion changes the version and nothing else.
func TestConvertedVersions(t *testing.T) {
	crd := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter},
		Versions:   []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true}, {Name: "v2", Storage: true}, {Name: "v3", Served: true}, {Name: "v0"}},
	}}
	if storage, served := convertedVersions(crd); storage != "v2" || !slices.Equal(served, []string{"v1", "v3"}) {
		t.Errorf("with a webhook: %q, %v", storage, served)
	}
	crd.Spec.Conversion.Strategy = apiextensionsv1.NoneConverter
	if storage, served := convertedVersions(crd); storage != "" || served != nil {
		t.Errorf("without: %q, %v", storage, served)
	}
	if storage, served := convertedVersions(nil); storage != "" || served != nil {
		t.Errorf("of what is not defined: %q, %v", storage, served)
	}
}

// TR-15: what of the journal is asked for; a limit that is not a number is an error, and not everything.
func TestWantedEntries(t *testing.T) {
	entry := &journal.Entry{Namespace: "hammer", User: "edgar"}
	for _, c := range []struct {
		query     string
		wantHas   bool
		wantLimit int
		wantErr   bool
	}{
		{query: "", wantHas: true},
		{query: "namespace=hammer&user=edgar&limit=7", wantHas: true, wantLimit: 7},
		{query: "namespace=anvil"},
		{query: "namespace=hammer&user=hubert"},
		{query: "limit=-1", wantErr: true},
		{query: "limit=some", wantErr: true},
	} {
		query, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		w, err := wantedOf(query)
		if (err != nil) != c.wantErr || err == nil && (w.has(entry) != c.wantHas || w.limit != c.wantLimit) {
			t.Errorf("%q: %+v, %v", c.query, w, err)
		}
	}
}
