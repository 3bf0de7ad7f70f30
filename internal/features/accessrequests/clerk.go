package accessrequests

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	accessv1alpha1 "proviso.dev/proviso/api/access/v1alpha1"
	"proviso.dev/proviso/internal/engine/access"
	"proviso.dev/proviso/internal/request/requestctx"
	"proviso.dev/proviso/internal/state/policycodec"
	"proviso.dev/proviso/internal/state/snapshot"
)

// clerk updates the status of requests as time passes, for clients that watch them, and deletes those that ended long
// ago. No decision depends on it: the clock decides what counts.
type clerk struct {
	desk     *desk
	requests snapshot.Objects
}

func newClerk(d *desk, from snapshot.Source) (*clerk, error) {
	requests, err := from.Objects(snapshot.AccessRequests)
	return &clerk{desk: d, requests: requests}, err
}

// lookAgain is how often requests are checked.
const lookAgain = time.Second

// Run implements feature.Runner.
func (c *clerk) Run(ctx context.Context) {
	if c.requests == nil {
		return
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for ctx.Err() == nil {
		if now, known := c.desk.Now(); known && c.desk.kernel.Replicas.Agreed() == nil {
			c.look(ctx, now)
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

func (c *clerk) look(ctx context.Context, now time.Time) {
	requests, kept := c.desk.requests.Get()
	if !kept {
		return
	}
	for _, r := range snapshot.Of[*accessv1alpha1.AccessRequest](c.requests) {
		if policycodec.Quarantined(r) != "" {
			continue
		}
		within := request.WithNamespace(c.asServer(ctx), r.Namespace)
		var err error
		switch end := access.EndOf(r, now); {
		case end.IsZero():
		case now.Sub(end) >= access.Kept:
			err = requests.Forget(within, r.Name, r.UID)
		case !access.IsOver(r.Status.State):
			err = requests.Settle(within, r.Name, r.UID)
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && ctx.Err() == nil {
			klog.V(2).InfoS("What became of an AccessRequest was not written down; the server tries again", "request", r.Namespace+"/"+r.Name, "err", err)
		}
	}
}

// asServer marks the following writes as those of the server itself.
func (c *clerk) asServer(ctx context.Context) context.Context {
	ctx = requestctx.With(ctx, c.desk.kernel.Store.Current())
	return request.WithUser(ctx, &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
}
