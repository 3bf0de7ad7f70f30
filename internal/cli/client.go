package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// client is what the commands that ask a server have in common: kubectl's own flags for whom and where to ask.
type client struct {
	config *genericclioptions.ConfigFlags
	output string
	// outputs are the values that output can have.
	outputs []string
}

func newClient() *client {
	return &client{config: genericclioptions.NewConfigFlags(true), output: "table", outputs: []string{"table", "json", "yaml"}}
}

func (c *client) addFlags(fs *pflag.FlagSet) {
	c.config.AddFlags(fs)
	fs.StringVarP(&c.output, "output", "o", c.output, "Output: "+c.choice()+".")
}

func (c *client) validate() error {
	if slices.Contains(c.outputs, c.output) {
		return nil
	}
	return fmt.Errorf("-o %s: want %s", c.output, c.choice())
}

func (c *client) choice() string {
	last := len(c.outputs) - 1
	return strings.Join(c.outputs[:last], ", ") + " or " + c.outputs[last]
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
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	answer, err := rc.Post().AbsPath(path).SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").Body(body).DoRaw(ctx)
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
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.GroupVersion = &schema.GroupVersion{}
	return rest.UnversionedRESTClientFor(config)
}

// decodeStatus prefers the server's own words.
func decodeStatus(answer []byte, err error) error {
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

// target is a resource as the user names it, resolved by what the server serves.
type target struct {
	resource    schema.GroupVersionResource
	subresource string
	name        string
	namespaced  bool
}

// parseTarget reads RESOURCE[.GROUP][/SUBRESOURCE] or RESOURCE NAME, with kubectl's short names.
func (c *client) parseTarget(args []string) (target, error) {
	var t target
	resource, subresource, _ := strings.Cut(args[0], "/")
	t.subresource = subresource
	if len(args) > 1 {
		t.name = args[1]
	}
	mapper, err := c.config.ToRESTMapper()
	if err != nil {
		return t, err
	}
	gvr, gr := schema.ParseResourceArg(strings.ToLower(resource))
	if gvr == nil {
		gvr = &schema.GroupVersionResource{Group: gr.Group, Resource: gr.Resource}
	}
	if t.resource, err = mapper.ResourceFor(*gvr); err != nil {
		if t.resource, err = mapper.ResourceFor(gr.WithVersion("")); meta.IsNoMatchError(err) {
			return t, fmt.Errorf("the server does not serve %q: see `kubectl api-resources`", resource)
		} else if err != nil {
			return t, err
		}
	}
	kind, err := mapper.KindFor(t.resource)
	if err != nil {
		return t, err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return t, err
	}
	t.namespaced = mapping.Scope.Name() == "namespace"
	return t, nil
}

// qualified is the resource as our reviews take it: pods, deployments.apps, pods/exec.
func (t target) qualified() string {
	name := t.resource.GroupResource().String()
	if t.subresource != "" {
		name += "/" + t.subresource
	}
	return name
}

// print writes an answer as JSON or YAML; a table is the command's own.
func (c *client) print(out io.Writer, answer any) error {
	data, err := json.MarshalIndent(answer, "", "  ")
	if err != nil {
		return err
	}
	if c.output == "yaml" {
		if data, err = yaml.JSONToYAML(data); err != nil {
			return err
		}
		_, err = out.Write(data)
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", data)
	return err
}

// exitError ends the program with a code of its own and, if its message is empty, without a word.
type exitError struct {
	code    int
	message string
}

func (e exitError) Error() string { return e.message }

// ExitCode is how scripts see the failure.
func (e exitError) ExitCode() int { return e.code }
