package authzwebhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	kjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/rest"

	reviewv1 "proviso.dev/proviso/api/authorizationreview/v1"
	reviewv1alpha1 "proviso.dev/proviso/api/authorizationreview/v1alpha1"
	"proviso.dev/proviso/internal/request/authorize"
)

// readReview reads the answer to a SubjectAccessReview. Without conditions, unknown keys are ignored, as upstream does
// (CA-20). With conditions, unknown keys are an error: a later version may have keys that narrow a condition, and
// without them it would allow more than the webhook meant.
func (c *client) readReview(body []byte) (*reviewv1.SubjectAccessReview, error) {
	body = seedSpelling(body)
	answer := &reviewv1.SubjectAccessReview{}
	unknown, err := c.read(body, answer, "status")
	switch {
	case err != nil && saysConditions(body):
		return nil, &authorize.SetError{Err: err}
	case err != nil:
		return nil, err
	case unknown != nil && saysConditions(body):
		return nil, &authorize.SetError{Err: unknown}
	}
	return answer, nil
}

// readConditionsReview reads the answer to an AuthorizationConditionsReview, whose response must not hold anything
// unknown.
func (c *client) readConditionsReview(body []byte) (*reviewv1alpha1.AuthorizationConditionsReview, error) {
	answer := &reviewv1alpha1.AuthorizationConditionsReview{}
	unknown, err := c.read(body, answer, "response")
	if err == nil {
		err = unknown
	}
	return answer, err
}

// read decodes an answer. unknown reports the keys below the given member that have no meaning here, including
// duplicate keys.
func (c *client) read(body []byte, into runtime.Object, member string) (unknown, err error) {
	strict := kjson.NewSerializerWithOptions(kjson.DefaultMetaFactory, c.scheme, c.scheme, kjson.SerializerOptions{Strict: true})
	_, _, err = strict.Decode(body, nil, into)
	complaint, isStrict := runtime.AsStrictDecodingError(err)
	if !isStrict {
		return nil, err
	}
	for _, e := range complaint.Errors() {
		if strings.Contains(e.Error(), `field "`+member) {
			return fmt.Errorf("the answer cannot be read: %s", shorten(e.Error())), nil
		}
	}
	return nil, nil
}

// saysConditions reports whether an answer has conditions, even ones that cannot be read or whose dialect is unknown.
func saysConditions(body []byte) bool {
	var answer struct {
		Status conditional `json:"status"`
	}
	_ = json.Unmarshal(body, &answer) // what can be told is told
	return bool(answer.Status)
}

// conditional reports whether a status has conditions. Every occurrence of a key counts: of duplicate keys the decoder
// keeps the last, and an empty one would hide the conditions before it.
type conditional bool

// UnmarshalJSON implements json.Unmarshaler.
func (c *conditional) UnmarshalJSON(status []byte) error {
	d := json.NewDecoder(bytes.NewReader(status))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var said json.RawMessage
		if err := d.Decode(&said); err != nil {
			return err
		}
		if name, _ := key.(string); strings.HasPrefix(strings.ToLower(name), "condition") && string(said) != "null" && string(said) != "[]" {
			*c = true
		}
	}
	return nil
}

// seedSpelling reads conditionsSet, as an example of the design spells the conditions of a set, as conditions.
func seedSpelling(body []byte) []byte {
	if !bytes.Contains(body, []byte(`"conditionsSet"`)) {
		return body
	}
	var answer, status map[string]json.RawMessage
	var chain []map[string]json.RawMessage
	if json.Unmarshal(body, &answer) != nil || json.Unmarshal(answer["status"], &status) != nil || json.Unmarshal(status["conditionsChain"], &chain) != nil {
		return body
	}
	for _, set := range chain {
		if _, both := set["conditions"]; both || set["conditionsSet"] == nil {
			return body
		}
		set["conditions"] = set["conditionsSet"]
		delete(set, "conditionsSet")
	}
	var err error
	if status["conditionsChain"], err = json.Marshal(chain); err != nil {
		return body
	}
	if answer["status"], err = json.Marshal(status); err != nil {
		return body
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return body
	}
	return text
}

// Unconditional is for webhooks whose version of the review cannot express conditions. If one answers conditions
// nevertheless, the call fails: ignoring a condition that denies would fail open (CA-17).
func Unconditional(config *rest.Config) *rest.Config {
	config = Direct(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return unconditional{next} })
	return config
}

type unconditional struct{ next http.RoundTripper }

func (u unconditional) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := u.next.RoundTrip(r)
	if err != nil || response.Body == nil {
		return response, err
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	_ = response.Body.Close()
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxResponse:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxResponse)
	case saysConditions(body):
		return nil, &authorize.SetError{Err: fmt.Errorf("the webhook answered with conditions, which its version of SubjectAccessReview cannot say; use v1")}
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (u unconditional) WrappedRoundTripper() http.RoundTripper { return u.next }
