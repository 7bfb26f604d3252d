package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma"
	"github.com/rdmafs/rdmafs/transport/tcp"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/iwarp"
	"github.com/rdmafs/rdmafs/verbs/roce"
)

// This file is the one place that names implementations.

// provider is a way to RDMA that -o rdma= can name.
type provider struct {
	name string
	open func(o *options) (verbs.Device, error)
}

// providers in the order in which auto tries them: those of a row at once.
var providers = [][]provider{{
	{"iwarp", func(o *options) (verbs.Device, error) { return iwarp.Open(iwarp.Config{CRC: o.crc}), nil }},
	{"roce", func(*options) (verbs.Device, error) { return roce.Open(roce.Config{}), nil }},
}}

func providerNames() []string {
	var names []string
	for _, row := range providers {
		for _, p := range row {
			names = append(names, p.name)
		}
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

// routes are the ways to addr that the options allow, in the order to try them:
// those of a row at once.
func routes(o *options, addr netip.AddrPort, machine string, logf func(string, ...any)) ([][]*route, error) {
	if o.proto == "tcp" {
		d, err := tcpDialer(o, addr, machine)
		if err != nil {
			return nil, err
		}
		return [][]*route{{{how: "tcp", dialer: d}}}, nil
	}
	var found [][]*route
	var errs []error
	for _, providers := range providers {
		var row []*route
		for _, p := range providers {
			if o.rdma != "auto" && o.rdma != p.name {
				continue
			}
			dev, err := p.open(o)
			if err != nil {
				errs = append(errs, fmt.Errorf("rdma=%s: %w", p.name, err))
				continue
			}
			row = append(row, &route{
				how:    "rdma/" + p.name,
				device: dev,
				dialer: rpcrdma.NewDialer(rpcrdma.DialerConfig{
					Device:      dev,
					Addr:        addr,
					LocalAddr:   o.clientAddr,
					MachineName: machine,
					InlineSend:  o.inline,
					InlineRecv:  o.inline,
					NoDDP:       o.noDDP,
					Logf:        logf,
				}),
			})
		}
		if len(row) > 0 {
			found = append(found, row)
		}
	}
	if len(found) == 0 {
		return nil, errors.Join(errs...)
	}
	return found, nil
}

func tcpDialer(o *options, addr netip.AddrPort, machine string) (transport.Dialer, error) {
	return tcp.NewDialer(tcp.Config{Addr: addr, LocalAddr: o.clientAddr, MachineName: machine, ReservedPort: mayBindReserved()})
}
