package authzwebhook

import (
	"encoding/json"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
)

const (
	// cachedAnswers is how many answers are kept; upstream keeps as many.
	cachedAnswers = 8192
	// maxCachedBytes bounds the questions and answers that are cached: the caller chooses the size of the question, the
	// webhook that of the answer. Larger ones are not cached.
	maxCachedBytes = 64 << 10
)

// answers keeps what the webhook said, conditions included, so a cached answer and a fresh one mean the same.
type answers struct {
	kept                  *cache.LRUExpireCache
	authorized, otherwise time.Duration
}

func newAnswers(authorized, otherwise time.Duration) *answers {
	return &answers{kept: cache.NewLRUExpireCache(cachedAnswers), authorized: authorized, otherwise: otherwise}
}

// keyOf is the whole question: user, groups, extra, attributes, selectors, and whether conditions are understood.
func keyOf(review *reviewv1.SubjectAccessReview) (string, error) {
	key, err := json.Marshal(&review.Spec)
	return string(key), err
}

func (a *answers) get(key string) (*reviewv1.SubjectAccessReviewStatus, bool) {
	if len(key) > maxCachedBytes {
		return nil, false
	}
	status, ok := a.kept.Get(key)
	if !ok {
		return nil, false
	}
	return status.(*reviewv1.SubjectAccessReviewStatus), true
}

// put caches an answer, which must not be changed afterwards.
func (a *answers) put(key string, status *reviewv1.SubjectAccessReviewStatus) {
	ttl := a.otherwise
	if status.Allowed {
		ttl = a.authorized
	}
	if ttl > 0 && len(key) <= maxCachedBytes && sizeOf(status) <= maxCachedBytes {
		a.kept.Add(key, status, ttl)
	}
}

func sizeOf(s *reviewv1.SubjectAccessReviewStatus) int {
	text, err := json.Marshal(s)
	if err != nil {
		return maxCachedBytes + 1
	}
	return len(text)
}
