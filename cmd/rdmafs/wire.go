package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/rdmafs/rdmafs/cmd/rdmafs/doctor"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/ibv"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/roce"
)

// This file is the one place that names implementations.

// provider is a way to RDMA that -o rdma= can name.
type provider struct {
	name string
	turn int
	// devices: it works through the kernel's RDMA devices.
	devices bool
	// needs is what it needs of this machine, and missing what is not there.
	needs   string
	missing func() error
	// open finds a device that leads to addr.
	open func(ctx context.Context, o *options, addr netip.AddrPort, log *slog.Logger) (verbs.Device, error)
}

// providers that -o rdma= can name. auto tries them in the order of their turns,
// those of a turn at once.
var providers = []provider{
	{name: "ibv", turn: 0, devices: true, needs: "an RDMA device, and rdma-core", missing: ibv.Available, open: openIBV},
	{name: "iwarp", turn: 1, needs: "TCP, and nothing else is needed", missing: nothing,
		open: func(_ context.Context, o *options, _ netip.AddrPort, _ *slog.Logger) (verbs.Device, error) {
			return iwarp.Open(iwarp.Config{CRC: o.crc}), nil
		}},
	{name: "roce", turn: 1, needs: "UDP port 4791, and nothing else is needed", missing: nothing,
		open: func(_ context.Context, _ *options, _ netip.AddrPort, log *slog.Logger) (verbs.Device, error) {
			return roce.Open(roce.Config{Log: log}), nil
		}},
}

func openIBV(ctx context.Context, o *options, addr netip.AddrPort, _ *slog.Logger) (verbs.Device, error) {
	keys := map[string]ibv.Keys{"": ibv.AutoKeys, "window": ibv.WindowKeys, "region": ibv.RegionKeys}[o.reg]
	return ibv.Open(ctx, ibv.Config{Peer: addr, Local: o.srcAddr, Adapter: o.rdmaDev, Keys: keys})
}

// explained tells if an error says by itself what to do.
func explained(err error) bool {
	var missing *ibv.UnavailableError
	var pin *ibv.PinError
	return errors.As(err, &missing) || errors.As(err, &pin)
}

func nothing() error { return nil }

func providerNames() []string {
	var names []string
	for _, p := range providers {
		names = append(names, p.name)
	}
	return names
}

// deviceWindows asks an RDMA device for its memory windows.
func deviceWindows(device string) (doctor.Windows, error) {
	w, err := ibv.InspectWindows(device)
	return doctor.Windows(w), err
}

// explainProvider takes an error apart with which a provider says what this
// machine lacks.
func explainProvider(err error) (what, remedy string, ok bool) {
	var u *ibv.UnavailableError
	if !errors.As(err, &u) {
		return "", "", false
	}
	return u.Missing, u.Remedy, true
}

// route is one way to a server, not yet connected.
type route struct {
	how    string // "tcp", "rdma/iwarp"
	dialer transport.Dialer
	device verbs.Device // nil for TCP
	memory memory
}

func (r *route) close() {
	_ = r.dialer.Close()
	if r.device != nil {
		_ = r.device.Close()
	}
}

// routes are the ways to addr that the options allow, in the order to try them,
// those of a row at once, and why there are no more.
func routes(ctx context.Context, o *options, addr netip.AddrPort, machine string, log *slog.Logger) (found [][]*route, without []error) {
	if o.srcAddr.IsValid() && o.srcAddr.Is4() != addr.Addr().Is4() {
		return nil, []error{fmt.Errorf("%s cannot be reached from srcaddr=%s, an address of another kind", addr.Addr(), o.srcAddr)}
	}
	if o.proto == "tcp" {
		d, err := tcpDialer(addr, machine, o.srcAddr)
		if err != nil {
			return nil, []error{err}
		}
		return [][]*route{{{how: "tcp", dialer: d, memory: plentyOfMemory}}}, nil
	}
	turn := -1
	for _, p := range providers {
		if o.rdma != "auto" && o.rdma != p.name {
			continue
		}
		dev, err := p.open(ctx, o, addr, log)
		if err != nil {
			without = append(without, fmt.Errorf("rdma=%s: %w", p.name, err))
			continue
		}
		room := plentyOfMemory
		if dev.Caps().Pins {
			if room, err = planMemory(lockLimit(), o); err != nil {
				without = append(without, fmt.Errorf("rdma=%s: %w", p.name, errors.Join(err, dev.Close())))
				continue
			}
		}
		if p.turn != turn {
			turn = p.turn
			found = append(found, nil)
		}
		row := &found[len(found)-1]
		*row = append(*row, &route{
			how:    "rdma/" + p.name,
			device: dev,
			memory: room,
			dialer: rpcrdma.NewDialer(rpcrdma.DialerConfig{
				Device:      dev,
				Addr:        addr,
				LocalAddr:   o.srcAddr,
				InlineSend:  o.inline,
				InlineRecv:  o.inline,
				NoDDP:       o.noDDP,
				Credits:     room.credits,
				LongBytes:   room.long,
				TryVersion2: o.rdmaVers != "1",
				CCP:         o.ccp,
				ReadReplies: o.readRead,
				Padding:     rpcrdma.Padding{Align: o.padAlign, Threshold: o.padThreshold},
				Log:         log,
			}),
		})
	}
	return found, without
}

// terms are what the set-up of a link settled; nil for one without RDMA.
func terms(l transport.Link) *doctor.Terms {
	i, ok := rpcrdma.InfoOf(l)
	if !ok {
		return nil
	}
	return &doctor.Terms{
		Told: i.Told, SendInline: i.SendInline, RecvInline: i.RecvInline,
		OfferInvalidate: i.OfferInvalidate, AgreeInvalidate: i.Peer.RemoteInvalidate,
		Asked: i.Asked, Granted: i.Granted,
	}
}

// loweredMTU is the path MTU that a route keeps to because larger packets were
// lost, 0 if none were.
func (r *route) loweredMTU(server netip.Addr) int {
	mtu, _ := roce.LoweredMTU(r.device, server)
	return mtu
}

// versions asks the server behind a route for its versions of RPC-over-RDMA.
func (r *route) versions(ctx context.Context) (low, high uint32, err error) {
	return rpcrdma.AskVersions(ctx, r.dialer)
}

func tcpDialer(addr netip.AddrPort, machine string, from netip.Addr) (transport.Dialer, error) {
	return tcp.NewDialer(tcp.Config{Addr: addr, LocalAddr: from, ReservedPort: mayBindReserved()})
}
