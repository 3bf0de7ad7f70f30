package live

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is what some workers did in a while.
type Load struct {
	// Each is how long the requests took, the quickest first.
	Each []time.Duration
	// PerSecond is how many there were.
	PerSecond float64
}

// Sort puts the quickest first.
func (l *Load) Sort() { slices.Sort(l.Each) }

// Quantile is how long that part of the requests took at most.
func (l Load) Quantile(q float64) time.Duration {
	if len(l.Each) == 0 {
		return 0
	}
	return l.Each[min(len(l.Each)-1, int(q*float64(len(l.Each))))]
}

// During lets workers repeat a request, each waiting for its answer, until the time is over. The first error ends it.
func During(ctx context.Context, workers int, long time.Duration, request func(ctx context.Context, worker int) error) (Load, error) {
	began := time.Now()
	each, err := repeat(ctx, workers, func(int64) bool { return time.Since(began) < long }, func(ctx context.Context, worker int, _ int64) error {
		return request(ctx, worker)
	})
	return Load{Each: each, PerSecond: float64(len(each)) / time.Since(began).Seconds()}, err
}

// Shared lets workers share n requests.
func Shared(ctx context.Context, workers, n int, request func(ctx context.Context, i int) error) (Load, error) {
	began := time.Now()
	each, err := repeat(ctx, workers, func(i int64) bool { return i < int64(n) }, func(ctx context.Context, _ int, i int64) error {
		return request(ctx, int(i))
	})
	return Load{Each: each, PerSecond: float64(len(each)) / time.Since(began).Seconds()}, err
}

// Times is Shared for requests that are not measured.
func Times(ctx context.Context, workers, n int, request func(ctx context.Context, i int) error) error {
	_, err := Shared(ctx, workers, n, request)
	return err
}

func repeat(ctx context.Context, workers int, again func(int64) bool, request func(context.Context, int, int64) error) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	each := make([][]time.Duration, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := next.Add(1) - 1; again(i) && ctx.Err() == nil; i = next.Add(1) - 1 {
				began := time.Now()
				if err := request(ctx, w, i); err != nil {
					cancel(err)
					return
				}
				each[w] = append(each[w], time.Since(began))
			}
		})
	}
	all.Wait()
	together := slices.Concat(each...)
	slices.Sort(together)
	return together, context.Cause(ctx)
}
