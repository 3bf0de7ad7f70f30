package cli

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// client is common to the commands that ask a server: kubectl's own flags for the user and the server.
type client struct {
	output
	config *genericclioptions.ConfigFlags
	// errOut is where warnings go.
	errOut io.Writer
}

func newClient(errOut io.Writer) *client {
	return &client{config: genericclioptions.NewConfigFlags(true), errOut: errOut, output: output{format: "table", formats: []string{"table", "name", "json", "yaml"}}}
}

// addFlags gives a command the flags, with their completion.
func (c *client) addFlags(cmd *cobra.Command) {
	c.config.AddFlags(cmd.Flags())
	c.addFlag(cmd)
	_ = cmd.RegisterFlagCompletionFunc("namespace", c.completeNamespaces)
}

// namespace is the one that kubectl would use.
func (c *client) namespace() (string, error) {
	namespace, _, err := c.config.ToRawKubeConfigLoader().Namespace()
	return namespace, err
}

// post asks a review: the question goes out as JSON and the answer comes back into it.
func (c *client) post(ctx context.Context, path string, question any) error {
	rc, err := c.connect()
	if err != nil {
		return err
	}
	return postTo(ctx, rc, path, question)
}

func postTo(ctx context.Context, rc *rest.RESTClient, path string, question any) error {
	return postWith(ctx, rc, path, nil, question)
}

func postWith(ctx context.Context, rc *rest.RESTClient, path string, query map[string]string, question any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	request := rc.Post().AbsPath(path).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body)
	for name, value := range query {
		request = request.Param(name, value)
	}
	answer, err := request.DoRaw(ctx)
	if err != nil {
		return decodeStatus(answer, err)
	}
	return json.Unmarshal(answer, question)
}

// get reads what is at a path into answer.
func (c *client) get(ctx context.Context, path string, query map[string]string, answer any) error {
	rc, err := c.connect()
	if err != nil {
		return err
	}
	return getFrom(ctx, rc, path, query, answer)
}

func getFrom(ctx context.Context, rc *rest.RESTClient, path string, query map[string]string, answer any) error {
	request := rc.Get().AbsPath(path).SetHeader("Accept", "application/json")
	for name, value := range query {
		request = request.Param(name, value)
	}
	data, err := request.DoRaw(ctx)
	if err != nil {
		return decodeStatus(data, err)
	}
	return json.Unmarshal(data, answer)
}

// connect makes a client for any path.
func (c *client) connect() (*rest.RESTClient, error) {
	config, err := c.config.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NewWarningWriter(c.errOut, rest.WarningWriterOptions{Deduplicate: true})
	return connectTo(config)
}

func connectTo(config *rest.Config) (*rest.RESTClient, error) {
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.GroupVersion = &schema.GroupVersion{}
	return rest.UnversionedRESTClientFor(config)
}

// decodeStatus prefers the server's own words.
func decodeStatus(answer []byte, err error) error {
	if err == nil {
		return nil
	}
	var status struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(answer, &status) == nil && status.Message != "" {
		return serverError{message: status.Message, cause: err}
	}
	return err
}

// serverError is an error in the server's words.
type serverError struct {
	message string
	cause   error
}

func (e serverError) Error() string { return e.message }

func (e serverError) Unwrap() error { return e.cause }
