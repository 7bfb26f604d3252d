package providers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/internal/privilege"
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/rpctls"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/roce"
)

// Route is one way to a server, not yet connected.
type Route struct {
	How    string // "tcp", "rdma/iwarp"
	Dialer transport.Dialer
	Memory Memory

	device   verbs.Device   // nil for TCP
	encrypts *rpctls.Client // nil for clear text
}

// Close frees the route's device. Links over it must have been closed.
func (r *Route) Close() {
	_ = r.Dialer.Close()
	if r.device != nil {
		_ = r.device.Close()
	}
}

// Keys describe what an RDMA device gives the server to reach memory by.
type Keys struct {
	Device string // as the provider names it
	Kind   string // "window" or "region"
}

// Keys are those of the route; ok is false for TCP.
func (r *Route) Keys() (k Keys, ok bool) {
	if r.device == nil {
		return k, false
	}
	caps := r.device.Caps()
	k = Keys{Device: caps.Device, Kind: "window"}
	if caps.RegionKeys {
		k.Kind = "region"
	}
	return k, true
}

// LoweredMTU is the path MTU that the route keeps to because larger packets were
// lost, 0 if none were.
func (r *Route) LoweredMTU(server netip.Addr) int {
	mtu, _ := roce.LoweredMTU(r.device, server)
	return mtu
}

// Versions asks the server behind the route for its versions of RPC-over-RDMA.
func (r *Route) Versions(ctx context.Context) (low, high uint32, err error) {
	return rpcrdma.AskVersions(ctx, r.Dialer)
}

// Server is whom a way leads to.
type Server struct {
	Addr netip.AddrPort
	// Host is the server as the user has named it.
	Host string
	// Callbacks, if not nil, serves what the server calls back over the connections.
	Callbacks transport.Handler
}

// Routes finds the ways to addr that the options allow, in the order to try them,
// those of a row at once, and why there are no more.
func Routes(ctx context.Context, o *options.Options, to Server, log *slog.Logger) (rows [][]*Route, without []error) {
	addr := to.Addr
	if o.SrcAddr.IsValid() && o.SrcAddr.Is4() != addr.Addr().Is4() {
		return nil, []error{fmt.Errorf("%s cannot be reached from srcaddr=%s, an address of another kind", addr.Addr(), o.SrcAddr)}
	}
	if o.Proto == "tcp" {
		r, err := tcpRoute(o, to)
		if err != nil {
			return nil, []error{err}
		}
		return [][]*Route{{r}}, nil
	}
	if o.Encrypted() {
		return nil, []error{errNoTLSOverRDMA}
	}
	rank := -1
	for k := range All {
		p := &All[k]
		if !p.Allowed(o) {
			continue
		}
		r, err := p.route(ctx, o, to, log)
		if err != nil {
			without = append(without, fmt.Errorf("rdma=%s: %w", p.Name, err))
			continue
		}
		if p.rank != rank {
			rank = p.rank
			rows = append(rows, nil)
		}
		row := &rows[len(rows)-1]
		*row = append(*row, r)
	}
	return rows, without
}

// route is the way to addr that leads over a provider.
func (p *Provider) route(ctx context.Context, o *options.Options, to Server, log *slog.Logger) (*Route, error) {
	dev, err := p.open(ctx, o, to.Addr, log)
	if err != nil {
		return nil, err
	}
	room := unlimited
	if dev.Caps().Pins {
		if room, err = PlanMemory(LockLimit(), o); err != nil {
			return nil, errors.Join(err, dev.Close())
		}
		room.Pinned = true
	}
	return &Route{
		How:    "rdma/" + p.Name,
		device: dev,
		Memory: room,
		Dialer: rpcrdma.NewDialer(rpcrdma.DialerConfig{
			Device:      dev,
			Addr:        to.Addr,
			LocalAddr:   o.SrcAddr,
			InlineSend:  cmp.Or(room.inline, o.Inline),
			InlineRecv:  cmp.Or(room.inline, o.Inline),
			NoDDP:       o.NoDDP,
			Credits:     room.credits,
			LongBytes:   room.long,
			TryVersion2: o.RDMAVers != "1",
			CCP:         o.CCP,
			ReadReplies: o.ReadRead,
			Padding:     rpcrdma.Padding{Align: o.PadAlign, Threshold: o.PadThreshold},
			Callbacks:   to.Callbacks, CallbackCredits: callbackCredits,
			Log: log,
		}),
	}, nil
}

// TCPDialer makes TCP connections to addr, from the address and the kind of port that
// the options say, in clear text: for MOUNT, NLM and rpcbind.
func TCPDialer(addr netip.AddrPort, o *options.Options) (transport.Dialer, error) {
	return tcp.NewDialer(tcpConfig(addr, o))
}

func tcpConfig(addr netip.AddrPort, o *options.Options) tcp.Config {
	return tcp.Config{Addr: addr, LocalAddr: o.SrcAddr, ReservedPort: ReservedPort(o)}
}

// ReservedPort reports whether connections by TCP come from a port below 1024: where this
// process may, unless the options say otherwise.
func ReservedPort(o *options.Options) bool { return !o.NoResvPort && privilege.MayBindReserved() }

// Terms are what the set-up of an RDMA connection settled.
type Terms struct {
	// Told: the server showed private data of RFC 8797.
	Told                   bool
	SendInline, RecvInline int
	// OfferInvalidate and AgreeInvalidate are the R bits of both sides.
	OfferInvalidate, AgreeInvalidate bool
	// Asked and Granted are credits.
	Asked, Granted int
}

// TermsOf are those of a link; ok is false for one without RDMA.
func TermsOf(l transport.Link) (t Terms, ok bool) {
	i, ok := rpcrdma.InfoOf(l)
	if !ok {
		return t, false
	}
	return Terms{
		Told: i.Told, SendInline: i.SendInline, RecvInline: i.RecvInline,
		OfferInvalidate: i.OfferInvalidate, AgreeInvalidate: i.Peer.RemoteInvalidate,
		Asked: i.Asked, Granted: i.Granted,
	}, true
}
