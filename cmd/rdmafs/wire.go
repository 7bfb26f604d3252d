package main

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
)

// This file is the one place that names implementations.

// provider is a way to RDMA that -o rdma= can name.
type provider struct {
	name string
	open func(o *options) (verbs.Device, error)
}

// providers in the order in which auto tries them.
var providers = []provider{
	{"iwarp", func(o *options) (verbs.Device, error) { return iwarp.Open(iwarp.Config{CRC: o.crc}), nil }},
}

func providerNames() []string {
	var names []string
	for _, p := range providers {
		names = append(names, p.name)
	}
	return names
}

// route is one way to a server, not yet connected.
type route struct {
	how    string // "tcp", "rdma/iwarp"
	dialer transport.Dialer
	device verbs.Device // nil for TCP
}

func (r *route) close() {
	_ = r.dialer.Close()
	if r.device != nil {
		_ = r.device.Close()
	}
}

// routes are the ways to addr that the options allow, in the order to try them.
func routes(o *options, addr netip.AddrPort, machine string, logf func(string, ...any)) ([]*route, error) {
	if o.proto == "tcp" {
		d, err := tcpDialer(addr, machine)
		if err != nil {
			return nil, err
		}
		return []*route{{how: "tcp", dialer: d}}, nil
	}
	var found []*route
	var errs []error
	for _, p := range providers {
		if o.rdma != "auto" && o.rdma != p.name {
			continue
		}
		dev, err := p.open(o)
		if err != nil {
			errs = append(errs, fmt.Errorf("rdma=%s: %w", p.name, err))
			continue
		}
		found = append(found, &route{
			how:    "rdma/" + p.name,
			device: dev,
			dialer: rpcrdma.NewDialer(rpcrdma.DialerConfig{
				Device:      dev,
				Addr:        addr,
				MachineName: machine,
				InlineSend:  o.inline,
				InlineRecv:  o.inline,
				NoDDP:       o.noDDP,
				TryVersion2: o.rdmaVers != "1",
				CCP:         o.ccp,
				ReadReplies: o.readRead,
				Padding:     rpcrdma.Padding{Align: o.padAlign, Threshold: o.padThreshold},
				Logf:        logf,
			}),
		})
	}
	if len(found) == 0 {
		return nil, errors.Join(errs...)
	}
	return slices.Clip(found), nil
}

func tcpDialer(addr netip.AddrPort, machine string) (transport.Dialer, error) {
	return tcp.NewDialer(tcp.Config{Addr: addr, MachineName: machine, ReservedPort: mayBindReserved()})
}
