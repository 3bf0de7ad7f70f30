package crdschema

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"

	"proviso.dev/proviso/internal/engine/fieldperm"
	"proviso.dev/proviso/internal/request/requestctx"
)

// Name is how the plugin shows up in metrics.
const Name = "FieldPermissionDeclarations"

// Plugin settles what a write declares with what is stored, inside of the transaction: it sees the object that is
// stored at that moment, and sees it again when a conflict makes the server try again. It stands last in mutating
// admission, and once more checks in validating admission what others may have made of it.
type Plugin struct {
	// Expressions compiles CEL; without it, parameters that are expressions are refused.
	Expressions fieldperm.Expressions
	// Keeper keeps what is declared, and Escalation says who may change what was lost.
	Keeper     Keeper
	Escalation Escalation
}

var (
	_ admission.MutationInterface   = (*Plugin)(nil)
	_ admission.ValidationInterface = (*Plugin)(nil)
)

var (
	definitions    = apiextensions.Resource("customresourcedefinitions")
	definitionKind = apiextensions.Kind("CustomResourceDefinition")
)

// Handles implements admission.Interface.
func (p *Plugin) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// write is a write of a definition as admission sees it.
type write struct {
	old, new *apiextensions.CustomResourceDefinition
	// stored and sent are the annotation before and after, and whether there is one.
	stored, sent       string
	hasStored, hasSent bool
}

func writeOf(attrs admission.Attributes) (*write, bool) {
	if attrs.GetResource().GroupResource() != definitions {
		return nil, false
	}
	w := &write{}
	var ok bool
	if w.new, ok = attrs.GetObject().(*apiextensions.CustomResourceDefinition); !ok {
		return nil, false
	}
	w.sent, w.hasSent = w.new.Annotations[Annotation]
	if w.old, ok = attrs.GetOldObject().(*apiextensions.CustomResourceDefinition); ok && w.old != nil {
		w.stored, w.hasStored = w.old.Annotations[Annotation]
	}
	return w, true
}

// Admit puts the settled declarations into the object.
func (p *Plugin) Admit(ctx context.Context, attrs admission.Attributes, _ admission.ObjectInterfaces) error {
	w, ok := writeOf(attrs)
	if !ok {
		return nil
	}
	if attrs.GetSubresource() != "" {
		// Upstream lets a write of the status change metadata, and one by a client that does not see the annotation
		// would remove it.
		if w.hasStored && !w.hasSent {
			s := settle(w.storedRecord(), nil, w.old, w.old)
			s.warn(ctx)
		}
		w.set(w.stored, w.hasStored)
		return nil
	}
	carried := requestctx.DefinitionOf(ctx)
	written, err := w.written(carried)
	if err != nil {
		return err
	}
	s := settle(w.storedRecord(), written, w.old, w.new)
	text, err := s.record.encode()
	if err != nil {
		return w.invalid(field.ErrorList{field.InternalError(field.NewPath("spec"), err)})
	}
	if written == nil && !w.readable() {
		text = w.stored // it grants nothing and says so; only a write with declarations can repair it
	}
	if p.revives(w, written) {
		text = different(text, w.stored)
	}
	if text != w.stored || w.old == nil || !apiequality.Semantic.DeepEqual(w.old.Spec, w.new.Spec) {
		if errs := s.record.check(ctx, w.new, p.Expressions); len(errs) > 0 {
			return w.invalid(errs)
		}
	}
	if carried != nil && carried.Versions || w.hasStored && !w.hasSent {
		s.warn(ctx)
	}
	w.set(text, text != "")
	return nil
}

// written is what the request itself declares, and nil if it does not declare anything. The annotation counts only if
// it is the one that the filter made.
func (w *write) written(c *carried) (record, error) {
	switch {
	case c != nil && c.Annotation != "" && w.sent == c.Annotation:
		r, err := decode(c.Annotation)
		if err != nil {
			return nil, w.invalid(field.ErrorList{field.InternalError(field.NewPath("metadata", "annotations").Key(Annotation), err)})
		}
		return r, nil
	case c != nil && c.Annotation != "":
		return nil, w.invalid(field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(Annotation), "what the schema declares was changed on its way by another admission plugin")})
	case !w.hasSent || w.hasStored && w.sent == w.stored:
		return nil, nil
	}
	return nil, w.invalid(field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(Annotation),
		"the server keeps this annotation: declare permissions in the schema, with "+KeyVerb)})
}

func (w *write) storedRecord() record {
	r, _ := decode(w.stored)
	return r
}

func (w *write) readable() bool {
	_, err := decode(w.stored)
	return err == nil
}

func (s settlement) warn(ctx context.Context) {
	if len(s.kept) > 0 {
		warning.AddWarning(ctx, "", s.warning())
	}
}

// set writes the annotation, or removes it.
func (w *write) set(text string, there bool) {
	if there == w.hasSent && text == w.sent {
		return
	}
	annotations := maps.Clone(w.new.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = text
	if !there {
		delete(annotations, Annotation)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	w.new.Annotations = annotations
}

func (w *write) invalid(errs field.ErrorList) error {
	return apierrors.NewInvalid(definitionKind, w.new.Name, errs)
}

// Validate refuses what does not follow the rules, whichever component put it there.
func (p *Plugin) Validate(ctx context.Context, attrs admission.Attributes, _ admission.ObjectInterfaces) error {
	w, ok := writeOf(attrs)
	if !ok || w.hasSent == w.hasStored && w.sent == w.stored {
		return nil
	}
	at := field.NewPath("metadata", "annotations").Key(Annotation)
	if attrs.GetSubresource() != "" {
		return w.invalid(field.ErrorList{field.Forbidden(at, "the server keeps this annotation")})
	}
	if requestctx.NotesOf(ctx).WasGranular() {
		// Although it is stored in an annotation, a right to annotations must not include the right to declare
		// permissions.
		return apierrors.NewForbidden(definitions, w.new.Name, fmt.Errorf("declaring field permissions needs the right to write the whole definition"))
	}
	r, err := decode(w.sent)
	if err != nil {
		return w.invalid(field.ErrorList{field.Invalid(at, field.OmitValueType{}, err.Error())})
	}
	if errs := r.check(ctx, w.new, p.Expressions); len(errs) > 0 {
		return w.invalid(errs)
	}
	return p.enter(ctx, w, attrs.IsDryRun())
}
