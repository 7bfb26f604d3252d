package providers

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"

	"github.com/rdmafs/rdmafs/internal/options"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/ibv"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/roce"
)

// Provider is a provider of RDMA, which -o rdma= can name.
type Provider struct {
	Name string
	// Devices: it works through the kernel's RDMA devices.
	Devices bool
	// Needs is what it needs of this machine, and Missing what is not there.
	Needs   string
	Missing func() error

	// rank is when rdma=auto tries it: the lowest first, equal ones at once.
	rank int
	// open finds a device that leads to addr.
	open func(ctx context.Context, o *options.Options, addr netip.AddrPort, log *slog.Logger) (verbs.Device, error)
}

// All are the providers of this build.
var All = []Provider{
	{Name: "ibv", rank: 0, Devices: true, Needs: "an RDMA device, and rdma-core", Missing: ibv.Available, open: openIBV},
	{Name: "iwarp", rank: 1, Needs: "TCP, and nothing else is needed", Missing: nothing, open: openIWARP},
	{Name: "roce", rank: 1, Needs: "UDP port 4791, and nothing else is needed", Missing: nothing, open: openRoCE},
}

func nothing() error { return nil }

func openIBV(ctx context.Context, o *options.Options, addr netip.AddrPort, _ *slog.Logger) (verbs.Device, error) {
	keys := map[string]ibv.Keys{"": ibv.AutoKeys, "window": ibv.WindowKeys, "region": ibv.RegionKeys}[o.Reg]
	return ibv.Open(ctx, ibv.Config{Peer: addr, Local: o.SrcAddr, Adapter: o.RDMADev, Keys: keys})
}

func openIWARP(_ context.Context, o *options.Options, _ netip.AddrPort, _ *slog.Logger) (verbs.Device, error) {
	return iwarp.Open(iwarp.Config{CRC: o.CRC}), nil
}

func openRoCE(_ context.Context, _ *options.Options, _ netip.AddrPort, log *slog.Logger) (verbs.Device, error) {
	return roce.Open(roce.Config{Log: log}), nil
}

// Built reports whether the provider is in this program.
func (p *Provider) Built() bool { return p.Name != "ibv" || ibv.Built }

// Allowed reports whether the options let a mount use the provider.
func (p *Provider) Allowed(o *options.Options) bool {
	return o.Proto == "rdma" && (o.RDMA == "auto" || o.RDMA == p.Name)
}

// SelfExplained reports whether an error says by itself what to do.
func SelfExplained(err error) bool {
	var missing *ibv.UnavailableError
	var pin *ibv.PinError
	return errors.As(err, &missing) || errors.As(err, &pin)
}

// Explain takes an error apart with which a provider says what this machine
// lacks; ok is false for other errors.
func Explain(err error) (what, remedy string, ok bool) {
	var u *ibv.UnavailableError
	if !errors.As(err, &u) {
		return "", "", false
	}
	return u.Missing, u.Remedy, true
}

// Windows says what kinds of memory window a device has.
type Windows struct {
	Type1, Type2A, Type2B bool
	// Usable: one of type 2 could be made.
	Usable bool
}

// InspectWindows asks an RDMA device for its memory windows.
func InspectWindows(device string) (Windows, error) {
	w, err := ibv.InspectWindows(device)
	return Windows(w), err
}
