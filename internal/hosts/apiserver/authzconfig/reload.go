package authzconfig

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"
)

// reloadInterval is how often --authorization-config is read even if no change of it was noticed, as upstream does.
const reloadInterval = time.Minute

// reloader replaces the authorizer chain when its file changes. A file that is wrong changes nothing: the chain that
// was last understood stays in force, which is said in the log and in upstream's metrics.
type reloader struct {
	kit            *Authorizers
	serverID, file string
	start          *Plan

	mu   sync.Mutex
	plan *Plan  // in force
	read []byte // last seen, understood or not
}

// Follow replaces the chain whenever the file of the plan changes, until the context ends.
func (k *Authorizers) Follow(ctx context.Context, plan *Plan, serverID string) {
	(&reloader{kit: k, serverID: serverID, file: plan.file, start: plan, plan: plan, read: plan.data}).run(ctx)
}

func (r *reloader) run(ctx context.Context) {
	metrics.RegisterMetrics()
	metrics.RecordAuthorizationConfigLastConfigInfo(r.serverID, string(r.start.data))
	filesystem.WatchUntil(ctx, reloadInterval, r.file, r.check, func(err error) {
		klog.ErrorS(err, "Watching the authorization configuration", "file", r.file)
	})
}

// check reads the file and, if it has changed, applies it.
func (r *reloader) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, err := r.apply()
	switch {
	case err != nil:
		metrics.RecordAuthorizationConfigAutomaticReloadFailure(r.serverID)
		klog.ErrorS(err, "Reloading the authorization configuration, the former one stays in force", "file", r.file)
	case changed:
		metrics.RecordAuthorizationConfigAutomaticReloadSuccess(r.serverID, string(r.plan.data))
		klog.InfoS("Reloaded the authorization configuration", "file", r.file)
		if warning := r.plan.DeniesVoided(); warning != "" {
			klog.Warning(warning)
		}
	}
}

func (r *reloader) apply() (changed bool, err error) {
	data, err := os.ReadFile(r.file)
	if err != nil {
		return false, err
	}
	if bytes.Equal(data, r.read) {
		return false, nil
	}
	r.read = data
	next, err := parseFile(data, r.kit.Lineup)
	if err != nil {
		return false, err
	}
	next.file = r.file
	if reflect.DeepEqual(next.authorizers, r.plan.authorizers) && reflect.DeepEqual(next.conditionsContext, r.plan.conditionsContext) {
		r.plan = next
		return false, nil
	}
	if err := sameTypes(r.start, next); err != nil {
		return false, err
	}
	if err := r.kit.Install(next); err != nil {
		return false, err
	}
	r.plan = next
	return true, nil
}

// sameTypes lets a reload change webhooks and the order of authorizers. All other types stay as they were at the start:
// removing one could lock all users out, and a new one would need informers that do not run.
func sameTypes(before, after *Plan) error {
	types := func(p *Plan) sets.Set[string] {
		all := sets.New[string]()
		for _, a := range p.authorizers {
			all.Insert(string(a.Type))
		}
		return all.Delete(modes.ModeWebhook)
	}
	was, is := types(before), types(after)
	if missing := was.Difference(is); missing.Len() > 0 {
		return fmt.Errorf("authorizer types %v are missing: a reload must keep them, restart the server to remove them", sets.List(missing))
	}
	if added := is.Difference(was).Delete(modes.ModeAlwaysAllow, modes.ModeAlwaysDeny); added.Len() > 0 {
		return fmt.Errorf("authorizer types %v were not enabled at start: restart the server to add them", sets.List(added))
	}
	return nil
}
