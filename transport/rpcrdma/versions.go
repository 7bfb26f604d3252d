package rpcrdma

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
	"github.com/rdmafs/rdmafs/transport/xdr"
	"github.com/rdmafs/rdmafs/verbs"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// Versions of the protocol: of RFC 8166, and of draft-cel-nfsv4-rpcrdma-version-two-05, which comments about version 2
// cite as the draft.
const (
	Version1 = wire.Version1
	Version2 = wire.Version2
)

// Versions is a range of protocol versions.
type Versions = wire.Versions

// AllVersions are those that requester and responder have; no more may be accepted.
var AllVersions = wire.AllVersions

// noVersion is a version of RPC-over-RDMA that nobody speaks.
const noVersion = 1<<32 - 1

// AskVersions asks the responder that a dialer of NewDialer leads to which
// versions of RPC-over-RDMA it speaks. A header in a version that does not
// exist, sent on a connection of its own, is answered with the range (RFC 8166
// section 4.5.1).
func AskVersions(ctx context.Context, of transport.Dialer) (low, high uint32, err error) {
	d, ok := of.(*dialer)
	if !ok {
		return 0, 0, errors.New("not a dialer of RPC-over-RDMA")
	}
	// What a responder of any version may send, and one receive for whatever
	// else it has to say first.
	const receives, size = 4, wire.MinInline
	a, err := mem.NewArena((receives + 1) * size)
	if err != nil {
		return 0, 0, err
	}
	defer a.Close()
	region, err := d.cfg.Device.Register(a)
	if err != nil {
		return 0, 0, err
	}
	defer region.Close()
	conn, err := d.cfg.Device.Dial(ctx, d.cfg.Addr, verbs.ConnOptions{
		SendQueue: 1, RecvQueue: receives, ReadsIn: 1, LocalAddr: d.cfg.LocalAddr,
		Prepare: func(qp verbs.QP) error {
			var wrs [receives]verbs.RecvWR
			for i := range wrs {
				wrs[i] = verbs.RecvWR{ID: uint64(i), Buf: a.Seg(i*size, size)}
			}
			_, err := qp.PostRecv(wrs[:])
			return err
		},
	})
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	xid := rand.Uint32()
	call := a.Seg(receives*size, wire.EmptyLen1)
	var w xdr.Writer
	w.Reset(call.Bytes()[:0], nil)
	for _, word := range [...]uint32{xid, noVersion, 1, uint32(wire.ProcMsg), 0, 0, 0} {
		w.Uint32(word) // the credits asked for, and the empty lists, are the same in all
	}
	if _, err := conn.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Signaled: true, Local: mem.Vec{call}}}); err != nil {
		return 0, 0, err
	}
	for got := 0; got < receives; {
		var wc [1]verbs.Completion
		if _, err := conn.Wait(ctx, wc[:]); err != nil {
			return 0, 0, err
		}
		if wc[0].Op != verbs.OpRecv {
			continue
		}
		got++
		low, high, ok := parseVersions(a.Seg(int(wc[0].ID)*size, size).Bytes()[:wc[0].Len], xid)
		if ok {
			return low, high, nil
		}
	}
	return 0, 0, fmt.Errorf("%w: no answer to a call in a version that does not exist", transport.ErrProtocol)
}

// parseVersions reads an RDMA_ERROR with ERR_VERS. Responders put their own
// version into it, or, as Linux does, the caller's.
func parseVersions(b []byte, xid uint32) (low, high uint32, ok bool) {
	var r xdr.Reader
	r.Reset(b, nil)
	forUs := r.Uint32() == xid
	r.Uint32() // version
	r.Uint32() // credits
	is := wire.Proc(r.Uint32()) == wire.ProcError && wire.ErrCode(r.Uint32()) == wire.ErrVers
	low, high = r.Uint32(), r.Uint32()
	return low, high, forUs && is && r.Err() == nil && low <= high
}
