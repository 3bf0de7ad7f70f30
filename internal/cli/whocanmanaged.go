package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/hosts/offline/managed"
	"proviso.dev/proviso/internal/hosts/offline/manifests"
)

// managedFlags are for a cluster without Proviso, for which policy is compiled. No server there can answer who-can.
type managedFlags struct {
	Target string
	Files  []string
	Accept []string
	Master string
}

const targetVAP = "vap"

func (m *managedFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&m.Target, "target", "", "Answer for a cluster for which policy is compiled: vap. No server is asked; -f has the cluster.")
	fs.StringSliceVarP(&m.Files, "filename", "f", nil, "With --target: files or directories with a dump of the cluster, or with the policy that is compiled for it and the RBAC besides.")
	fs.StringSliceVar(&m.Accept, "accept", nil, "With --target: rules, roles or objects of which to do without what cannot be had.")
	fs.StringVar(&m.Master, "master-namespace", "master", "With --target: the namespace whose policy holds everywhere.")
}

// checkManaged refuses flags that make no sense together.
func (o *WhoCanOptions) checkManaged() error {
	m := &o.Managed
	at, err := o.At.Asked()
	switch {
	case err != nil:
		return err
	case m.Target == "" && (len(m.Files) > 0 || len(m.Accept) > 0):
		return errors.New("-f and --accept need --target")
	case m.Target == "":
		return nil
	case m.Target != targetVAP:
		return fmt.Errorf("--target %s: want %s", m.Target, targetVAP)
	case len(m.Files) == 0:
		return errors.New("--target needs -f: a dump of the cluster, or the policy that is compiled for it")
	case o.Blocked || o.Rules || o.Indirect || o.Limit != 0 || o.Continue != "" || at != nil || o.format == "wide":
		return errors.New("--target and --blocked, --rules, --indirect, --limit, --continue, --at and -o wide are mutually exclusive")
	}
	return nil
}

// runManaged answers from files.
func (o *WhoCanOptions) runManaged(ctx context.Context, args []string) error {
	if strings.HasPrefix(args[1], "/") {
		return errors.New("--target: paths cannot be asked about")
	}
	documents, err := manifests.Read(o.Managed.Files, nil)
	if err != nil {
		return err
	}
	there, err := managed.Enforce(documents, o.Managed.Master, o.Managed.Accept)
	if err != nil {
		return err
	}
	kind, name, _ := strings.Cut(args[1], "/")
	if len(args) > 2 {
		name = args[2]
	}
	if o.Subresource != "" {
		plural, group, found := strings.Cut(kind, ".")
		if kind = plural + "/" + o.Subresource; found {
			kind = plural + "." + group + "/" + o.Subresource
		}
	}
	namespace, err := o.namespace()
	if err != nil {
		return err
	}
	namespaced, err := there.Namespaced(kind)
	if err != nil {
		return err
	}
	if !namespaced || o.ClusterWide {
		namespace = ""
	}
	review := &authz.ResourceAccessReview{
		TypeMeta:   metav1.TypeMeta{APIVersion: authz.SchemeGroupVersion.String(), Kind: "ResourceAccessReview"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Spec:       authz.ResourceAccessReviewSpec{Verb: args[0], ResourceKind: kind, ResourceName: name, NameContains: o.Filter},
	}
	if review.Status, err = there.WhoCan(ctx, namespace, review.Spec); err != nil {
		return err
	}
	code := whoCanCode(review.Status)
	if hides := o.hides(); hides != nil {
		if n := hide(&review.Status, hides); o.HideSystem {
			o.sayHidden(n) // it was asked for: in front of the answer
		} else {
			defer o.sayHidden(n)
		}
	}
	switch o.format {
	case "table":
		err = whoCanTable(o.Out, review.Status, false)
	case "name":
		err = whoCanNames(o.Out, review.Status)
	default:
		err = o.print(o.Out, review)
	}
	if err != nil {
		return err
	}
	o.warn(review.Status)
	return answered(code)
}
