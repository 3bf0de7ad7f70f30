package sink

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"proviso.dev/proviso/api/auditregistration/v1alpha1"
	"proviso.dev/proviso/internal/engine/auditrule"
)

// Router is the audit backend of the server: it gives each event to every sink that wants it, at the level that the
// sink wants, and to the static backend. The set of sinks changes while it runs.
type Router struct {
	cfg    Config
	routes atomic.Pointer[routes]

	mu       sync.Mutex // over changes of what follows; never held while a request is served
	sinks    map[types.UID]*sink
	current  configuration
	tails    []*Tail
	tailSeq  int
	running  bool // Run was called, Shutdown was not
	ended    bool // Shutdown was called
	lockFile *os.File
	retry    *time.Timer
	ending   *time.Timer // looks whether a sink has ended
	phases   []phase     // of the sinks of current, when they were applied

	told told
}

// routes are the immutable data by which an event is routed.
type routes struct {
	index *auditrule.Index
	// receivers has the receiver of each sink of the index; nil for one that is inactive.
	receivers []receiver
	// statuses and generations are those of the first entries of the index, which are the sinks.
	statuses    []*sink
	generations []int64
	// ends is when each of these ends; zero if it does not.
	ends []time.Time
	// views are what receivers get to see of events, and viewOf the place of each receiver's among them.
	views  []View
	viewOf []int
	// scopes are those of sinks that belong to a namespace; nil for all others.
	scopes []*Scope
}

// receiver takes the events of a sink or of a subscription. It neither blocks nor keeps text.
type receiver interface {
	receive(event *encoded, now time.Time)
}

// configuration is what Update was called with.
type configuration struct {
	sinks   []*v1alpha1.AuditSink
	classes []*v1alpha1.AuditClass
	// scopes are those of the sinks that belong to a namespace.
	scopes map[types.UID]*Scope
	// known is false for a configuration saved by an earlier process: it decides what is spooled until the first
	// Update, so a restart has no gap, but nothing is sent on its authority.
	known bool
}

// sink is one AuditSink at run time.
type sink struct {
	name     string
	spool    *spool
	delivery *delivery
	stop     func() // ends the delivery at once
	started  bool
	target   *target
}

// New returns a router that routes by what an earlier process has remembered below the directory, until Update says
// what is in force.
func New(cfg Config) (*Router, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit spool: %w", err)
	}
	r := &Router{cfg: cfg, sinks: map[types.UID]*sink{}}
	if err := r.lock(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = r.recall()
	r.apply()
	return r, nil
}

// Evaluator returns the policy evaluator that belongs to the router: the union of all sinks and the static policy.
func (r *Router) Evaluator() *auditrule.Evaluator {
	e := &auditrule.Evaluator{Index: func() *auditrule.Index { return r.routes.Load().index }}
	if r.cfg.Static != nil {
		e.Static = r.cfg.Static.Evaluator
	}
	return e
}

// Update is UpdateAll of sinks of the cluster.
func (r *Router) Update(sinks []*v1alpha1.AuditSink, classes []*v1alpha1.AuditClass) {
	r.UpdateAll(Whole(sinks), classes)
}

// UpdateAll puts the complete set of sinks and classes in force. When it returns, they apply to all further requests.
// The objects must not be changed afterwards. Sinks that are not among them any more lose their spools.
func (r *Router) UpdateAll(objects []Object, classes []*v1alpha1.AuditClass) {
	sinks, scopes := scoped(objects)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.current = configuration{sinks: sinks, classes: classes, scopes: scopes, known: true}
	gone := r.apply()
	for _, s := range gone {
		s.remove()
	}
	r.removeOrphans()
	r.remember()
}

// apply compiles the current configuration and puts it in force. It returns the sinks that are not part of it any more.
func (r *Router) apply() (gone []*sink) {
	next := &routes{}
	var sources []auditrule.Source
	keep := map[types.UID]*sink{}
	troubled := false
	r.phases = r.phases[:0]
	for _, obj := range r.current.sinks {
		source := auditrule.SourceOf(obj)
		now := r.phaseOf(obj)
		source.Ended = now == ended
		scope := r.current.scopes[key(obj)]
		if scope != nil {
			source.Namespace = scope.Namespace
		}
		r.phases = append(r.phases, now)
		s, err := r.prepare(obj, now)
		if err != nil {
			source.Invalid = plainText(err.Error())
			troubled = troubled || s == nil
		}
		if scope != nil && scope.Gone {
			source.Invalid = goneText
		}
		if s == nil {
			s = &sink{name: obj.Name} // for its status
		} else {
			keep[key(obj)] = s
		}
		sources = append(sources, source)
		next.receivers = append(next.receivers, s)
		next.statuses = append(next.statuses, s)
		next.generations = append(next.generations, obj.Generation)
		next.ends = append(next.ends, endOf(obj))
		next.viewOf = append(next.viewOf, next.viewNumber(viewOf(obj)))
		next.scopes = append(next.scopes, scope)
	}
	for _, t := range r.tails {
		sources = append(sources, t.source)
		next.receivers = append(next.receivers, t)
		next.viewOf = append(next.viewOf, next.viewNumber(View{}))
		next.scopes = append(next.scopes, nil)
	}
	next.index = auditrule.Compile(sources, r.current.classes)
	for i, s := range next.index.Sinks() {
		if !s.Active {
			next.receivers[i] = nil
		}
	}
	r.routes.Store(next)
	for uid, s := range r.sinks {
		if keep[uid] == nil {
			gone = append(gone, s)
		}
	}
	r.sinks = keep
	r.start()
	r.retryIf(troubled)
	r.awaitEnds()
	return gone
}

// prepare returns the sink for the object, with its spool open and its target as the object wants it. An error without
// a sink is one of the spool and may pass; one with a sink is the webhook's.
func (r *Router) prepare(obj *v1alpha1.AuditSink, now phase) (*sink, error) {
	s := r.sinks[key(obj)]
	if s == nil {
		spool := r.cfg.spool(filepath.Join(r.cfg.Dir, spoolName(key(obj))))
		if r.current.scopes[key(obj)] != nil {
			spool.maxBytes = max(spool.maxBytes/spoolPart, segmentsPerSpool*minSegmentBytes)
			spool.segmentBytes = max(spool.segmentBytes/spoolPart, minSegmentBytes)
		}
		opened, err := openSpool(spool)
		if err != nil {
			klog.ErrorS(err, "Audit sink stays inactive, its spool cannot be opened", "sink", obj.Name)
			return nil, fmt.Errorf("spool cannot be opened: %w", err)
		}
		s = &sink{name: obj.Name, spool: opened, delivery: newDelivery(&r.cfg, obj.Name, opened)}
	}
	webhook := obj.Spec.Webhook
	if webhook == nil || !r.current.known || now == doubtful {
		s.aim(nil)
		if webhook != nil && r.current.known {
			s.delivery.failed(doubtfulText)
		}
		return s, nil
	}
	s.delivery.certain()
	if s.target != nil && reflect.DeepEqual(s.target.webhook, webhook) {
		return s, nil
	}
	t, err := newTarget(r.cfg.targets(), webhook, r.current.scopes[key(obj)])
	s.aim(t)
	return s, err
}

func (s *sink) aim(t *target) {
	if t != nil || s.target != nil {
		s.target = t
		s.delivery.aim(t)
	}
}

// retryIf tries again after a while if a spool could not be opened.
func (r *Router) retryIf(troubled bool) {
	if r.retry != nil {
		r.retry.Stop()
		r.retry = nil
	}
	if troubled {
		r.retry = time.AfterFunc(10*time.Second, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.running {
				r.apply()
			}
		})
	}
}

func (s *sink) remove() {
	s.end()
	if err := s.spool.remove(); err != nil {
		klog.ErrorS(err, "Spool of a deleted audit sink cannot be removed", "sink", s.name)
	}
}

// end stops the delivery at once and waits for it; a sink that hangs does not hold it up.
func (s *sink) end() {
	if s.started {
		s.stop()
		<-s.delivery.done
	}
	s.aim(nil)
}

// key tells sinks apart. One without a UID, which does not come from an API server, goes by its name.
func key(obj *v1alpha1.AuditSink) types.UID {
	if obj.UID != "" {
		return obj.UID
	}
	return types.UID("name-" + obj.Name)
}

// spoolName returns the directory of a sink. A UID that is not plain text, which no API server gives, must not lead
// elsewhere.
func spoolName(uid types.UID) string {
	plain := strings.Map(func(c rune) rune {
		if c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return -1
	}, string(uid))
	if plain != string(uid) || plain == "" || len(plain) > 64 {
		return fmt.Sprintf("%s%08x", spoolPrefix, checksum([]byte(uid)))
	}
	return spoolPrefix + plain
}

const spoolPrefix = "sink-"

// removeOrphans removes the spools of sinks that were deleted while no server was running.
func (r *Router) removeOrphans() {
	entries, err := os.ReadDir(r.cfg.Dir)
	if err != nil {
		klog.ErrorS(err, "Spools of deleted audit sinks cannot be looked for")
		return
	}
	wanted := map[string]bool{}
	for _, obj := range r.current.sinks {
		wanted[spoolName(key(obj))] = true
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), spoolPrefix) || wanted[e.Name()] {
			continue
		}
		if err := os.RemoveAll(filepath.Join(r.cfg.Dir, e.Name())); err != nil {
			klog.ErrorS(err, "Spool of a deleted audit sink cannot be removed", "spool", e.Name())
		}
	}
}
