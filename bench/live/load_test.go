package live

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	var seen [100]atomic.Int32
	if err := Times(t.Context(), 7, len(seen), func(_ context.Context, i int) error { seen[i].Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	for i := range seen {
		if n := seen[i].Load(); n != 1 {
			t.Errorf("request %d was made %d times", i, n)
		}
	}
	wrong := errors.New("wrong answer")
	var made atomic.Int32
	err := Times(t.Context(), 2, 1_000_000, func(_ context.Context, i int) error {
		made.Add(1)
		if i == 10 {
			return wrong
		}
		return nil
	})
	if !errors.Is(err, wrong) || made.Load() == 1_000_000 {
		t.Errorf("an error ends the load: %v after %d", err, made.Load())
	}
}

func TestDuring(t *testing.T) {
	load, err := During(t.Context(), 3, time.Second, func(context.Context, int) error { return nil })
	if err != nil || len(load.Each) == 0 || load.PerSecond <= 0 {
		t.Errorf("%d requests, %v per second: %v", len(load.Each), load.PerSecond, err)
	}
	if load.Quantile(0.5) > load.Quantile(0.99) {
		t.Errorf("the median %v is more than p99 %v", load.Quantile(0.5), load.Quantile(0.99))
	}
	four := Load{Each: []time.Duration{4, 1, 3, 2}}
	four.Sort()
	if four.Quantile(0.5) != 3 || four.Quantile(0.99) != 4 || (Load{}).Quantile(0.5) != 0 {
		t.Errorf("quantiles of %v", four.Each)
	}
}
