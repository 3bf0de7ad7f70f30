package live

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Client sends JSON to one server as one user, with as little work of its own as possible: it shares the processors
// with what it measures.
type Client struct {
	url    string
	http   *http.Client
	bearer string
}

// newClient has a connection for each worker, or a single one for all that it sends.
func newClient(kubeconfig []byte, single bool) (*Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	if config.NextProtos = []string{"http/1.1"}; single {
		config.NextProtos = []string{"h2"}
	}
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{url: config.Host, http: &http.Client{Transport: transportOf(tls, single)}}, nil
}

func transportOf(tls *tls.Config, single bool) *http.Transport {
	return &http.Transport{TLSClientConfig: tls, MaxIdleConnsPerHost: 256, DisableCompression: true, ForceAttemptHTTP2: single}
}

// Bearing is a client with connections of its own that has a token, and no certificate.
func (c *Client) Bearing(token string) (*Client, error) {
	transport, ok := c.http.Transport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("a %T has no certificate to leave out", c.http.Transport)
	}
	anonymous := transport.TLSClientConfig.Clone()
	anonymous.Certificates, anonymous.GetClientCertificate = nil, nil
	return &Client{url: c.url, http: &http.Client{Transport: transportOf(anonymous, false)}, bearer: token}, nil
}

// Watch hands over what a watch says, line by line, until the context ends. A watch that ends before is an error. It
// calls open once the server has answered.
func (c *Client) Watch(ctx context.Context, path string, open func(), line func([]byte) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+path, nil)
	if err != nil {
		return err
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("watch %s: %s", path, answer.Status)
	}
	open()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if err := line(lines.Bytes()); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch %s ended: %v", path, lines.Err())
}

// Do returns the status and the body of the answer.
func (c *Client) Do(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.bearer != "" {
		req.Header.Set("Authorization", "Bearer "+c.bearer)
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// Must sends a request and turns every answer but a success into an error.
func (c *Client) Must(ctx context.Context, method, path string, body []byte) error {
	status, text, err := c.Do(ctx, method, path, body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("%s %s: status %d: %s", method, path, status, text)
	}
	return err
}

// Create posts an object.
func (c *Client) Create(ctx context.Context, path string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return c.Must(ctx, http.MethodPost, path, body)
}
