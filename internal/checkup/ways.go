package checkup

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/rdmafs/rdmafs/internal/doctor"
	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/providers"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/nfsclient"
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
type contact struct{ s *session.Session }

// open opens the one way that the options leave.
func open(ctx context.Context, cfg session.Config, at netip.Addr) (doctor.Contact, error) {
	s, err := session.Over(ctx, cfg, at)
	if err != nil {
		return nil, err
	}
	return contact{s}, nil
}

func (c contact) Connect(ctx context.Context) (transport.Link, error) { return c.s.Dial(ctx) }

func (c contact) Terms(l transport.Link) *doctor.Terms {
	t, ok := providers.TermsOf(l)
	if !ok {
		return nil
	}
	terms := doctor.Terms(t)
	return &terms
}

func (c contact) Versions(ctx context.Context) (low, high uint32, err error) {
	return c.s.Versions(ctx)
}

func (c contact) Mount(ctx context.Context) (string, error) {
	if err := c.s.Connect(ctx); err != nil {
		return "", err
	}
	if err := c.s.MountExport(ctx); err != nil {
		return "", err
	}
	i := c.s.Client().Info()
	return fmt.Sprintf("NFS version %s, rsize %d, wsize %d", i.Version, i.ReadMax, i.WriteMax), nil
}

func (c contact) Client() nfsclient.Client { return c.s.Client() }

func (c contact) LoweredMTU() int { return c.s.LoweredMTU() }

func (c contact) Close() { _ = c.s.Close(context.Background()) }
