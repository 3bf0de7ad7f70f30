package crdschema

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"

	"proviso.dev/proviso/internal/request/requestctx"
)

// maxOperations is upstream's limit.
const maxOperations = 10000

// A JSON patch names places by their position in the object that its author sees, so it can only be applied to that
// object. A patch with our keys is applied here, and continues as the merge patch with the same effect on the same
// version of the object; if the object has changed in the meantime, the patch is applied again. A patch without our
// keys continues unchanged.

// liftJSONPatch returns the request to go on with, or how to serve it.
func (f *Filter) liftJSONPatch(r *http.Request, info *request.RequestInfo) (*http.Request, *replay, error) {
	body, err := f.read(r)
	if err != nil {
		return nil, nil, err
	}
	doc, err := parseJSON(body)
	if err != nil {
		return nil, nil, badRequest(err)
	}
	operations, ok := doc.root.([]any)
	if !ok {
		return withBody(r, body), nil, nil // upstream says what is wrong
	}
	carries, versions := doc.mentions, false
	for _, op := range operations {
		for _, member := range []string{"path", "from"} {
			pointer, there := at(op)[member].(string)
			carries = carries || mentionsKey([]byte(pointer))
			versions = versions || there && (pointer == "" || pointer == "/spec" || strings.HasPrefix(pointer, "/spec/versions"))
		}
	}
	if !carries {
		return withBody(r.WithContext(requestctx.WithDefinition(r.Context(), &carried{Versions: versions})), body), nil, nil
	}
	switch {
	case doc.duplicate != "":
		return nil, nil, badRequest(fmt.Errorf("duplicate field %q", doc.duplicate))
	case len(operations) > maxOperations:
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("a JSON patch may have at most %d operations", maxOperations))
	}
	text, err := json.Marshal(explicit(operations))
	if err != nil {
		return nil, nil, badRequest(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, nil, badRequest(err)
	}
	return nil, &replay{filter: f, request: r, name: info.Name, patch: patch}, nil
}

// explicit turns the removal of a key into null, since leaving a key out does not remove it.
func explicit(operations []any) []any {
	var out []any
	for _, op := range operations {
		m, from, path := at(op), text(at(op)["from"]), text(at(op)["path"])
		switch {
		case m["op"] == "remove" && isKey(path):
			out = append(out, op, map[string]any{"op": "add", "path": path, "value": nil})
		case m["op"] == "move" && isKey(from):
			out = append(out, op, map[string]any{"op": "add", "path": from, "value": nil})
		default:
			out = append(out, op)
		}
	}
	return out
}

func isKey(pointer string) bool {
	return slices.Contains(keys, pointer[strings.LastIndexByte(pointer, '/')+1:])
}

// replay serves a JSON patch.
type replay struct {
	filter  *Filter
	request *http.Request
	name    string
	patch   jsonpatch.Patch
}

// attempts is how often upstream's own patch is applied again.
const attempts = 5

func (p *replay) serve(w http.ResponseWriter) {
	for left := attempts; ; left-- {
		r, pinned, err := p.merge(p.request.Context())
		if err != nil {
			p.filter.refuse(w, p.request, err)
			return
		}
		s := &shower{hold: true}
		held := s.serve(p.filter.Next, w, r)
		if held.Code() == http.StatusConflict && !pinned && left > 1 {
			held.Forget()
			continue
		}
		s.release(held)
		return
	}
}

// merge applies the patch to the object of this moment. pinned is set if the patch itself says to which version it
// applies.
func (p *replay) merge(ctx context.Context) (r *http.Request, pinned bool, err error) {
	before, err := p.filter.Current(ctx, p.name)
	if err != nil {
		return nil, false, err
	}
	after, err := p.patch.Apply(before)
	if err != nil {
		return nil, false, unprocessable(err)
	}
	if limit := p.filter.MaxBody; limit > 0 && int64(len(after)) > limit {
		return nil, false, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
	}
	old, err := parseJSON(before)
	if err != nil {
		return nil, false, apierrors.NewInternalError(err)
	}
	new, err := parseJSON(after)
	if err != nil {
		return nil, false, badRequest(err)
	}
	lift(old.root)
	l := lift(new.root)
	if len(l.errs) > 0 {
		return nil, false, apierrors.NewInvalid(definitionKind, p.name, l.errs)
	}
	c := &carried{Versions: true}
	if c.Annotation, err = l.record.encode(); err != nil {
		return nil, false, badRequest(err)
	}
	diff, err := difference(old.root, new.root)
	if err != nil {
		return nil, false, unprocessable(err)
	}
	liftApplied(diff)
	if c.Annotation != "" {
		if err := annotate(diff, c.Annotation, p.name); err != nil {
			return nil, false, err
		}
	}
	was, is := at(old.root, "metadata")["resourceVersion"], at(new.root, "metadata")["resourceVersion"]
	if is == nil {
		is = was // the patch removed it, which means any version
	}
	metadata := at(diff, "metadata")
	if metadata == nil {
		metadata = map[string]any{}
		diff["metadata"] = metadata
	}
	metadata["resourceVersion"] = is
	r = p.request.WithContext(ctx)
	r.Header = p.request.Header.Clone()
	r.Header.Set("Content-Type", mergePatch)
	r, err = p.filter.rewritten(r, diff, c)
	return r, is != was, err
}

// difference is the merge patch that makes one object into another.
func difference(old, new any) (map[string]any, error) {
	var texts [2][]byte
	for i, root := range []any{old, new} {
		text, err := json.Marshal(root)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	patch, err := jsonpatch.CreateMergePatch(texts[0], texts[1])
	if err != nil {
		return nil, err
	}
	doc, err := parseJSON(bytes.TrimSpace(patch))
	if err != nil {
		return nil, err
	}
	diff := at(doc.root)
	if diff == nil {
		return nil, fmt.Errorf("the patch does not make an object")
	}
	return diff, nil
}

func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}
