package offline

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"

	authz "proviso.dev/proviso/api/authorization/v1alpha1"
	"proviso.dev/proviso/internal/apis/policyreview"
	"proviso.dev/proviso/internal/engine/expr"
	"proviso.dev/proviso/internal/features"
	"proviso.dev/proviso/internal/features/base"
	"proviso.dev/proviso/internal/features/conditionalreads"
	"proviso.dev/proviso/internal/features/conditions"
	"proviso.dev/proviso/internal/features/feature"
	"proviso.dev/proviso/internal/features/fieldpermissions"
	"proviso.dev/proviso/internal/features/fieldpermissions/crdschema"
	"proviso.dev/proviso/internal/features/policies"
	"proviso.dev/proviso/internal/request/authorize"
	"proviso.dev/proviso/internal/state/discovery"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
	"proviso.dev/proviso/internal/state/source"
)

// Config says what is read.
type Config struct {
	// Paths are files and directories of manifests, or dumps.
	Paths []string
	// Texts are read after them.
	Texts []source.Text
	// MasterNamespace is the namespace whose policy holds everywhere.
	MasterNamespace string
	// Systems are those that are on; all of them if it is nil.
	Systems features.Lineup
	// Base is a host of the same policy with changes, from texts that share what they were read as; what is the same is
	// not compiled again. nil if there is none.
	Base *Host
}

// Host decides by what the files say.
type Host struct {
	kernel   *feature.Kernel
	systems  []feature.System
	reviewer *policyreview.Reviewer
	files    *source.Files
	// local is what is built in, and remote what other servers serve.
	local, remote []*metav1.APIResourceList
}

// New reads the files. What cannot be read is an error, and so is a policy that is not complete.
func New(cfg Config) (*Host, error) {
	if cfg.Systems == nil {
		cfg.Systems = features.All()
	}
	files, err := source.ReadFiles(source.FilesConfig{
		Paths: cfg.Paths, Texts: cfg.Texts, MasterNamespace: cfg.MasterNamespace,
		Roles: defaultRoles(cfg.MasterNamespace), RoleBindings: policies.DefaultRoleBindings(cfg.MasterNamespace),
		Definitions: crdschema.Files{},
	})
	if err != nil {
		return nil, err
	}
	if cfg.Base != nil {
		files.From(cfg.Base.files, cfg.Base.Snapshot().Rules)
	}
	h := &Host{files: files}
	reserved := groupsOf(policycodec.VersionedScheme(), scheme.Scheme)
	local, remote := told(files, reserved)
	if len(local) == 0 {
		local = assumed(policycodec.VersionedScheme(), scheme.Scheme)
	}
	h.local, h.remote = local, remote
	kernel := base.KernelConfig{
		Master: cfg.MasterNamespace, Conditional: cfg.Systems.Has(conditions.Gate), UniformConnect: true, Reserved: reserved,
		Namespaces: authorize.NamespacesFunc(func(name string) (runtime.Object, error) { return files.Namespace(name) }),
		Warner:     silent{}, Replicas: authorize.Alone{}, Age: authorize.Ageless{},
	}
	if cfg.Systems.Has(conditionalreads.Gate) {
		kernel.Reach = func(directory *discovery.Directory) base.Reach {
			return base.Reach{Local: directory, Reads: conditionalreads.Assumed()}
		}
	}
	if h.kernel, err = base.NewKernel(kernel); err != nil {
		return nil, err
	}
	if h.systems, err = cfg.Systems.Build(h.kernel, features.Config{Fields: fieldpermissions.Config{Builtin: builtin{}}}); err != nil {
		return nil, err
	}
	if err := features.Install(h.kernel, h.systems); err != nil {
		return nil, err
	}
	if err := h.feed(files); err != nil {
		return nil, err
	}
	files.From(nil, nil) // it is not needed any more
	h.reviewer = base.Reviewer(h.kernel, nil)
	return h, nil
}

// feed makes the one snapshot that there is.
func (h *Host) feed(files *source.Files) error {
	definitions, err := files.Objects(snapshot.Definitions)
	if err != nil {
		return err
	}
	if err := h.kernel.Served.Watch(discovery.World{Local: h.local, Remote: h.remote, Definitions: definitions}); err != nil {
		return err
	}
	for _, s := range h.systems {
		if s.Parts == nil {
			continue
		}
		parts, err := s.Parts(files)
		if err != nil {
			return err
		}
		if err := h.kernel.Store.Add(parts...); err != nil {
			return err
		}
	}
	h.kernel.Store.Publish()
	return h.kernel.Store.Ready()
}

// Snapshot is the compiled policy.
func (h *Host) Snapshot() *snapshot.Snapshot { return h.kernel.Store.Current() }

// Systems are those that are on.
func (h *Host) Systems() []feature.System { return h.systems }

// Authorize decides a request without its object: what is conditional is not allowed.
func (h *Host) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	return h.kernel.Gate.Chain.Authorize(ctx, attrs)
}

// Review answers whether a subject can do something, with the object if there is one, as the review of a server would.
func (h *Host) Review(ctx context.Context, namespace string, spec authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error) {
	if spec.UserName == "" && spec.GroupName == "" {
		return authz.SubjectAccessReviewStatus{}, errors.New("name a user or a group: no user is logged in here")
	}
	who := reader()
	return h.reviewer.SubjectCan(request.WithUser(ctx, who), who, namespace, spec)
}

// WhoCan lists who can do something, as the review of a server would.
func (h *Host) WhoCan(ctx context.Context, namespace string, spec authz.ResourceAccessReviewSpec) (authz.ResourceAccessReviewStatus, error) {
	return h.reviewer.WhoCan(request.WithUser(ctx, reader()), namespace, spec)
}

// reader is a user who has the files, and sees all of the policy.
func reader() user.Info {
	return &user.DefaultInfo{Name: "reader", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
}

// Ask answers for a user with all groups, who may see everything that concerns the answer.
func (h *Host) Ask(ctx context.Context, who user.Info, namespace string, spec authz.SubjectAccessReviewSpec) (authz.SubjectAccessReviewStatus, error) {
	spec.UserName, spec.GroupName = "", ""
	return h.reviewer.SubjectCan(request.WithUser(ctx, who), who, namespace, spec)
}

// Conditions is where the conditions of the policy are compiled.
func (h *Host) Conditions() *expr.Cache {
	if h.kernel.Compiler.Cache != nil {
		return h.kernel.Compiler.Cache
	}
	return expr.NewCache(h.kernel.Compiler.CEL)
}

// Files are the objects that were read.
func (h *Host) Files() *source.Files { return h.files }

func defaultRoles(master string) (roles []*authz.Role) {
	for name, rules := range policies.DefaultRoles() {
		roles = append(roles, &authz.Role{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: master}, Rules: rules})
	}
	return roles
}

// silent warns nobody: what is wrong with a file is said where it is read.
type silent struct{}

// Warn implements feature.Warner.
func (silent) Warn(runtime.Object, string, string) {}

func (silent) Inform(runtime.Object, string, string) {}
