package controllers

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

const (
	leaseNamespace = metav1.NamespaceSystem
	leaseName      = "proviso-controllers"
)

// timing of the lease. A server that dies is replaced after duration, one that leaves after at most two retries. A
// leader that cannot renew gives up at deadline, which leaves its controllers the rest of the duration to stop.
type timing struct{ duration, deadline, retry time.Duration }

var defaultTiming = timing{duration: 8 * time.Second, deadline: 5 * time.Second, retry: time.Second}

// campaign runs the controllers whenever this server holds the lease, until the context ends.
func (c *Controllers) campaign(ctx context.Context) error {
	config := withAgent(c.cfg.RestConfig, "leader-election")
	// A request that hangs must not keep the leader from noticing that it cannot renew.
	config.Timeout = c.cfg.lease.deadline / 2
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("leader election of the controllers: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: leaseNamespace, Name: leaseName},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: c.cfg.Identity},
	}
	// Right after its first start a server does not have the namespace yet, and the elector takes seconds until it
	// tries again.
	_ = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().Namespaces().Get(ctx, leaseNamespace, metav1.GetOptions{})
		return err == nil, nil
	})
	for ctx.Err() == nil {
		led, err := c.candidacy(ctx, lock)
		if err != nil {
			return fmt.Errorf("leader election of the controllers: %w", err)
		}
		if led && ctx.Err() == nil {
			klog.FromContext(ctx).Info("controllers stopped here because the lease was lost", "lease", lock.Describe())
		}
	}
	c.resign(context.WithoutCancel(ctx), lock)
	return nil
}

// candidacy waits for the lease, runs the controllers while it is held, and returns when they have stopped.
func (c *Controllers) candidacy(ctx context.Context, lock resourcelock.Interface) (led bool, err error) {
	lead := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: leaseName,
		LeaseDuration: c.cfg.lease.duration, RenewDeadline: c.cfg.lease.deadline, RetryPeriod: c.cfg.lease.retry,
		// The lease is given up by resign, after the controllers have stopped: the elector would do so before.
		ReleaseOnCancel: false,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { lead <- ctx },
			OnStoppedLeading: func() {},
			OnNewLeader: func(identity string) {
				if identity != c.cfg.Identity {
					c.started()
				}
			},
		},
	})
	if err != nil {
		return false, err
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		elector.Run(ctx)
	}()
	select {
	case term := <-lead:
		c.keepServing(term)
		<-over
		return true, nil
	case <-over:
		return false, nil
	}
}

// resign gives the lease up if it is held, so that another server need not wait until it expires. It fails silently:
// the server may be gone already.
func (c *Controllers) resign(ctx context.Context, lock resourcelock.Interface) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.lease.retry)
	defer cancel()
	record, _, err := lock.Get(ctx)
	if err != nil || record.HolderIdentity != c.cfg.Identity {
		return
	}
	now := metav1.Now()
	err = lock.Update(ctx, resourcelock.LeaderElectionRecord{LeaderTransitions: record.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now})
	if err != nil {
		klog.FromContext(ctx).Info("lease of the controllers was not given up", "reason", err.Error())
	}
}
