package checkup

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
	"github.com/rdmafs/rdmafs/transport"
)

// ways are the ways of the mount, each alone, and then those that other options
// would choose. NFS has different ports over RDMA and TCP, so that a port= for
// one is not the other's; but a server may have both on one.
func ways(cfg session.Config) []doctor.Way {
	var chosen, others []doctor.Way
	add := func(proto, provider string, port uint16, isChosen bool) {
		way := cfg
		way.Options.Proto, way.Options.Port = proto, port
		words := "proto=" + proto
		if proto == "rdma" {
			way.Options.RDMA = provider
			words += ",rdma=" + provider
		}
		if cfg.Options.Port != 0 && cfg.Options.Port != port {
			words += fmt.Sprintf(",port=%d", port)
		}
		w := doctor.Way{Name: proto, Port: port, Chosen: isChosen, Options: words,
			Open: func(ctx context.Context, at netip.Addr) (doctor.Contact, error) {
				return open(ctx, way, at)
			}}
		if provider != "" {
			w.Name += "/" + provider
		}
		if isChosen {
			chosen = append(chosen, w)
		} else {
			others = append(others, w)
		}
	}
	own := cfg.Options.NFSPort()
	for _, p := range providers.All {
		port := own
		if cfg.Options.Proto != "rdma" {
			port = options.PortRDMA
		}
		add("rdma", p.Name, port, p.Allowed(&cfg.Options))
	}
	if cfg.Options.Proto == "tcp" {
		add("tcp", "", own, true)
	} else {
		if own != options.PortRDMA && own != options.PortNFS {
			add("tcp", "", own, false)
		}
		add("tcp", "", options.PortNFS, false)
	}
	return append(chosen, others...)
}

// contact is a session that is looked at instead of used.
type contact struct {
	cfg  session.Config
	at   netip.Addr
	s    *session.Session
	told *told
}

// told collects the calls of NFS version 4. Calls are made on more than one goroutine.
type told struct {
	mu  sync.Mutex
	all []doctor.Compound
}

// maxTold bounds what is collected: the calls of an examination are far fewer, unless the server asks to try
// later again and again, when the last ones say so.
const maxTold = 1024

func (t *told) add(c session.Told) {
	x := doctor.Compound{Op: c.Op.String(), Err: c.Err}
	if c.Status != wire.OK {
		x.Status = strings.TrimPrefix(wire.StatusName(c.Status), "NFS4ERR_")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.all) == maxTold {
		t.all = slices.Delete(t.all, maxTold/2, maxTold/2+1)
	}
	t.all = append(t.all, x)
}

func (t *told) compounds() []doctor.Compound {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.all)
}

// open opens the one way that the options leave.
func open(ctx context.Context, cfg session.Config, at netip.Addr) (doctor.Contact, error) {
	c := &contact{cfg: cfg, at: at, told: new(told)}
	c.cfg.Tell = c.told.add
	if err := c.over(ctx, cfg.Options.Versions()[0]); err != nil {
		return nil, err
	}
	return c, nil
}

// over opens it for a version of NFS.
func (c *contact) over(ctx context.Context, vers string) (err error) {
	cfg := c.cfg
	cfg.Options.Vers = vers
	c.s, err = session.Over(ctx, cfg, c.at)
	return err
}

func (c *contact) Connect(ctx context.Context) (transport.Link, error) { return c.s.Dial(ctx) }

func (c *contact) Terms(l transport.Link) *doctor.Terms {
	t, ok := providers.TermsOf(l)
	if !ok {
		return nil
	}
	terms := doctor.Terms(t)
	return &terms
}

func (c *contact) Encryption() *doctor.Encryption {
	what := c.s.Encryption()
	if what == "" {
		return nil
	}
	until, exposed := c.s.EncryptedUntil()
	return &doctor.Encryption{What: what, Until: until, ExposedKey: exposed}
}

func (c *contact) Versions(ctx context.Context) (low, high uint32, err error) {
	return c.s.Versions(ctx)
}

func (c *contact) Mount(ctx context.Context) (string, error) {
	versions := c.cfg.Options.Versions()
	var refused []error
	for n, vers := range versions {
		if n > 0 {
			c.Close()
			if err := c.over(ctx, vers); err != nil {
				c.s = nil
				return "", err
			}
		}
		err := c.s.Connect(ctx)
		if err == nil {
			err = c.s.MountExport(ctx)
		}
		if err == nil {
			break
		}
		if refused = append(refused, err); n+1 == len(versions) || !session.Refuses(err) {
			return "", errors.Join(refused...)
		}
	}
	i := c.s.Client().Info()
	return fmt.Sprintf("NFS version %s, rsize %d, wsize %d", i.Version, i.ReadMax, i.WriteMax), nil
}

func (c *contact) Compounds() []doctor.Compound { return c.told.compounds() }

func (c *contact) Client() nfsclient.Client { return c.s.Client() }

func (c *contact) LoweredMTU() int { return c.s.LoweredMTU() }

func (c *contact) Close() {
	if c.s != nil {
		_ = c.s.Close(context.Background())
		c.s = nil
	}
}
