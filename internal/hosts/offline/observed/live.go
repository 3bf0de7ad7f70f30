package observed

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	auditv1alpha1 "proviso.dev/proviso/api/auditregistration/v1alpha1"
)

// maxLine is the most that one audit event takes.
const maxLine = 8 << 20

// Live is what a server records from now on for some time, as an audit log: whole events only. It leaves nothing
// behind on the server.
func Live(ctx context.Context, config *rest.Config, last time.Duration) (io.ReadCloser, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, last)
	resp, err := askLive(ctx, client, base.JoinPath(auditv1alpha1.TailPath)) //nolint:bodyclose // closed when the stream ends, below
	if err == nil && resp.StatusCode == http.StatusNotFound {
		_ = resp.Body.Close()
		resp, err = askLive(ctx, client, base.JoinPath(auditv1alpha1.TailBesidePath)) //nolint:bodyclose // the same
	}
	if err != nil {
		cancel()
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		_ = resp.Body.Close()
		cancel()
		return nil, fmt.Errorf("the server does not show its requests: %s: %s; see 'proviso audit tail --help' for the rights that it takes", resp.Status, strings.TrimSpace(string(text)))
	}
	reader, writer := io.Pipe()
	go func() {
		defer cancel()
		defer func() { _ = resp.Body.Close() }()
		writer.CloseWithError(wholeLines(ctx, resp.Body, writer))
	}()
	return reader, nil
}

func askLive(ctx context.Context, client *http.Client, u *url.URL) (*http.Response, error) {
	u.RawQuery = url.Values{"level": {"Metadata"}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// wholeLines copies lines until the time is over, which is not an error. A line that was cut off by that is left out.
func wholeLines(ctx context.Context, from io.Reader, to io.Writer) error {
	lines := bufio.NewReaderSize(from, 1<<16)
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < maxLine:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("an audit event has more than %d bytes", maxLine)
		case err != nil:
			return unlessOver(ctx, err)
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
		line = line[:0]
	}
}

// unlessOver takes the end for no error: the time is over, or the server ends.
func unlessOver(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
