package differ

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// asTheOther tells the refusals of the pair that come from its not telling updates from patches: the server, too,
// refuses what was written if it comes by the other verb.
func asTheOther(ctx context.Context, server End, r *Request) (kind string, err error) {
	path, _, _ := strings.Cut(r.Path, "?")
	other := &Request{User: r.User, Groups: r.Groups, Path: path + "?dryRun=All"}
	switch r.Verb {
	case "patch":
		// What the patch makes of the object is what an update would send.
		code, body, err := server.ask(ctx, &Request{Method: r.Method, Path: r.Path, ContentType: r.ContentType, Body: r.Body})
		if err != nil || code/100 != 2 {
			return "", err
		}
		other.Method, other.Body = http.MethodPut, string(body)
	case "update":
		var object struct {
			Metadata struct{ Labels json.RawMessage }
		}
		if err := json.Unmarshal([]byte(r.Body), &object); err != nil {
			return "", err
		}
		// Objects differ in their labels only.
		other.Method, other.ContentType = http.MethodPatch, asPatch
		other.Body = fmt.Sprintf(`[{"op":"replace","path":"/metadata/labels","value":%s}]`, object.Metadata.Labels)
	default:
		return "", nil
	}
	answer, err := server.send(ctx, other)
	if err != nil || answer.code != http.StatusForbidden {
		return "", err
	}
	return "updates are told from patches", nil
}
