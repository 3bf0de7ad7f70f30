package accessreview

import (
	"context"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/request/authorize"
)

// unrestricted is a server without restrictions of its own: it serves everything itself, knows everything, and hides
// nothing.
type unrestricted struct {
	unseen func(authorizer.Attributes) error
}

var openGate = authorize.NewGate(authorize.GateConfig{Conditional: true, Local: authorize.LocalFunc(func(string, string) bool { return true })})

func (o unrestricted) Unseen(attrs authorizer.Attributes) error {
	if o.unseen != nil {
		return o.unseen(attrs)
	}
	return openGate.Unseen(attrs)
}

func (unrestricted) AlsoNeeds(context.Context, authorizer.Attributes) string      { return "" }
func (unrestricted) Narrowed(context.Context, authorizer.Attributes) string       { return "" }
func (unrestricted) United(context.Context, authorizer.Attributes) (string, bool) { return "", false }
func (unrestricted) Known(context.Context, authorizer.Attributes) error           { return nil }
func (unrestricted) Of(context.Context, authorizer.Attributes) View               { return everything{} }

type everything struct{}

func (everything) Whole() bool       { return true }
func (everything) Shows(string) bool { return true }

// guard is what stands in front of the chain.
type guard []ChainElement

func (g guard) Before(context.Context, authorizer.Attributes) []ChainElement { return g }
