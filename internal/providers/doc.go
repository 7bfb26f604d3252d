// Package providers is the one place that names implementations: which providers
// of RDMA there are (verbs/ibv, verbs/iwarp, verbs/roce), and what makes calls
// travel over them (transport/rpcrdma) or over TCP (transport/tcp).
//
// It owns the list of providers, the ways to a server that the options of a mount
// allow (Routes), and the plan of what a mount may take of a limited amount of
// locked memory (memory.go). It refuses to connect: a Route is a dialer, and
// internal/session dials.
//
// Invariants: the providers are those that options.Providers names; nothing else
// imports their packages, tests' own servers excepted (test/imports). The caller
// of Routes closes each Route.
//
// No goroutines, no locks.
package providers
