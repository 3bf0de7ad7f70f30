package expr

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// PO-21: a text is compiled once, whoever needs it and however often, and not before.
func TestCacheCompilesOnce(t *testing.T) {
	cache := NewCache(compiler(t))
	a := cache.Stored("object.a == 1", When, "")
	if _, known := a.Known(); known {
		t.Error("compiled before anybody needed it")
	}
	var wg sync.WaitGroup
	programs := make([]*Program, 8)
	for i := range programs {
		wg.Go(func() { programs[i], _ = cache.Stored("object.a == 1", When, "").Program() })
	}
	wg.Wait()
	for _, p := range programs {
		if p == nil || p != programs[0] {
			t.Fatal("compiled more than once")
		}
	}
	for _, other := range []*Deferred{cache.Stored("object.a == 1", When, "v1"), cache.Stored("object.a == 2", When, "")} {
		if p, _ := other.Program(); p == programs[0] {
			t.Error("another expression has the same program")
		}
	}
	bad := cache.Stored("object.a ==", When, "")
	_, issues := bad.Program()
	if known, ok := bad.Known(); !ok || len(known) == 0 || len(issues) == 0 {
		t.Error("what is wrong is forgotten")
	}
}

// The cache is bounded, in entries and in bytes; what it forgets keeps working.
func TestCacheIsBounded(t *testing.T) {
	cache := NewCache(compiler(t))
	first := cache.Stored("true", When, "")
	for i := range maxCached + 10 {
		cache.Stored(fmt.Sprintf("object.a == %d", i), When, "")
	}
	if n := cache.recent.Len(); n != maxCached || n != len(cache.entries) {
		t.Errorf("%d entries, %d in the map", n, len(cache.entries))
	}
	if p, _ := first.Program(); p == nil || cache.Stored("true", When, "") == first {
		t.Error("what was forgotten does not compile, or was not forgotten")
	}
	long := strings.Repeat(" ", MaxLength)
	for i := range 2 * maxCachedBytes / MaxLength {
		cache.Stored(fmt.Sprint(long, i), When, "")
	}
	if cache.bytes > maxCachedBytes {
		t.Errorf("%d bytes", cache.bytes)
	}
}
