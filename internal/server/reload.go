package server

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	genericapiserver "k8s.io/apiserver/pkg/server"
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
	kit            *authorizerKit
	serverID, file string
	start          *authzPlan

	mu   sync.Mutex
	plan *authzPlan // in force
	read []byte     // last seen, understood or not
}

// reload follows the file of the chain, if it has one, once the server runs.
func reload(kit *authorizerKit, plan *authzPlan, generic *genericapiserver.Config) error {
	if plan.file == "" {
		return nil
	}
	r := &reloader{kit: kit, serverID: generic.APIServerID, file: plan.file, start: plan, plan: plan, read: plan.data}
	return generic.AddPostStartHook("proviso-authorization-config", func(ctx genericapiserver.PostStartHookContext) error {
		go r.run(ctx)
		return nil
	})
}

func (r *reloader) run(ctx context.Context) {
	metrics.RegisterMetrics()
	metrics.RecordAuthorizationConfigLastConfigInfo(r.serverID, string(r.start.data))
	filesystem.WatchUntil(ctx, reloadInterval, r.file, r.check, func(err error) {
		klog.ErrorS(err, "Watching the authorization configuration", "file", r.file)
	})
}

// check reads the file and, if it says something new, puts that in force.
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
		if warning := r.plan.deniesVoided(); warning != "" {
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
	next, err := parseAuthzFile(data, r.kit.lineup)
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
	if err := r.kit.install(next); err != nil {
		return false, err
	}
	r.plan = next
	return true, nil
}

// sameTypes lets a reload change webhooks and the order of authorizers. All other types stay what they were at start:
// taking one away could lock everybody out, and one that is new would need informers that do not run.
func sameTypes(before, after *authzPlan) error {
	types := func(p *authzPlan) sets.Set[string] {
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
