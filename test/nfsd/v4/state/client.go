package state

import (
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// client is a client record (RFC 8881 section 18.35.4). Machine.mu guards it.
type client struct {
	id        wire.ClientID
	owner     string
	verifier  nfsclient.Verifier
	principal string
	confirmed bool
	// createSeq is the sequence id of the last CREATE_SESSION that was carried out,
	// created what it answered; createStatus is its status, ErrSeqMisordered before the
	// first.
	createSeq    uint32
	createStatus wire.Status
	created      wire.CreateSession
	// completed: RECLAIM_COMPLETE has come.
	completed bool
	expires   time.Time
	calls     int // under way; the lease does not end meanwhile
	sessions  map[wire.SessionID]*session
	holdings  map[*holding]bool
	// revoked are the holdings that the client has not acknowledged to be gone.
	revoked map[*holding]bool
	waiting []*waiter
	// allExpired: all state was taken at once, see ExpireState.
	allExpired bool
}

// exchangeFlags are those of EXCHANGE_ID that a client may set.
const exchangeFlags = wire.ExchangeSuppMovedRefer | wire.ExchangeSuppMovedMigr | wire.ExchangeSuppFenceOps |
	wire.ExchangeBindPrincStateid | wire.ExchangeUseNonPNFS | wire.ExchangeUsePNFSMDS | wire.ExchangeUsePNFSDS |
	wire.ExchangeUpdConfirmedRecA

// ExchangeID is EXCHANGE_ID (section 18.35). c is nil outside a session. State protection
// other than SP4_NONE is refused: it needs RPCSEC_GSS.
func (m *Machine) ExchangeID(p Peer, c *Call, a *wire.ExchangeID) wire.Status {
	m.enter()
	defer m.leave()
	if a.Flags&^exchangeFlags != 0 || a.Protect.How != wire.ProtectNone {
		return errInval
	}
	cl, st := m.exchange(p, a)
	if st != wire.OK {
		return st
	}
	a.ClientID, a.SequenceID, a.ResFlags = cl.id, cl.createSeq+1, wire.ExchangeUseNonPNFS
	if cl.confirmed {
		a.ResFlags |= wire.ExchangeConfirmedR
	}
	a.ResProtect = wire.Protect{}
	a.ServerMajor, a.ServerScope = m.cfg.Owner, m.cfg.Owner
	return wire.OK
}

// exchange finds or makes the record that EXCHANGE_ID asks for, by the cases of section
// 18.35.4. mu is held.
func (m *Machine) exchange(p Peer, a *wire.ExchangeID) (*client, wire.Status) {
	confirmed, unconfirmed := m.records(string(a.Owner))
	update := a.Flags&wire.ExchangeUpdConfirmedRecA != 0
	same := confirmed != nil && confirmed.verifier == a.Verifier
	mine := confirmed != nil && confirmed.principal == p.Principal
	switch {
	case update && confirmed == nil:
		return nil, nfsclient.ErrNoEnt // case 7
	case update && !same:
		return nil, wire.ErrNotSame // case 8
	case update && !mine:
		return nil, nfsclient.ErrPerm // case 9
	case same && mine:
		return confirmed, wire.OK // cases 2 and 6
	case confirmed != nil && !mine:
		if len(confirmed.holdings) > 0 {
			return nil, wire.ErrClientIDInUse // case 3
		}
		m.drop(confirmed)
	}
	if unconfirmed != nil {
		m.drop(unconfirmed) // case 4
	}
	// Cases 1 and 5. The old record of a client that has restarted is kept until the
	// new one is confirmed.
	cl := &client{
		id:    wire.ClientID(uint64(m.boot)<<32 | m.next()&(1<<32-1)),
		owner: string(a.Owner), verifier: a.Verifier, principal: p.Principal,
		createStatus: wire.ErrSeqMisordered,
		expires:      m.now.Add(m.cfg.Lease), sessions: map[wire.SessionID]*session{}, holdings: map[*holding]bool{}, revoked: map[*holding]bool{},
	}
	m.clients[cl.id] = cl
	return cl, wire.OK
}

// records are the client records of an owner. mu is held.
func (m *Machine) records(owner string) (confirmed, unconfirmed *client) {
	for _, c := range m.clients {
		switch {
		case c.owner != owner:
		case c.confirmed:
			confirmed = c
		default:
			unconfirmed = c
		}
	}
	return confirmed, unconfirmed
}

// drop forgets a client and all it has. mu is held.
func (m *Machine) drop(c *client) {
	delete(m.clients, c.id)
	for _, s := range c.sessions {
		m.end(s)
	}
	m.unwait(c, func(*waiter) bool { return true })
	// Locks before their opens.
	for h := range c.holdings {
		if h.kind == isLock {
			m.remove(h)
		}
	}
	for h := range c.holdings {
		m.remove(h)
	}
}

// DestroyClientID is DESTROY_CLIENTID (section 18.50).
func (m *Machine) DestroyClientID(p Peer, c *Call, a *wire.DestroyClientID) wire.Status {
	m.enter()
	defer m.leave()
	cl := m.clients[a.ClientID]
	switch {
	case cl == nil:
		return wire.ErrStaleClientID
	case len(cl.sessions) > 0 || len(cl.holdings) > 0:
		return wire.ErrClientIDBusy
	}
	m.drop(cl)
	return wire.OK
}
