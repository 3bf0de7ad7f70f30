package registry

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"
)

// blamed gives server-side apply of something that does not fit the schema the code it deserves. The generic handlers
// answer 500 to it, as if it were the server's fault.
type blamed struct {
	rest.UpdatedObjectInfo
}

// UpdatedObject returns what the caller makes of the old object.
func (b blamed) UpdatedObject(ctx context.Context, old runtime.Object) (runtime.Object, error) {
	obj, err := b.UpdatedObjectInfo.UpdatedObject(ctx, old)
	if err == nil {
		return obj, nil
	}
	if _, ok := err.(apierrors.APIStatus); !ok && callersFault(err) { // a wrapped status is not the answer itself
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return nil, err
}

// callersFault knows the errors of the field manager about what it was given. Any other stays the server's.
func callersFault(err error) bool {
	return strings.HasPrefix(err.Error(), "failed to create typed patch object") ||
		strings.HasPrefix(err.Error(), "failed to convert new typed object")
}
