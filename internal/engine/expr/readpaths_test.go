package expr

import (
	"slices"
	"strings"
	"testing"
)

// PO-23: what an expression looks at is found however it is written.
func TestReadPaths(t *testing.T) {
	for source, want := range map[string][]string{
		``:     nil,
		`true`: nil,
		`resource.metadata.labels.protected == "yes"`:                                        {"metadata.labels.protected"},
		`"protected" in resource.metadata.?labels.orValue({})`:                               {"metadata.labels.protected"},
		`has(resource.metadata.annotations) && resource.metadata.annotations["a.b/c"] == ""`: {"metadata.annotations.a.b/c"},
		`resource.metadata.?labels[?"x"].orValue("") == "y"`:                                 {"metadata.labels.x"},
		`object.spec.paused || oldObject.spec.paused`:                                        {"spec.paused"},
		`resource.metadata.labels[request.user] == "owner"`:                                  {"metadata.labels"},
		`resource.spec.containers.all(c, c.image == "x")`:                                    {"spec.containers"},
		`request.user == "edgar" && resource.data.key == request.user`:                       {"data.key"},
		`!("b" in resource.data) || resource.data.a == "x"`:                                  {"data.a", "data.b"},
		`not CEL (`: nil,
	} {
		var got []string
		for _, path := range ReadPaths(source) {
			got = append(got, strings.Join(path, "."))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
