package responder

import (
	"context"
	"errors"
	"fmt"

	"github.com/rdmafs/rdmafs/transport"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/longbuf"
	"github.com/rdmafs/rdmafs/transport/rpcrdma/plan"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// leasePayload is transport.Request.Lease: memory of the call's own, as much as
// the peer's chunks can take. Only a handler that asks for more than that has
// recourse to what the connection lends, for which it does not wait.
func (k *Call) leasePayload(n int) (mem.Seg, error) {
	if n < 0 || n > k.rules.MaxLease {
		return mem.Seg{}, longbuf.ErrTooLarge
	}
	if n <= k.lease.Len-k.spare {
		s := k.lease.Slice(k.spare, n)
		k.spare = min(longbuf.RoundUp(k.spare+n, plan.Align), k.lease.Len)
		return s, nil
	}
	if n <= k.scratch.Len-k.used {
		s := k.scratch.Slice(k.used, n)
		k.used = min(longbuf.RoundUp(k.used+n, plan.Align), k.scratch.Len)
		return s, nil
	}
	s, err := k.host.LendNow(n)
	if err != nil {
		return mem.Seg{}, err
	}
	k.extra = append(k.extra, s)
	return s.Slice(0, n), nil
}

// leaseUnoffered is leasePayload for replies by read chunks, for which peers
// offer nothing whose size could be leased beforehand. A call that holds no
// memory waits for it; the connection's limits see to it that it comes.
func (k *Call) leaseUnoffered(ctx context.Context, n int) (mem.Seg, error) {
	s, err := k.leasePayload(n)
	if errors.Is(err, longbuf.ErrNone) && k.lease.Len == 0 && len(k.extra) == 0 {
		if s, err = k.host.Lend(ctx, n); err == nil {
			k.extra = append(k.extra, s)
			s = s.Slice(0, n)
		}
	}
	return s, err
}

// standsInLease reports whether bytes of the reply stand in what the call has leased.
func (k *Call) standsInLease() bool {
	for _, v := range k.payloads[:k.added] {
		for _, s := range v {
			if s.Len > 0 && k.leased(s) {
				return true
			}
		}
	}
	return false
}

// giveBack returns what the call has leased. No work request may name it any more.
func (k *Call) giveBack() {
	if k.lease.Len > 0 {
		k.host.TakeBack(k.lease)
		k.lease, k.spare = mem.Seg{}, 0
	}
	for _, s := range k.extra {
		k.host.TakeBack(s)
	}
	k.extra = k.extra[:0]
}

// addPayload is transport.Request.AddPayload.
func (k *Call) addPayload(v transport.Payload) int {
	for _, s := range v {
		if s.Len > 0 && !k.leased(s) && !partOf(s, k.scratch) {
			panic("rpcrdma: payload of a reply is not in memory leased for it")
		}
	}
	if k.added == MaxPayloads {
		panic(fmt.Sprintf("rpcrdma: more than %d payloads in a reply", MaxPayloads))
	}
	k.payloads[k.added] = v
	k.added++
	return k.added - 1
}

// leased reports whether s is part of what the call has leased, besides scratch.
func (k *Call) leased(s mem.Seg) bool {
	if partOf(s, k.lease) {
		return true
	}
	for _, o := range k.extra {
		if partOf(s, o) {
			return true
		}
	}
	return false
}

// partOf reports whether s is part of o.
func partOf(s, o mem.Seg) bool {
	return s.Arena == o.Arena && s.Off >= o.Off && s.Off+s.Len <= o.Off+o.Len
}
