package feature

import (
	"context"
	"time"

	"k8s.io/klog/v2"
)

// Repeat does something now and then until the server stops. What fails is logged, as a sentence, and tried again.
func Repeat(ctx context.Context, every time.Duration, failed string, do func(context.Context) error) {
	again := time.NewTicker(every)
	defer again.Stop()
	for {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			klog.V(2).InfoS(failed+"; the server tries again", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}
