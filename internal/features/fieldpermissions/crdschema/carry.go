package crdschema

import "proviso.dev/proviso/internal/request/requestctx"

// carried is what the filter tells the plugin about a request, beside the annotation that it put into the body.
type carried = requestctx.Definition
