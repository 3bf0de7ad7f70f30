package snapshot

import (
	"testing"

	"proviso.dev/proviso/internal/engine/expr"
)

// SV-8: what does not compile is found without a request, and reported once.
func TestWarmer(t *testing.T) {
	cel, err := expr.New(expr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	cache := expr.NewCache(cel)
	w := NewWarmer(cache)
	reports := make(chan bool, 10)
	w.OnBroken(func() { reports <- true })
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(stop) }()
	good := cache.Stored("object.a == 1", expr.When, "")
	cache.Stored("object.a ==", expr.When, "")
	w.Wake()
	<-reports
	if _, known := good.Known(); !known {
		t.Error("not compiled")
	}
	cache.Stored("object.a ==", expr.Where, "") // the same text, and nothing new about it
	w.Wake()
	cache.Stored("object.b ==", expr.When, "")
	w.Wake()
	<-reports
	close(stop)
	<-ended
	if len(reports) > 0 {
		t.Error("reported more than once")
	}
}
