package authzwebhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
)

// maxResponse limits the size of an answer. The largest well-formed set has about 1.5 MiB.
const maxResponse = 4 << 20

// client posts reviews of one version to one address.
type client struct {
	rest    rest.Interface
	scheme  *runtime.Scheme
	backoff wait.Backoff
}

func newReviewClient(config *rest.Config, backoff wait.Backoff) (*client, error) {
	return newClient(config, backoff, reviewv1.SchemeGroupVersion, reviewv1.AddToScheme)
}

func newConditionsClient(config *rest.Config, backoff wait.Backoff) (*client, error) {
	return newClient(config, backoff, reviewv1alpha1.SchemeGroupVersion, reviewv1alpha1.AddToScheme)
}

func newClient(config *rest.Config, backoff wait.Backoff, version schema.GroupVersion, addToScheme func(*runtime.Scheme) error) (*client, error) {
	scheme := runtime.NewScheme()
	if err := addToScheme(scheme); err != nil {
		return nil, err
	}
	config = Direct(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return limited{next} })
	generic, err := webhookutil.NewGenericWebhook(scheme, serializer.NewCodecFactory(scheme), config, []schema.GroupVersion{version}, backoff)
	if err != nil {
		return nil, err
	}
	return &client{rest: generic.RestClient, scheme: scheme, backoff: backoff}, nil
}

// attempt is one round-trip.
type attempt struct {
	result  string
	code    string
	latency time.Duration
}

// post sends a review and reads the answer. Like upstream, it retries after transient failures. Each attempt is
// reported and read from scratch: nothing of a failed answer may be left in the next.
func (c *client) post(ctx context.Context, review runtime.Object, read func(body []byte) error, report func(attempt)) error {
	return webhookutil.WithExponentialBackoff(ctx, c.backoff, func() error {
		start := time.Now()
		var code int
		response := c.rest.Post().Body(review).Do(ctx)
		response.StatusCode(&code)
		body, err := response.Raw()
		if err == nil {
			err = read(body)
		}
		a := attempt{result: resultOf(ctx, code, err), latency: time.Since(start)}
		switch {
		case code != 0:
			a.code = strconv.Itoa(code)
		case err != nil:
			a.code = "<error>"
		}
		report(a)
		return err
	}, webhookutil.DefaultShouldRetry)
}

// resultOf uses upstream's words.
func resultOf(ctx context.Context, code int, err error) string {
	switch {
	case err == nil:
		return "success"
	case ctx.Err() != nil:
		return "canceled"
	case utilnet.IsTimeout(err) || errors.Is(err, context.DeadlineExceeded) || apierrors.IsTimeout(err) || code == http.StatusGatewayTimeout:
		return "timeout"
	}
	return "error"
}

// review asks the webhook about a request.
func (w *Webhook) review(ctx context.Context, review *reviewv1.SubjectAccessReview) (*reviewv1.SubjectAccessReviewStatus, error) {
	var last attempt
	var answer *reviewv1.SubjectAccessReview
	read := func(body []byte) (err error) {
		answer, err = w.reviews.readReview(body)
		return err
	}
	err := w.reviews.post(ctx, review, read, func(a attempt) {
		last = a
		w.metrics.RecordWebhookEvaluation(ctx, w.name, a.result)
		w.metrics.RecordWebhookDuration(ctx, w.name, a.result, a.latency.Seconds())
		if a.code != "" {
			w.metrics.RecordRequestTotal(ctx, a.code)
			w.metrics.RecordRequestLatency(ctx, a.code, a.latency.Seconds())
		}
	})
	if err != nil {
		if w.failOpen && ctx.Err() == nil {
			w.metrics.RecordWebhookFailOpen(ctx, w.name, last.result)
		}
		return nil, fmt.Errorf("webhook authorizer %s: %w", w.name, err)
	}
	return &answer.Status, nil
}

// Direct refuses redirects: the configuration chooses who answers questions about access, not the server that is asked.
func Direct(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return direct{next} })
	return config
}

type direct struct{ next http.RoundTripper }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.next.RoundTrip(r)
	if err == nil && response.StatusCode >= 300 && response.StatusCode < 400 {
		_ = response.Body.Close()
		return nil, fmt.Errorf("the webhook answered %d %s, and redirects are not followed", response.StatusCode, http.StatusText(response.StatusCode))
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (d direct) WrappedRoundTripper() http.RoundTripper { return d.next }

// limited fails on a response that is too large instead of reading all of it.
type limited struct{ next http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil && response.Body != nil {
		response.Body = &limitedBody{ReadCloser: response.Body, left: maxResponse}
	}
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (l limited) WrappedRoundTripper() http.RoundTripper { return l.next }

type limitedBody struct {
	io.ReadCloser
	left int64
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxResponse)
	}
	return n, err
}
