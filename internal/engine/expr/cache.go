package expr

import (
	"container/list"
	"sync"
	"sync/atomic"
)

// Limits of a cache.
const (
	maxCached      = 8192
	maxCachedBytes = 8 << 20 // of source
)

// Cache keeps compiled expressions by their text, as many as fit: the same condition in a thousand namespaces is
// compiled once. It is safe for concurrent use.
type Cache struct {
	compiler *Compiler

	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	recent  *list.List // of *Deferred, the latest first
	bytes   int
}

type cacheKey struct {
	kind       Kind
	apiVersion string
	source     string
}

// NewCache returns an empty cache.
func NewCache(c *Compiler) *Cache {
	return &Cache{compiler: c, entries: map[cacheKey]*list.Element{}, recent: list.New()}
}

// Compiler returns the compiler of the cache.
func (c *Cache) Compiler() *Compiler { return c.compiler }

// Stored returns the program of a stored expression, which is compiled when a request needs it. It returns at once,
// however long compiling takes.
func (c *Cache) Stored(source string, kind Kind, apiVersion string) *Deferred {
	key := cacheKey{kind, apiVersion, source}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.entries[key]; ok {
		c.recent.MoveToFront(e)
		return entryOf(e)
	}
	d := &Deferred{compiler: c.compiler, key: key}
	c.entries[key] = c.recent.PushFront(d)
	c.bytes += len(source)
	for c.recent.Len() > maxCached || c.bytes > maxCachedBytes && c.recent.Len() > 1 {
		last := c.recent.Back()
		old := entryOf(last)
		c.recent.Remove(last)
		delete(c.entries, old.key)
		c.bytes -= len(old.key.source)
	}
	return d
}

// Broken returns what is known to be wrong with a stored expression; empty if it is fine, or was not compiled yet.
func (c *Cache) Broken(source string, kind Kind, apiVersion string) Issues {
	c.mu.Lock()
	e, ok := c.entries[cacheKey{kind, apiVersion, source}]
	c.mu.Unlock()
	if !ok {
		return nil
	}
	issues, _ := entryOf(e).Known()
	return issues
}

// All returns the stored expressions, compiled or not, the oldest first.
func (c *Cache) All() []*Deferred {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Deferred
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		out = append(out, entryOf(e))
	}
	return out
}

// Pending returns the expressions that were not compiled yet, the oldest first.
func (c *Cache) Pending() []*Deferred {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*Deferred
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		if d := entryOf(e); d.done.Load() == nil {
			out = append(out, d)
		}
	}
	return out
}

func entryOf(e *list.Element) *Deferred {
	d, _ := e.Value.(*Deferred)
	return d
}

// Deferred is an expression that the first request that needs it compiles: publishing policy does not wait for it.
// Compiling takes bounded time and always has the same result.
type Deferred struct {
	compiler *Compiler
	key      cacheKey

	mu   sync.Mutex // held while it is compiled
	done atomic.Pointer[compiled]
}

type compiled struct {
	program *Program
	issues  Issues
}

// Program returns the program, or what is wrong with the expression.
func (d *Deferred) Program() (*Program, Issues) {
	if done := d.done.Load(); done != nil {
		return done.program, done.issues
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if done := d.done.Load(); done != nil {
		return done.program, done.issues
	}
	program, issues := d.compiler.Compile(d.key.source, Options{Kind: d.key.kind, APIVersion: d.key.apiVersion, Stored: true})
	d.done.Store(&compiled{program, issues})
	return program, issues
}

// Source returns the text of the expression.
func (d *Deferred) Source() string { return d.key.source }

// Known reports whether the expression has been compiled, and what is wrong with it. It
// never waits.
func (d *Deferred) Known() (Issues, bool) {
	done := d.done.Load()
	if done == nil {
		return nil, false
	}
	return done.issues, true
}
