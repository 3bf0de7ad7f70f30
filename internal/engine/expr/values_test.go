package expr

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// EX-2: every part of a condition is shown with its value; what is inside of loops, and what the namespace holds, is
// not.
func TestValuesOfParts(t *testing.T) {
	object := map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}, "spec": map[string]any{"replicas": int64(7), "ports": []any{int64(80), int64(443)}}}
	facts := NewData(DataConfig{Operation: "CREATE", OwnKind: true, Objects: Static{New: obj(object)}, Namespace: func() (runtime.Object, error) {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "hammer", Labels: map[string]string{"team": "a"}}}, nil
	}})
	for _, tc := range []struct{ source, want string }{
		{"object.spec.replicas < 5", `object.spec.replicas < 5 = false|  object.spec.replicas = 7`},
		{"request.userInfo.username == 'edgar' && object.spec.replicas < 5 || object.metadata.labels['app'] == 'web'",
			`object.spec.replicas < 5 \|\| object.metadata.labels["app"] == "web" = true|  object.spec.replicas < 5 = false|    object.spec.replicas = 7|  object.metadata.labels["app"] == "web" = true|    object.metadata.labels["app"] = "web"`},
		{"object.metadata.?labels.orValue({}).?app.orValue('') != ''", `object.metadata.?labels.orValue({}).?app.orValue("") != "" = true|  object.metadata.?labels.orValue({}).?app.orValue("") = "web"`},
		{"object.spec.ports.all(p, p < 100)", `object.spec.ports.all(p, p < 100) = false|  object.spec.ports = [80, 443]`},
		{"has(object.spec.paused) && object.spec.paused", `has(object.spec.paused) && object.spec.paused = false|  has(object.spec.paused) = false|  object.spec.paused ! condition fails: it could not be evaluated for this object`},
		{"object != null && namespaceObject.metadata.labels['team'] == 'a'", `object != null && namespaceObject.metadata.labels["team"] == "a" = true|  object != null = true|` +
			`  namespaceObject.metadata.labels["team"] == "a" = true|    namespaceObject.metadata.labels["team"] = (not shown: only truths about the namespace are)`},
		{"object != null && [namespaceObject].map(n, n.metadata.labels['team'])[0] == 'a'", `object != null && [namespaceObject].map(n, n.metadata.labels["team"])[0] == "a" = true|  object != null = true|` +
			`  [namespaceObject].map(n, n.metadata.labels["team"])[0] == "a" = true|    [namespaceObject].map(n, n.metadata.labels["team"])[0] = (not shown: only truths about the namespace are)`},
	} {
		t.Run(tc.source, func(t *testing.T) {
			finding := compile(t, When, tc.source).Decide(edgar(), Allow)
			if finding.Truth() != Unresolved {
				t.Fatalf("the request decides it: %v", finding.Truth())
			}
			var got []string
			for _, v := range finding.Residual().Values(context.Background(), facts) {
				line := strings.Repeat("  ", v.Depth) + v.Text
				if v.Err != nil {
					line += fmt.Sprint(" ! ", v.Err)
				} else {
					line += " = " + v.Value
				}
				got = append(got, line)
			}
			want := strings.Split(strings.ReplaceAll(tc.want, `\|\|`, "\x00"), "|")
			for i := range want {
				want[i] = strings.ReplaceAll(want[i], "\x00", "||")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
