package crdschema

import "context"

// carried is what the filter tells the plugin about a request, beside the annotation that it put into the body.
type carried struct {
	// annotation is what the filter put into the body; empty if the request carries none of the keys.
	annotation string
	// versions is set if the request says anything about schemas, so that what it leaves out is left out knowingly.
	versions bool
}

type carriedKey struct{}

func withCarried(ctx context.Context, c *carried) context.Context {
	return context.WithValue(ctx, carriedKey{}, c)
}

func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(carriedKey{}).(*carried)
	return c
}
