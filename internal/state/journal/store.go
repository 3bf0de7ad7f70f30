package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/klog/v2"
)

// Converter converts objects to a version.
type Converter interface {
	ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error)
}

// revocations are changed by users without any right, and by the server when they are over. Such changes are not in the
// journal, since they would displace policy in it.
var revocations = schema.GroupResource{Group: "access.proviso.dev", Resource: "tokenrevocations"}

// kept are the resources whose changes are journaled, with the version in which people write them: those that grant and
// deny, those by which rights can be asked for, and those that configure auditing.
var kept = map[schema.GroupResource]string{
	{Group: "rbac.authorization.k8s.io", Resource: "roles"}:               "v1",
	{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:        "v1",
	{Group: "rbac.authorization.k8s.io", Resource: "rolebindings"}:        "v1",
	{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}: "v1",
	{Group: "policy.proviso.dev", Resource: "policies"}:                   "v1alpha1",
	{Group: "policy.proviso.dev", Resource: "policybindings"}:             "v1alpha1",
	{Group: "policy.proviso.dev", Resource: "fieldpermissions"}:           "v1alpha1",
	{Group: "policy.proviso.dev", Resource: "protectedattributes"}:        "v1alpha1",
	{Group: "policy.proviso.dev", Resource: "clusterprotectedattributes"}: "v1alpha1",
	{Group: "policy.proviso.dev", Resource: "namespaceauditsinks"}:        "v1alpha1",
	{Group: "access.proviso.dev", Resource: "accessrules"}:                "v1alpha1",
	{Group: "auditregistration.k8s.io", Resource: "auditsinks"}:           "v1alpha1",
	{Group: "auditregistration.k8s.io", Resource: "auditclasses"}:         "v1alpha1",
	revocations: "v1alpha1",
}

// Around journals the writes to a resource; other resources are not wrapped.
func (j *Journal) Around(convert Converter) func(schema.GroupResource, *storagebackend.ConfigForResource, storage.Interface) storage.Interface {
	return func(resource schema.GroupResource, config *storagebackend.ConfigForResource, inner storage.Interface) storage.Interface {
		version, keep := kept[resource]
		if j == nil || convert == nil || !keep {
			return inner
		}
		j.know(resource, config.Transformer)
		if j.cfg.Entries == 0 {
			return inner
		}
		return &store{Interface: inner, journal: j, resource: resource, version: schema.GroupVersion{Group: resource.Group, Version: version}, convert: convert}
	}
}

type store struct {
	storage.Interface
	journal  *Journal
	resource schema.GroupResource
	version  schema.GroupVersion
	convert  Converter
}

// change is one change in progress.
type change struct {
	store *store
	entry Entry
	key   string
	// begun is set once the entry is in the journal, and refused is the error with which the caller's own checks refuse
	// the change.
	begun   bool
	refused error
}

func (s *store) change(ctx context.Context, verb string) *change {
	c := &change{store: s, entry: Entry{Time: time.Now().UTC(), Verb: verb, Group: s.resource.Group, Resource: s.resource.Resource}}
	if who, ok := request.UserFrom(ctx); ok {
		c.entry.User, c.entry.Groups = who.GetName(), who.GetGroups()
	}
	if id, ok := audit.AuditIDFrom(ctx); ok {
		c.entry.AuditID = string(id)
	}
	return c
}

// begin writes the entry of a change that is about to be made. If it cannot be written, the change is not made.
func (c *change) begin(ctx context.Context, before, after runtime.Object) error {
	was, err := content(c.store.convert, c.store.version, before)
	var will json.RawMessage
	if err == nil {
		will, err = content(c.store.convert, c.store.version, after)
	}
	if err != nil {
		return c.failed(err)
	}
	if bytes.Equal(was, will) { // nothing that matters
		if c.begun { // an earlier attempt has written a different entry
			c.store.journal.forget(ctx, c.key)
			c.begun = false
		}
		return nil
	}
	named := after
	if named == nil {
		named = before
	}
	if m, err := meta.Accessor(named); err == nil {
		c.entry.Namespace, c.entry.Name = m.GetNamespace(), m.GetName()
	}
	c.entry.Before, c.entry.After = was, will
	if c.key == "" {
		if c.key, err = c.store.journal.newKey(c.store.resource, c.entry.Time); err != nil {
			return c.failed(err)
		}
	}
	if err := c.store.journal.put(ctx, c.key, &c.entry); errors.Is(err, rpctypes.ErrNoSpace) {
		return full{c.failed(err)}
	} else if err != nil {
		return c.failed(err)
	}
	c.begun = true
	return nil
}

func (c *change) failed(err error) error {
	return apierrors.NewInternalError(fmt.Errorf("the change cannot be written to the policy journal, and is not made: %w", err))
}

// full is the error of an etcd without free space.
type full struct{ error }

// Is makes it match errFull, and Unwrap keeps its status.
func (full) Is(target error) bool { return target == errFull }
func (f full) Unwrap() error      { return f.error }

var errFull = errors.New("no space")

// end records the result of a change.
func (c *change) end(ctx context.Context, made runtime.Object, err error) error {
	if !c.begun {
		return err
	}
	if err != nil {
		if c.refused != nil || storage.IsConflict(err) || storage.IsExist(err) || storage.IsNotFound(err) || storage.IsInvalidObj(err) || storage.IsUnreachable(err) {
			c.store.journal.forget(ctx, c.key)
		}
		return err // otherwise it is unknown whether it was made; the entry stays, without a revision
	}
	if m, err := meta.Accessor(made); err == nil {
		c.entry.Revision, _ = strconv.ParseUint(m.GetResourceVersion(), 10, 64) // without one, it stays as it is
	}
	if err := c.store.journal.put(ctx, c.key, &c.entry); err != nil {
		klog.ErrorS(err, "An entry of the policy journal stays without its revision", "key", c.key, "revision", c.entry.Revision)
	}
	c.store.journal.written(ctx)
	return nil
}

// Create implements storage.Interface.
func (s *store) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	c := s.change(ctx, Create)
	if isServer(ctx) || s.aside(ctx) {
		return s.Interface.Create(ctx, key, obj, out, ttl) // no user has changed what comes with the release
	}
	if err := c.begin(ctx, nil, obj); err != nil {
		return err
	}
	return c.end(ctx, out, s.Interface.Create(ctx, key, obj, out, ttl))
}

// Delete implements storage.Interface. etcd without space takes no entry and still deletes: rights can be revoked then,
// and the log says what the journal lacks.
func (s *store) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions) error {
	if s.aside(ctx) {
		return s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	}
	c := s.change(ctx, Delete)
	err := s.Interface.Delete(ctx, key, out, preconditions, func(ctx context.Context, obj runtime.Object) error {
		if validate != nil {
			if err := validate(ctx, obj); err != nil {
				c.refused = err
				return err
			}
		}
		c.refused = c.begin(ctx, obj.DeepCopyObject(), nil)
		if errors.Is(c.refused, errFull) {
			klog.ErrorS(c.refused, "A deletion is not in the policy journal", "object", c.entry.Key(), "user", c.entry.User, "auditID", c.entry.AuditID)
			c.refused = nil
		}
		return c.refused
	}, cached, opts)
	return c.end(ctx, out, err)
}

// GuaranteedUpdate implements storage.Interface. What is tried again is written again, to the same entry.
func (s *store) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, try storage.UpdateFunc, cached runtime.Object) error {
	c := s.change(ctx, Update)
	err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, func(input runtime.Object, res storage.ResponseMeta) (runtime.Object, *uint64, error) {
		before := input.DeepCopyObject()
		out, ttl, err := try(input, res)
		if err != nil {
			c.refused = err
			return out, ttl, err
		}
		if res.ResourceVersion == 0 { // it is not there yet
			before, c.entry.Verb = nil, Create
		} else {
			c.entry.Verb = Update
		}
		c.refused = c.begin(ctx, before, out)
		return out, ttl, c.refused
	}, cached)
	return c.end(ctx, destination, err)
}

// aside reports whether a change of a revocation costs no right: a token revokes itself, or the server deletes what is
// over.
func (s *store) aside(ctx context.Context) bool {
	own, _ := ctx.Value(ownTokenKey{}).(bool)
	return s.resource == revocations && (own || isServer(ctx))
}

// ownTokenKey is a context key for the same reason as impersonatedKey.
type ownTokenKey struct{}

// OwnToken marks the request by which a token revokes itself.
func OwnToken(ctx context.Context) context.Context {
	return context.WithValue(ctx, ownTokenKey{}, true)
}

// impersonatedKey is a context key because the journal does not know requests: the storage only passes it a context.
type impersonatedKey struct{}

// Impersonated marks a request of an impersonated user, so a user who impersonates the server is journaled
// nevertheless.
func Impersonated(ctx context.Context) context.Context {
	return context.WithValue(ctx, impersonatedKey{}, true)
}

// IsImpersonated reports whether a request is one of an impersonated user.
func IsImpersonated(ctx context.Context) bool {
	impersonated, _ := ctx.Value(impersonatedKey{}).(bool)
	return impersonated
}

// isServer reports whether the server itself makes the request.
func isServer(ctx context.Context) bool {
	if IsImpersonated(ctx) {
		return false
	}
	who, ok := request.UserFrom(ctx)
	return ok && who.GetName() == user.APIServerUser && slices.Contains(who.GetGroups(), user.SystemPrivilegedGroup)
}
