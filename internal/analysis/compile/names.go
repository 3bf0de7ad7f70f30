package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/engine/ruleset"
)

// What every compiled object carries.
const (
	// ManagedBy is the label of all of them, with the value Manager.
	ManagedBy = "app.kubernetes.io/managed-by"
	Manager   = "proviso-compile"
	// Origin is the annotation with the rule or role that an object comes from.
	Origin = "compile.proviso.dev/origin"

	syncWave     = "argocd.argoproj.io/sync-wave"
	wavePolicies = "1"
	waveGrants   = "2"
)

// label marks an object of ours.
func (c *compiler) label(meta *metav1.ObjectMeta, origin, wave string) {
	meta.Labels = map[string]string{ManagedBy: Manager}
	meta.Annotations = map[string]string{Origin: origin, syncWave: wave}
}

// maxReadable is how much of a name is readable.
const maxReadable = 40

// nameOf is the name of an object: readable, and with a hash of its origin and content, so an object is never changed
// in place.
func nameOf(role ruleset.RoleRef, index int, scope string, content any) string {
	data, err := json.Marshal([]any{role.Namespace, role.Name, index, scope, content})
	if err != nil {
		data = []byte(err.Error()) // the kinds of content here can always be written
	}
	sum := sha256.Sum256(data)
	readable := role.Name
	if scope != "" {
		readable = scope + "-" + readable
	}
	if index >= 0 {
		readable += fmt.Sprintf("-%d", index)
	}
	return "proviso-" + clean(readable) + "-" + hex.EncodeToString(sum[:6])
}

// clean makes a text a part of a DNS name.
func clean(text string) string {
	out := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(text))
	return strings.Trim(out[:min(len(out), maxReadable)], "-")
}
