package enforce

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"proviso.dev/proviso/internal/engine/connect"
	"proviso.dev/proviso/internal/request/requestctx"
)

// connect requires create of every connect request with another verb.
func (p *Plugin) connect(ctx context.Context, holder *requestctx.State, known *facts) error {
	if !p.creates(holder) {
		return nil
	}
	out := p.cfg.Connect.Connect(ctx, holder, known)
	if out.Decision == authorizer.DecisionNoOpinion && out.Reason == "" && len(out.Conditions) == 0 {
		out.Reason = fmt.Sprintf("a connection takes %s on %s/%s, whichever HTTP method it uses, and nothing allows that", connect.Verb, known.GetResource().Resource, known.GetSubresource())
	}
	return settle(ctx, known, out)
}

// creates reports whether create is required in addition to the verb of a connect request.
func (p *Plugin) creates(holder *requestctx.State) bool {
	decided := holder.Attributes()
	return p.cfg.Connect != nil && (decided == nil || decided.GetVerb() != "create")
}

var errUncleanPath = errors.New("the proxied path has empty, . or .. elements or ends with a slash; a conditional permission needs a clean path")

// Trusted refuses a proxied path that is not in its canonical form: a condition on options.path must see what the
// backend will see.
func (f *facts) Trusted() error {
	if f.GetOperation() != admission.Connect {
		return nil
	}
	if f.unreadable != nil {
		return f.unreadable
	}
	var proxied string
	switch o := f.data.Options().(type) {
	case *corev1.NodeProxyOptions:
		proxied = o.Path
	case *corev1.PodProxyOptions:
		proxied = o.Path
	case *corev1.ServiceProxyOptions:
		proxied = o.Path
	}
	// Upstream drops one of two slashes when it cuts the proxied path out of the URL, so look for them in the URL.
	if proxied != "" && (path.Clean(proxied) != proxied || strings.Contains(f.path, "//")) {
		return errUncleanPath
	}
	return nil
}
