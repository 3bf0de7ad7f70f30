package registry

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/lru"
)

const (
	// selfRevocations is how many of their own tokens a user can revoke by themselves, at once and in an hour. Each
	// revocation is stored for as long as the token could live.
	selfRevocations = 240
	// pacedUsers is of how many users that is remembered: of those who have revoked last.
	pacedUsers = 4096
)

// pace counts revocations that take no right. Its zero value is ready for use.
type pace struct {
	mu    sync.Mutex
	users *lru.Cache
}

// allow is an error if the user has revoked too many.
func (p *pace) allow(user string, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users == nil {
		p.users = lru.New(pacedUsers)
	}
	limiter, ok := p.users.Get(user)
	if !ok {
		limiter = rate.NewLimiter(selfRevocations/rate.Limit(time.Hour.Seconds()), selfRevocations)
		p.users.Add(user, limiter)
	}
	if limiter.(*rate.Limiter).AllowN(now, 1) {
		return nil
	}
	wait := int(time.Hour.Seconds()) / selfRevocations
	return apierrors.NewTooManyRequests(fmt.Sprintf("tokens of user %q have revoked themselves more than %d times: try again in %d s, or let a user who may create tokenrevocations revoke all of them by spec.userNames", user, selfRevocations, wait), wait)
}
