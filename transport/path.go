package transport

import (
	"context"
	"net/netip"
)

// Path is between which addresses a link goes.
type Path struct {
	Remote netip.AddrPort
	Local  netip.Addr // invalid: the route's
}

type pathKey struct{}

// WithPath has a Dialer that Dial is called of with the context connect over p in place of
// the path that it was made with.
func WithPath(ctx context.Context, p Path) context.Context {
	return context.WithValue(ctx, pathKey{}, p)
}

// PathOf is the path of a context, and else the Dialer's own.
func PathOf(ctx context.Context, own Path) Path {
	if p, ok := ctx.Value(pathKey{}).(Path); ok {
		return p
	}
	return own
}
