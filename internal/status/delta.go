package status

import (
	"maps"

	"github.com/rdmafs/rdmafs/cache"
	"github.com/rdmafs/rdmafs/transport/account"
)

// Since is what has happened on a mount between two reports of one daemon: r with the counters of what came after
// before.
func (r Report) Since(before *Report) Report {
	if r.PID != before.PID {
		return r // another daemon: its counters have begun anew
	}
	grown := account.Grown
	r.Age = max(r.Age-before.Age, 0)
	r.Procedures = account.Since(r.Procedures, before.Procedures)
	c, b := &r.Calls, &before.Calls
	for _, n := range []struct {
		now *uint64
		was uint64
	}{
		{&c.Calls, b.Calls}, {&c.Replies, b.Replies}, {&c.Resends, b.Resends}, {&c.Timeouts, b.Timeouts}, {&c.Connects, b.Connects},
		{&c.ConnectFails, b.ConnectFails}, {&c.BadXIDs, b.BadXIDs}, {&c.BadReplies, b.BadReplies}, {&c.BytesSent, b.BytesSent},
		{&c.BytesReceived, b.BytesReceived}, {&c.InlineCalls, b.InlineCalls}, {&c.ReadChunks, b.ReadChunks},
		{&c.PositionZero, b.PositionZero}, {&c.PaddedCalls, b.PaddedCalls}, {&c.WriteChunks, b.WriteChunks},
		{&c.ReplyChunks, b.ReplyChunks}, {&c.LongReplies, b.LongReplies}, {&c.ReadReplies, b.ReadReplies},
		{&c.RemoteInvalidations, b.RemoteInvalidations}, {&c.LocalInvalidations, b.LocalInvalidations},
		{&c.CreditWaits, b.CreditWaits}, {&c.Registrations, b.Registrations}, {&c.Callbacks, b.Callbacks},
	} {
		*n.now = grown(*n.now, n.was)
	}
	h, w := r.Cache, before.Cache
	r.Cache = cache.Counts{
		AttributeHits: grown(h.AttributeHits, w.AttributeHits), AttributeMisses: grown(h.AttributeMisses, w.AttributeMisses),
		NameHits: grown(h.NameHits, w.NameHits), NameMisses: grown(h.NameMisses, w.NameMisses),
		DataHits: grown(h.DataHits, w.DataHits), DataMisses: grown(h.DataMisses, w.DataMisses),
	}
	r.Requests = maps.Clone(r.Requests)
	for name, n := range r.Requests {
		if n = grown(n, before.Requests[name]); n > 0 {
			r.Requests[name] = n
		} else {
			delete(r.Requests, name)
		}
	}
	return r
}
