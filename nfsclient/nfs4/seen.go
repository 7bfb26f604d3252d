package nfs4

import "github.com/rdmafs/rdmafs/nfsclient/nfs4/session"

// Seen is what is to be seen of a Client: its session, and how much state the server keeps for it.
type Seen struct {
	session.Info
	// Opens are openings of files, Locks ranges of files that are locked, Delegations what the server has delegated.
	Opens, Locks, Delegations int
	// LocalOpens are openings under delegations, of which the server is not told.
	LocalOpens int
}

// Seen is a snapshot.
func (c *Client) Seen() Seen {
	s := Seen{Info: c.ses.Info()}
	t := &c.state
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Delegations = t.delegs.used.Len()
	for e := t.delegs.used.Front(); e != nil; e = e.Next() {
		s.LocalOpens += len(e.Value.(*delegation).local)
	}
	s.Opens = len(t.opens) - s.LocalOpens
	for _, l := range t.locks {
		s.Locks += len(l.set)
	}
	return s
}
