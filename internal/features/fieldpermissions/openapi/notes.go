package openapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"proviso.dev/proviso/internal/engine/fieldperm"
)

// Kind is a kind of a group version, the resource that serves it, and the fields of it that permissions guard.
type Kind struct {
	Kind     string
	Resource fieldperm.Resource
	Guarded  []fieldperm.Guarded
}

// Notes are what to say in the document of a group version.
type Notes struct {
	GroupVersion schema.GroupVersion
	Kinds        []Kind
	// mark tells these notes from others.
	mark string
}

// NewNotes returns the notes on some kinds. Their order means nothing.
func NewNotes(gv schema.GroupVersion, kinds []Kind) *Notes {
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return len(k.Guarded) == 0 })
	if len(kinds) == 0 {
		return nil
	}
	slices.SortFunc(kinds, func(a, b Kind) int { return strings.Compare(a.Resource.String(), b.Resource.String()) })
	hash := sha256.New()
	for _, k := range kinds {
		_, _ = fmt.Fprintf(hash, "%s %s\n", k.Kind, k.Resource)
		for _, g := range k.Guarded {
			_, _ = fmt.Fprintf(hash, "%s %s %t %t %t\n", g.Field, g.Verb, g.Everywhere, g.Exclusive, g.Sometimes)
		}
	}
	return &Notes{GroupVersion: gv, Kinds: kinds, mark: hex.EncodeToString(hash.Sum(nil)[:8])}
}
