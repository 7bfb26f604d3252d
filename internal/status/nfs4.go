package status

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// NFS4 is the session of a mount of NFS version 4, and the state that the server keeps for it.
type NFS4 struct {
	Session  string `json:"session"` // its ID, in hexadecimal
	ClientID string `json:"client_id"`
	// SlotsGranted came with the session. SlotsUsable may be used now, as the server may have taken some back;
	// HighestSlot is the highest in use, -1 without any. CallsWaiting wait for one.
	SlotsGranted int `json:"slots_granted"`
	SlotsUsable  int `json:"slots_usable"`
	SlotsInUse   int `json:"slots_in_use"`
	HighestSlot  int `json:"highest_slot"`
	CallsWaiting int `json:"calls_waiting_for_slots"`
	// Connections are bound to the session: each is by its first call.
	Connections int  `json:"connections"`
	BackChannel bool `json:"back_channel"` // the server may call back
	// Lease is for how many seconds the server keeps state for a silent client, Renewed when it last was
	// heard of.
	Lease   float64   `json:"lease"`
	Renewed time.Time `json:"renewed,omitzero"`
	// What the server keeps: Openings of files, Locks (ranges), Delegations. LocalOpenings are made under those, and
	// the server is not told of them.
	Openings      int `json:"openings"`
	Locks         int `json:"locks"`
	Delegations   int `json:"delegations"`
	LocalOpenings int `json:"local_openings"`
	// Recovering: calls wait until what the server has lost is got back, which has happened Recoveries times.
	Recovering   bool      `json:"recovering"`
	Recoveries   uint64    `json:"recoveries"`
	LastRecovery *Recovery `json:"last_recovery,omitempty"`
	// What the server says of itself.
	ServerOwner          string `json:"server_owner,omitempty"` // in hexadecimal where it is no text
	ServerScope          string `json:"server_scope,omitempty"`
	ServerImplementation string `json:"server_implementation,omitempty"`
}

// Recovery is when a session or state was lost, and got back.
type Recovery struct {
	Why   string    `json:"why"`
	Began time.Time `json:"began"`
	Ended time.Time `json:"ended,omitzero"` // without one it is under way
}

// nfs4Of is what is to be seen of a client of version 4, nil for others.
func nfs4Of(client nfsclient.Client, h *reconnect.Health) *NFS4 {
	c, ok := client.(*nfs4.Client)
	if !ok {
		return nil
	}
	s := c.Seen()
	n := &NFS4{
		Session: fmt.Sprintf("%x", s.Session), ClientID: fmt.Sprintf("%016x", uint64(s.ClientID)),
		SlotsGranted: s.Granted, SlotsUsable: s.Slots, SlotsInUse: s.Busy, HighestSlot: s.HighestBusy, CallsWaiting: s.Waiting,
		Connections: h.Links, BackChannel: s.BackChannel, Lease: s.Lease.Seconds(), Renewed: s.Renewed,
		Openings: s.Opens, Locks: s.Locks, Delegations: s.Delegations, LocalOpenings: s.LocalOpens, Recovering: s.Recovering, Recoveries: s.Recoveries,
		ServerOwner: words(s.Owner), ServerScope: words(s.Scope), ServerImplementation: words(s.Implementation),
	}
	if !s.Last.Began.IsZero() {
		n.LastRecovery = &Recovery{s.Last.Why, s.Last.Began, s.Last.Ended}
	}
	return n
}

// words is what a server says of itself, bounded; servers put bytes there, too.
func words(s string) string {
	const most = 128
	s = s[:min(len(s), most)]
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '\ufffd' }) {
		return fmt.Sprintf("%x", s)
	}
	return s
}

// printNFS4 prints, for a tabwriter, the session and what the server keeps.
func printNFS4(w io.Writer, n *NFS4) {
	if n == nil {
		return
	}
	back := "no back channel"
	if n.BackChannel {
		back = "back channel"
	}
	plain.Fprintf(w, "session\t%s, client %s, %d connections, %s\n", n.Session, n.ClientID, n.Connections, back)
	highest := ""
	if n.HighestSlot >= 0 {
		highest = fmt.Sprintf(" (highest %d)", n.HighestSlot)
	}
	plain.Fprintf(w, "slots\t%d granted, %d usable, %d in use%s, %d calls wait for one\n", n.SlotsGranted, n.SlotsUsable, n.SlotsInUse, highest, n.CallsWaiting)
	renewed := ""
	if !n.Renewed.IsZero() {
		renewed = ", renewed " + n.Renewed.Format(time.DateTime)
	}
	plain.Fprintf(w, "lease\t%g s%s\n", n.Lease, renewed)
	plain.Fprintf(w, "state\t%d openings, %d locks, %d delegations (%d openings under them)\n", n.Openings, n.Locks, n.Delegations, n.LocalOpenings)
	switch l := n.LastRecovery; {
	case l == nil:
		plain.Fprintf(w, "recoveries\tnone\n")
	case l.Ended.IsZero():
		plain.Fprintf(w, "recoveries\t%d, one under way since %s: %s\n", n.Recoveries, l.Began.Format(time.DateTime), l.Why)
	default:
		plain.Fprintf(w, "recoveries\t%d, the last at %s, within %v: %s\n", n.Recoveries, l.Began.Format(time.DateTime), l.Ended.Sub(l.Began).Round(time.Millisecond), l.Why)
	}
}
