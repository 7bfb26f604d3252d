package rpcrdma

import (
	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/wire"
)

// LinkInfo is what the set-up of a link settled, and what the peer granted
// since.
type LinkInfo struct {
	// Told: the peer showed private data of RFC 8797, which Peer is. Without it
	// the defaults are in force.
	Told bool
	Peer wire.PrivateData
	// SendInline and RecvInline are the inline thresholds in force.
	SendInline, RecvInline int
	// OfferInvalidate: our private data has the R bit. Peer's may not have it
	// and the peer use remote invalidation all the same, as Linux does.
	OfferInvalidate bool
	// Asked and Granted are credits. The grant is 1 until the first reply.
	Asked, Granted int
}

// InfoOf describes a link; ok is false when it is none of this package's.
func InfoOf(of transport.Link) (i LinkInfo, ok bool) {
	l, ok := of.(*link)
	if !ok {
		return LinkInfo{}, false
	}
	i.Peer, i.Told = wire.ParsePrivateData(l.conn.PrivateData())
	t := l.Terms()
	i.SendInline, i.RecvInline = t.SendInline, t.RecvInline
	i.OfferInvalidate = l.d.cfg.Device.Caps().RemoteInvalidate
	i.Asked, i.Granted = l.Credits().Requested, l.Credits().Current()
	return i, true
}
