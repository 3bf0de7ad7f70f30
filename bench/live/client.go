package live

import (
	"bytes"
	"context"
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
	url  string
	http *http.Client
}

func newClient(kubeconfig []byte) (*Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	config.NextProtos = []string{"http/1.1"} // a connection for each worker
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	return &Client{url: config.Host, http: &http.Client{Transport: &http.Transport{TLSClientConfig: tls, MaxIdleConnsPerHost: 256, DisableCompression: true}}}, nil
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
