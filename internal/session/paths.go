package session

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/transport"
)

// failedPathRest is how long an address at which nobody answered is left alone while there
// are others.
const failedPathRest = 10 * time.Second

// paths is a Dialer whose links go to several addresses of one server, and from several of
// this host (remoteports=, localports=): each to where the fewest are, and not
// where an attempt has just failed.
type paths struct {
	transport.Dialer

	mu      sync.Mutex
	remotes []end[netip.AddrPort]
	locals  []end[netip.Addr]
}

// end is an address, and the links that have it.
type end[T any] struct {
	at     T
	links  []transport.Link
	failed time.Time // of the last attempt, if that failed
	trying int       // attempts under way
}

// newPaths begins with first. Without locals the route chooses.
func newPaths(d transport.Dialer, first netip.AddrPort, remotes, locals []netip.Addr) *paths {
	p := &paths{Dialer: d, remotes: []end[netip.AddrPort]{{at: first}}}
	for _, a := range remotes {
		if a != first.Addr() {
			p.remotes = append(p.remotes, end[netip.AddrPort]{at: netip.AddrPortFrom(a, first.Port())})
		}
	}
	for _, a := range locals {
		p.locals = append(p.locals, end[netip.Addr]{at: a})
	}
	return p
}

// load is how many links use e, or are about to.
func (e *end[T]) load() int {
	live := e.links[:0]
	for _, l := range e.links {
		select {
		case <-l.Done():
		default:
			live = append(live, l)
		}
	}
	clear(e.links[len(live):])
	e.links = live
	return len(live) + e.trying
}

// least is the end that may be tried with the lowest load, the first of equal ones; if all
// have failed of late, the one that failed first. It is nil if there is none.
func least[T any](all []end[T], may func(T) bool) *end[T] {
	var best, rested *end[T]
	for k := range all {
		e := &all[k]
		switch {
		case !may(e.at):
		case time.Since(e.failed) < failedPathRest:
			if rested == nil || e.failed.Before(rested.failed) {
				rested = e
			}
		case best == nil || e.load() < best.load():
			best = e
		}
	}
	if best == nil {
		return rested
	}
	return best
}

// Dial implements transport.Dialer.
func (p *paths) Dial(ctx context.Context) (transport.Link, error) {
	p.mu.Lock()
	remote := least(p.remotes, func(netip.AddrPort) bool { return true })
	local := least(p.locals, func(a netip.Addr) bool { return a.Is4() == remote.at.Addr().Is4() })
	path := transport.Path{Remote: remote.at}
	remote.trying++
	if local != nil {
		path.Local = local.at
		local.trying++
	}
	p.mu.Unlock()
	l, err := p.Dialer.Dial(transport.WithPath(ctx, path))
	p.mu.Lock()
	defer p.mu.Unlock()
	remote.trying--
	remote.tried(l, err, ctx)
	if local != nil {
		local.trying--
		local.tried(l, err, ctx)
	}
	return l, err
}

// tried takes the outcome of an attempt. One that was called off says nothing of the address.
func (e *end[T]) tried(l transport.Link, err error, ctx context.Context) {
	switch {
	case err == nil:
		e.links, e.failed = append(e.links, l), time.Time{}
	case context.Cause(ctx) != context.Canceled:
		e.failed = time.Now()
	}
}

// spread is d, over all of the paths that the options name.
func (s *Session) spread(d transport.Dialer) transport.Dialer {
	o := &s.cfg.Options
	if len(s.cfg.remotes)+len(o.LocalPorts) == 0 {
		return d
	}
	return newPaths(d, s.addr, s.cfg.remotes, o.LocalPorts)
}
