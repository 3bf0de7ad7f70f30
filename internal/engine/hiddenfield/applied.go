package hiddenfield

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// The annotation with what kubectl applied is a copy of the object, and a caller who may write the object may write the
// copy. The outcome must not reveal whether what is written equals what is stored: a conflict could, and so could the
// managers of the annotation, or whether the object changes.

// shownApplied shows what is not hidden of what kubectl applied. If it cannot be read, or is in another version, it is
// shown as empty: everyone may know that there is an annotation.
func (s Set) shownApplied(text string) string {
	content, err := decode([]byte(text))
	if err != nil || len(s.elsewhere(content)) > 0 {
		return ""
	}
	shown, err := json.Marshal(s.withoutSpelled(content))
	if err != nil {
		return ""
	}
	if strings.HasSuffix(text, "\n") {
		shown = append(shown, '\n')
	}
	return string(shown)
}

// withoutSpelled removes the fields from what a client has written, which may spell them in any way.
func (s Set) withoutSpelled(content map[string]any) map[string]any {
	for _, f := range s {
		for _, at := range spellings(f.Field) {
			content = withoutAny(content, at, f.Keys)
		}
	}
	return content
}

// saidIn lists the fields about which a text says something; all of them if it cannot be read.
func (s Set) saidIn(text string) Set {
	content, err := decode([]byte(text))
	if err != nil {
		return s
	}
	return slices.DeleteFunc(slices.Clone(s), func(f fieldperm.Hidden) bool {
		one := Set{f}
		return len(one.elsewhere(content)) == 0 && reflect.DeepEqual(content, one.withoutSpelled(content))
	})
}

// elsewhere lists the fields that what a client has written may have in other places, since it is in another version.
func (s Set) elsewhere(content map[string]any) Set {
	return slices.DeleteFunc(slices.Clone(s), func(f fieldperm.Hidden) bool {
		return f.APIVersion == "" || f.APIVersion == content["apiVersion"]
	})
}

// WritesApplied reports whether a JSON patch or a merge patch writes what kubectl applied.
func WritesApplied(body []byte) bool {
	var operations []map[string]json.RawMessage
	if json.Unmarshal(body, &operations) == nil {
		return slices.ContainsFunc(operations, func(o map[string]json.RawMessage) bool {
			return relate(pointer(text(o["path"])), appliedPath) != apart
		})
	}
	merged, err := decode(body)
	return err != nil || holds(reflect.ValueOf(merged), appliedPath)
}

// AppliesApplied reports whether a manager has applied the annotation itself.
func AppliesApplied(name string, entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, func(e metav1.ManagedFieldsEntry) bool {
		return isApplyOf(name, e) && !fieldsIn(e).Intersection(appliedSet).Empty()
	})
}

// restoreApplied restores what kubectl applied, and returns true, if the part that the author sees is unchanged. The
// annotation may say about a hidden field only what the author also sets. Anything else is a guess, and is refused
// whether it is right or wrong.
func (s Set) restoreApplied(before, after metav1.Object, set Set) (kept bool, err error) {
	stored, had := before.GetAnnotations()[lastApplied]
	written, has := after.GetAnnotations()[lastApplied]
	if !had || !has {
		return false, nil
	}
	shown := s.shownApplied(stored)
	if written != shown {
		if said := s.saidIn(written).less(set); len(said) > 0 {
			return false, &Refused{said[0], "writing in " + appliedPath.String() + " what the request does not set"}
		}
		if s.shownApplied(written) != shown {
			return false, nil
		}
	}
	annotations := maps.Clone(after.GetAnnotations())
	annotations[lastApplied] = stored
	if own := s.less(s.less(set)); len(own) > 0 {
		annotations[lastApplied] = own.shownApplied(stored) // these values are gone
	}
	after.SetAnnotations(annotations)
	return true, nil
}
