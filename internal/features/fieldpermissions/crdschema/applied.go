package crdschema

import (
	"encoding/json"
	"slices"
	"strings"
)

// lastApplied is where kubectl keeps what was last applied, to compare the next file with.
//
// Both kinds of apply read and write it. Client-side apply writes what its author wrote and removes what it finds there
// and not in the next file. Server-side apply writes what reached the server, and looks in it for what it may overwrite
// although another manager owns it. So it is kept in the form of the server, and shown in that of the author.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// liftApplied brings it into the form of the server, and reports whether there was anything to do. What cannot be read
// is left to kubectl.
func liftApplied(root any) bool {
	return rewriteApplied(root, []string{KeyPrefix, KeyTemplate}, func(object any) bool {
		l := lift(object)
		text, err := l.record.encode()
		return err == nil && len(l.errs) == 0 && l.carries && annotate(object, text, "") == nil
	})
}

// showApplied brings it into the form of its author.
func showApplied(root any) {
	rewriteApplied(root, []string{Annotation}, func(object any) bool {
		annotations := at(object, "metadata", "annotations")
		delete(annotations, lastApplied) // one inside of the other would have no end
		showOne(object)
		if annotations != nil {
			at(object, "metadata")["annotations"] = annotations // kubectl writes empty ones too, and compares
		}
		return true
	})
}

func rewriteApplied(root any, only []string, rewrite func(object any) bool) bool {
	annotations := at(root, "metadata", "annotations")
	written := text(annotations[lastApplied])
	if !slices.ContainsFunc(only, func(name string) bool { return strings.Contains(written, name) }) {
		return false
	}
	doc, err := parseJSON([]byte(written))
	if err != nil || !rewrite(doc.root) {
		return false
	}
	after, err := json.Marshal(doc.root)
	if err != nil {
		return false
	}
	annotations[lastApplied] = string(after) + "\n"
	return true
}
