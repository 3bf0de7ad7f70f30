package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	access "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/apis/registry/validate"
	engine "proviso.dev/proviso/internal/engine/access"
)

// Default limits of a rule, so users cannot fill the store.
const (
	defaultActive = 10
	defaultPerDay = 50
)

// accessUsageKind counts what a user has asked for. It is stored, not served.
func accessUsageKind() *kind[*access.AccessUsage] {
	return &kind[*access.AccessUsage]{
		version: access.SchemeGroupVersion, plural: "accessusages", singular: "accessusage",
		newObject:   func() *access.AccessUsage { return &access.AccessUsage{} },
		newList:     func() runtime.Object { return &access.AccessUsageList{} },
		prepare:     func(_, _ *access.AccessUsage) {},
		validate:    func(context.Context, *access.AccessUsage, *access.AccessUsage) field.ErrorList { return nil },
		sameContent: func(_, _ *access.AccessUsage) bool { return false },
	}
}

// usageName is the name of the object that counts for a user, whose name can be anything.
func usageName(userName string) string {
	sum := sha256.Sum256([]byte(userName))
	return hex.EncodeToString(sum[:])
}

// count enters a request among those of its requester, unless there are too many. All requests of a user are counted in
// one object, by compare and swap, so two replicas cannot together accept what one would refuse.
func (s *accessRequests) count(ctx context.Context, rule *access.AccessRule, r *access.AccessRequest, now time.Time, dry bool) error {
	use := access.AccessUse{Rule: rule.UID, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Time: validate.WholeSecond(now)}
	global := request.WithNamespace(ctx, "")
	name, userName := usageName(r.Spec.Requester.Username), r.Spec.Requester.Username
	enter := func(u *access.AccessUsage) (*access.AccessUsage, error) {
		u = u.DeepCopy()
		u.UserName = userName
		u.Requests = s.recent(ctx, u.Requests, now)
		if err := s.within(ctx, rule, r, u.Requests, now); err != nil {
			return nil, err
		}
		u.Requests = append(u.Requests, use)
		return u, nil
	}
	for range 5 {
		obj, err := s.usages.Get(global, name, &metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			fresh, err := enter(&access.AccessUsage{ObjectMeta: metav1.ObjectMeta{Name: name}})
			if err != nil || dry {
				return err
			}
			if _, err = s.usages.Create(global, fresh, rest.ValidateAllObjectFunc, &metav1.CreateOptions{}); apierrors.IsAlreadyExists(err) {
				continue
			}
			return err
		}
		if err != nil {
			return err
		}
		next, err := enter(cast[*access.AccessUsage](obj))
		if err != nil || dry {
			return err
		}
		_, _, err = s.usages.Store.Update(global, name, rest.DefaultUpdatedObjectInfo(next), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return apierrors.NewTooManyRequests("too many requests for access by one user at the same time", 1)
}

// gone says that a request was not stored, or is deleted. It gives back none of those of the day. If that fails, the
// request counts for a while.
func (s *accessRequests) gone(ctx context.Context, r *access.AccessRequest) {
	global := request.WithNamespace(context.WithoutCancel(ctx), "")
	for range 5 {
		obj, err := s.usages.Get(global, usageName(r.Spec.Requester.Username), &metav1.GetOptions{})
		if err != nil {
			return
		}
		u := cast[*access.AccessUsage](obj).DeepCopy()
		i := slices.IndexFunc(u.Requests, func(use access.AccessUse) bool { return use.UID == r.UID })
		if i < 0 || r.UID == "" {
			return
		}
		u.Requests[i].UID = ""
		if _, _, err = s.usages.Store.Update(global, u.Name, rest.DefaultUpdatedObjectInfo(u), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			return
		}
	}
}

// recent are the requests that may still count: those of the last day, and those that have not ended.
func (s *accessRequests) recent(ctx context.Context, all []access.AccessUse, now time.Time) []access.AccessUse {
	return slices.DeleteFunc(slices.Clone(all), func(u access.AccessUse) bool {
		return now.Sub(u.Time.Time) >= 24*time.Hour && !s.open(ctx, u, now)
	})
}

// storing is how long it can take from when a request is entered until it is stored.
const storing = time.Minute

// open reports whether a request has not ended. One that cannot be read counts, and so does one that may be about to be
// stored. A use without a uid is known to be gone.
func (s *accessRequests) open(ctx context.Context, u access.AccessUse, now time.Time) bool {
	if u.UID == "" {
		return false
	}
	obj, err := s.stored.Get(request.WithNamespace(ctx, u.Namespace), u.Name, &metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return now.Sub(u.Time.Time) < storing
	}
	if err != nil {
		return true
	}
	r := cast[*access.AccessRequest](obj)
	return r.UID == u.UID && !engine.IsOver(engine.StatusAt(r, now).State)
}

// within checks the limits of a rule.
func (s *accessRequests) within(ctx context.Context, rule *access.AccessRule, r *access.AccessRequest, uses []access.AccessUse, now time.Time) error {
	active, perDay := int32(defaultActive), int32(defaultPerDay)
	if l := rule.Spec.Limits; l != nil {
		if l.Active != nil {
			active = *l.Active
		}
		if l.PerDay != nil {
			perDay = *l.PerDay
		}
	}
	var today, open int32
	for _, u := range uses {
		if u.Rule != rule.UID {
			continue
		}
		if now.Sub(u.Time.Time) < 24*time.Hour {
			today++
		}
		if s.open(ctx, u, now) {
			open++
		}
	}
	switch {
	case open >= active:
		return s.forbidden(r.Name, fmt.Sprintf("you have %d requests by AccessRule %q that have not ended, and it allows %d: withdraw one, or wait until it has ended", open, rule.Name, active))
	case today >= perDay:
		return s.forbidden(r.Name, fmt.Sprintf("you have made %d requests by AccessRule %q within 24 hours, and it allows %d", today, rule.Name, perDay))
	}
	return nil
}
