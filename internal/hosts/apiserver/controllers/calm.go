package controllers

import (
	"context"
	"time"

	rbacinformers "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/tools/cache"
)

// calm is how long a handler is left alone after it was called.
const calm = 100 * time.Millisecond

// calmRoles are cluster roles whose handlers hear of many changes at once as of one. Upstream's aggregation looks
// through all cluster roles whenever it hears of one, whichever that is: when a hundred thousand are read for the first
// time, that would be ten thousand million of them.
type calmRoles struct {
	rbacinformers.ClusterRoleInformer
	ctx context.Context
}

func (r calmRoles) Informer() cache.SharedIndexInformer {
	return calmInformer{r.ClusterRoleInformer.Informer(), r.ctx}
}

type calmInformer struct {
	cache.SharedIndexInformer
	ctx context.Context
}

// AddEventHandler adds a handler that does not look at the objects it gets.
func (i calmInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	changed := calmly(i.ctx, calm, func() { h.OnAdd(nil, false) })
	return i.SharedIndexInformer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { changed() },
		UpdateFunc: func(_, _ any) { changed() },
		DeleteFunc: func(any) { changed() },
	})
}

// calmly returns a function that asks for a call. The call comes at once or, if there was one just now, after a pause,
// and then stands for all that were asked for meanwhile. After each time that one is asked for, one begins, until the
// context ends.
func calmly(ctx context.Context, pause time.Duration, call func()) func() {
	wanted := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-wanted:
			case <-ctx.Done():
				return
			}
			call()
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		select {
		case wanted <- struct{}{}:
		default: // one is on its way that has not begun
		}
	}
}
