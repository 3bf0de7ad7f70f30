package expr

import (
	"fmt"
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

// PO-23: a comparison with texts is found however it is written, and whatever else depends on the field.
func TestComparedWith(t *testing.T) {
	for source, want := range map[string]string{
		``:                                     "[] true",
		`request.user == "x"`:                  "[] true",
		`resource.metadata.labels.tier == "a"`: "[a] true",
		`"a" != oldObject.metadata.labels["tier"]`:                                               "[a] true",
		`object.metadata.labels.tier in ["a", "b"]`:                                              "[a b] true",
		`resource.metadata.?labels[?"tier"].orValue("") == "a"`:                                  "[a] true",
		`"tier" in resource.metadata.labels && resource.metadata.labels.tier == "a"`:             "[a] true",
		`has(resource.metadata.labels.tier)`:                                                     "[] true",
		`resource.metadata.labels.tier.startsWith("a")`:                                          "[] false",
		`resource.metadata.labels.tier == "a" || resource.metadata.labels.tier == request.user`:  "[a] false",
		`resource.metadata.labels.tier in ["a", request.user]`:                                   "[] false",
		`resource.metadata.labels.tier == "a" && resource.metadata.labels.other.startsWith("b")`: "[a] true",
		`not CEL (`: "[] false",
	} {
		values, only := ComparedWith(source, []string{"metadata", "labels", "tier"})
		if got := fmt.Sprint(values, " ", only); strings.Join(strings.Fields(got), " ") != want {
			t.Errorf("%s: %s, want %s", source, got, want)
		}
	}
}
