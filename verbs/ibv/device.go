//go:build cgo && linux

package ibv

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
	"github.com/rdmafs/rdmafs/verbs/provider"
)

// device implements verbs.Device. It may span several adapters, with a
// protection domain on each.
type device struct {
	provider.Uses
	config Config

	mu sync.Mutex
	// regions are the arenas given to Register.
	regions map[uint64]*region
	domains map[*adapter]*domain
	// current is the domain of the last Dial, or of Open; it is kept open when idle.
	current *domain
}

// Open finds the adapter that c asks for. The error is an *UnavailableError if
// the system lacks something.
func Open(ctx context.Context, c Config) (verbs.Device, error) {
	if err := available(); err != nil {
		return nil, err
	}
	m, err := resolve(ctx, c.Peer, c.Local, c.Adapter)
	if err != nil {
		return nil, err
	}
	defer m.close()
	d := &device{config: c, regions: make(map[uint64]*region), domains: make(map[*adapter]*domain)}
	if _, err := d.use(m.identity(), true); err != nil {
		return nil, err
	}
	d.unuse(d.current)
	return d, nil
}

func (d *device) Caps() verbs.Caps {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current.caps
}

// region is an arena as Register got it.
type region struct {
	dev   *device
	arena *mem.Arena
}

// Register implements verbs.Device.
func (d *device) Register(a *mem.Arena) (verbs.MemoryRegion, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.HoldRegion(); err != nil {
		return nil, err
	}
	if d.regions[a.ID()] != nil {
		d.ReleaseRegion()
		return nil, fmt.Errorf("ibv: arena %d is registered already", a.ID())
	}
	r := &region{dev: d, arena: a}
	for _, dom := range d.domains {
		if err := dom.register(a); err != nil {
			d.ReleaseRegion()
			for _, dom := range d.domains {
				err = errors.Join(err, dom.deregister(a.ID()))
			}
			return nil, err
		}
	}
	d.regions[a.ID()] = r
	return r, nil
}

// Close implements verbs.MemoryRegion.
func (r *region) Close() error {
	d, id := r.dev, r.arena.ID()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.regions[id] != r {
		return errors.New("ibv: memory region closed twice")
	}
	delete(d.regions, id)
	d.ReleaseRegion()
	var err error
	for _, dom := range d.domains {
		err = errors.Join(err, dom.deregister(id))
	}
	return err
}

// use returns the domain of the adapter that the connection manager chose, for
// a connection; unuse gives it back. All arenas are registered there.
func (d *device) use(id identity, makeCurrent bool) (*domain, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.Closed() {
		return nil, verbs.ErrClosed
	}
	for a, dom := range d.domains {
		if a.ctx == id.ctx {
			dom.conns++
			if old := d.current; makeCurrent && old != dom {
				d.current = dom
				if old.conns == 0 {
					d.drop(old) // no connection will use it again
				}
			}
			return dom, nil
		}
	}
	// Memory pinned for an idle adapter counts against the same limit.
	if makeCurrent && d.current != nil && d.current.conns == 0 {
		d.drop(d.current)
	}
	dom, err := d.openDomain(id)
	if err != nil {
		return nil, err
	}
	dom.conns = 1
	d.domains[dom.adapter] = dom
	if makeCurrent || d.current == nil {
		d.current = dom
	}
	return dom, nil
}

func (d *device) unuse(dom *domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if dom.conns--; dom.conns == 0 && dom != d.current {
		d.drop(dom)
	}
}

// drop closes a domain; mu is held. Errors concern only the adapter that is left.
func (d *device) drop(dom *domain) {
	if d.domains[dom.adapter] == dom {
		delete(d.domains, dom.adapter)
		_ = dom.close()
	}
}

// Close implements verbs.Device.
func (d *device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.CloseUnused("ibv"); err != nil {
		return err
	}
	var err error
	for _, dom := range d.domains {
		err = errors.Join(err, dom.close())
	}
	clear(d.domains)
	return err
}
