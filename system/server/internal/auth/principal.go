package auth

import "context"

type principalKey struct{}

// WithPrincipal returns a context that carries who asks.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns who asks. It panics without one: a handler behind the
// authentication always has it, and one in front of it must not ask.
func PrincipalFrom(ctx context.Context) Principal {
	p, ok := ctx.Value(principalKey{}).(Principal)
	if !ok || p.UserID == "" {
		panic("auth: no principal in the context: the route is not behind the authentication")
	}
	return p
}
