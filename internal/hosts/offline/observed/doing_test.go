package observed

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"

	"proviso.dev/proviso/internal/hosts/offline"
)

// Two subjects never get objects of the same name.
func TestSuggestedNamesDiffer(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []offline.Subject{{User: "ci-robot"}, {User: "ci.robot"}, {User: "ci_robot"}, {User: "CI-robot"}, {User: "sa.ci.robot"}, {User: "group.ci"}, {Group: "ci"}, {User: "ci"}, {ServiceAccount: "ci/robot"},
		{ServiceAccount: "a-b/c"}, {ServiceAccount: "a/b-c"}, {User: "ci-robot-"}, {User: "-ci-robot"}, {User: "a..b"}, {User: "a-b"}, {User: "ä"}, {User: "ö"}, {User: strings.Repeat("x", 300)}, {User: strings.Repeat("x", 301)}} {
		name := "suggested-" + nameOf(s)
		if other, twice := seen[name]; twice || len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("%v is called %s, as is %s", s, name, other)
		}
		seen[name] = s.String()
	}
}
