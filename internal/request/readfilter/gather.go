package readfilter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"

	"proviso.dev/proviso/internal/request/requestctx"
)

// maxApart is up to how many namespaces of a union are read one by one, so a list costs what these namespaces hold. A
// wider union reads everything (RD-14).
const maxApart = 64

// apart returns the namespaces by which a list can be read, one after the other; nil if everything has to be read, or
// if the request already is about one namespace.
func apart(ctx context.Context, n *requestctx.Narrowing, opts storage.ListOptions) []string {
	u := n.Union
	if u == nil || u.Elsewhere || u.Themselves || len(u.Namespaces) > maxApart || !opts.Recursive {
		return nil
	}
	if namespace, _ := request.NamespaceFrom(ctx); namespace != "" {
		return nil
	}
	if _, single := opts.Predicate.MatchesSingleNamespace(); single {
		return nil
	}
	return u.Namespaces
}

// getList reads a list, of everything or of some namespaces. It reports whether the limit was applied whichever
// revision was asked for.
func (s *store) getList(ctx context.Context, r *reading, key string, opts storage.ListOptions, list runtime.Object) (limited bool, _ error) {
	if namespaces := apart(ctx, r.holder.Get(requestctx.Request).Narrowing(), opts); namespaces != nil {
		return true, s.gather(ctx, namespaces, key, opts, list)
	}
	return false, s.Interface.GetList(ctx, key, opts, list)
}

// gather reads namespaces in the order in which they are stored, at one revision: that of the first read, if the
// request does not specify one.
func (s *store) gather(ctx context.Context, namespaces []string, key string, opts storage.ListOptions, list runtime.Object) error {
	root := strings.TrimSuffix(key, "/") + "/"
	revision, from, err := storage.ValidateListOptions(root, s.Versioner(), opts)
	if err != nil {
		return err
	}
	into, err := itemsOf(list)
	if err != nil {
		return err
	}
	empty := list.DeepCopyObject()
	one := opts
	one.Predicate.Continue = ""
	if from != "" {
		one.ResourceVersion, one.ResourceVersionMatch = "", "" // the latest, if the token does not specify one
	}
	for _, namespace := range namespaces {
		prefix := root + namespace + "/"
		inside := strings.HasPrefix(from, prefix)
		if from > prefix && !inside {
			continue
		}
		if one.Predicate.Limit = opts.Predicate.Limit - int64(into.Len()); opts.Predicate.Limit > 0 && one.Predicate.Limit <= 0 {
			break
		}
		if opts.Predicate.Limit <= 0 {
			one.Predicate.Limit = opts.Predicate.Limit
		}
		if revision > 0 {
			one.ResourceVersion, one.ResourceVersionMatch = strconv.FormatInt(revision, 10), metav1.ResourceVersionMatchExact
		}
		this := one
		if inside {
			if this, err = goOn(one, from, prefix, revision); err != nil {
				return err
			}
		}
		part := empty.DeepCopyObject()
		if err := s.Interface.GetList(ctx, strings.TrimSuffix(prefix, "/"), this, part); err != nil {
			return withoutToken(err)
		}
		found, err := itemsOf(part)
		if err != nil {
			return err
		}
		into.Set(reflect.AppendSlice(into, found))
		if revision <= 0 {
			if revision, err = revisionOf(part); err != nil {
				return err
			}
		}
	}
	return s.date(ctx, list, revision)
}

// goOn continues in the namespace in which the previous page ended.
func goOn(one storage.ListOptions, from, prefix string, revision int64) (storage.ListOptions, error) {
	if revision <= 0 {
		revision = -1 // the latest
	}
	token, err := storage.EncodeContinue(from, prefix, revision)
	one.Predicate.Continue, one.ResourceVersion, one.ResourceVersionMatch = token, "", ""
	return one, err
}

// date sets the revision of the list to the one at which all of it was read.
func (s *store) date(ctx context.Context, list runtime.Object, revision int64) error {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	if revision <= 0 { // nothing was read
		now, err := s.GetCurrentResourceVersion(ctx)
		if err != nil {
			return err
		}
		revision = int64(now)
	}
	m.SetResourceVersion(strconv.FormatInt(revision, 10))
	m.SetContinue("")
	return nil
}

func revisionOf(list runtime.Object) (int64, error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(m.GetResourceVersion(), 10, 64)
}

// itemsOf returns the slice of items of a list, which is never nil afterwards.
func itemsOf(list runtime.Object) (reflect.Value, error) {
	ptr, err := meta.GetItemsPtr(list)
	if err != nil {
		return reflect.Value{}, err
	}
	items, err := conversion.EnforcePtr(ptr)
	if err != nil {
		return reflect.Value{}, err
	}
	if items.Kind() != reflect.Slice {
		return reflect.Value{}, fmt.Errorf("a list has items of type %s", items.Type())
	}
	if items.IsNil() {
		items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	}
	return items, nil
}

// withoutToken removes the continue token from an error: with it, a client would continue in one namespace only.
// Without it, the client lists again.
func withoutToken(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Continue != "" {
		plain := *status
		plain.ErrStatus.Continue = ""
		return &plain
	}
	return err
}
