package status

import (
	"io"
	"text/tabwriter"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/transport"
)

// PrintInForce prints what is in force for people.
func PrintInForce(to io.Writer, s InForce) error {
	choose := func(what bool, yes, no string) string {
		if what {
			return yes
		}
		return no
	}
	plain.Fprintf(to, "%s on %s\n", s.Source, s.MountPoint)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	plain.Fprintf(w, "transport\t%s to %s, NFS version %s, %d connections, daemon %d\n", s.Transport, s.Server, s.Version, s.NConnect, s.PID)
	if s.Encryption != "" {
		plain.Fprintf(w, "encryption\t%s\n", s.Encryption)
	}
	if s.Security != "" && s.Security != "sys" {
		plain.Fprintf(w, "security\t%s\n", s.Security)
	}
	if s.Device != "" {
		plain.Fprintf(w, "device\t%s, keys: %s\n", s.Device, choose(s.Keys == "region",
			"region (the server can reach all buffers while connected)", s.Keys+" (the server can reach the bytes of a call while it lasts)"))
	}
	if s.RDMA != nil {
		printTerms(w, s.RDMA)
	}
	if s.LoweredMTU > 0 {
		plain.Fprintf(w, "path MTU\t%d, as larger RoCE packets are lost on the way: is the MTU the same everywhere on it?\n", s.LoweredMTU)
	}
	plain.Fprintf(w, "requests\t%s\n", choose(s.FUSE == "ring", "by io_uring", "by /dev/fuse"))
	plain.Fprintf(w, "sizes\trsize %d, wsize %d\n", s.RSize, s.WSize)
	plain.Fprintf(w, "waiting\t%s, timeo %gs, retrans %d\n", choose(s.Soft, "soft", "hard"), s.Timeo, s.Retrans)
	plain.Fprintf(w, "access\t%s\n", choose(s.ReadOnly, "read-only", "read-write"))
	if a := s.Attributes; a.NoAC {
		plain.Fprintf(w, "attributes\tnever cached (noac)\n")
	} else {
		plain.Fprintf(w, "attributes\tcached for %g to %g s, of directories %g to %g s\n", a.AcRegMin, a.AcRegMax, a.AcDirMin, a.AcDirMax)
	}
	if s.LogPlace != "" {
		plain.Fprintf(w, "log\t%s%s\n", s.LogPlace, choose(s.Debug, ", level debug", ""))
	}
	printLocks(w, &s)
	plain.Fprintf(w, "buffers\tup to %d MiB\n", s.Buffers>>20)
	if s.Note != "" {
		plain.Fprintf(w, "note\t%s\n", s.Note)
	}
	return w.Flush()
}

// PrintReport prints a report for people.
func PrintReport(to io.Writer, r Report) error {
	plain.Fprintf(to, "%s on %s\n", r.Source, r.MountPoint)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	c := r.Calls
	plain.Fprintf(w, "transport\t%s to %s, NFS version %s, daemon %d\n", r.Transport, r.Server, r.Version, r.PID)
	if r.Encryption != "" {
		plain.Fprintf(w, "encryption\t%s\n", r.Encryption)
	}
	if r.Device != "" {
		plain.Fprintf(w, "device\t%s, keys: %s\n", r.Device, r.Keys)
	}
	plain.Fprintf(w, "sizes\trsize %d, wsize %d, nconnect %d\n", r.RSize, r.WSize, r.NConnect)
	printTerms(w, &c.Terms)
	plain.Fprintf(w, "calls\t%d, %d replies, %d resent, %d timed out\n", c.Calls, c.Replies, c.Resends, c.Timeouts)
	plain.Fprintf(w, "connections\t%d made, %d attempts failed\n", c.Connects, c.ConnectFails)
	plain.Fprintf(w, "bytes\t%d sent, %d received\n", c.BytesSent, c.BytesReceived)
	plain.Fprintf(w, "calls went\t%d inline, %d with a read chunk, %d as Position-Zero\n", c.InlineCalls, c.ReadChunks, c.PositionZero)
	plain.Fprintf(w, "replies came\t%d by write chunk, %d offered a reply chunk (%d used)\n", c.WriteChunks, c.ReplyChunks, c.LongReplies)
	if c.PaddedCalls+c.ReadReplies+c.Callbacks > 0 {
		plain.Fprintf(w, "besides\t%d calls were padded, %d replies came by read chunk, %d calls from the server\n",
			c.PaddedCalls, c.ReadReplies, c.Callbacks)
	}
	plain.Fprintf(w, "keys\t%d invalidated by the server, %d here\n", c.RemoteInvalidations, c.LocalInvalidations)
	plain.Fprintf(w, "credits\t%d granted, %d calls waited for one\n", c.Credits, c.CreditWaits)
	plain.Fprintf(w, "bad\t%d unknown XIDs, %d bad replies\n", c.BadXIDs, c.BadReplies)
	plain.Fprintf(w, "registered\t%d times, %d bytes now\n", c.Registrations, c.RegisteredBytes)
	h := &r.Cache
	plain.Fprintf(w, "cache\tattributes %d hits, %d misses; names %d, %d; data %d, %d\n", h.AttributeHits, h.AttributeMisses,
		h.NameHits, h.NameMisses, h.DataHits, h.DataMisses)
	printRequests(w, r.Requests)
	if err := w.Flush(); err != nil || len(r.Procedures) == 0 {
		return err
	}
	plain.Fprintf(to, "\n")
	return PrintProcedures(to, r.Procedures)
}

// printTerms prints, for a tabwriter, what both ends of an RDMA connection have
// agreed on.
func printTerms(w io.Writer, t *transport.Terms) {
	if t.Version == 0 {
		return // TCP
	}
	plain.Fprintf(w, "RPC-over-RDMA\tversion %d, inline threshold %d out, %d in\n", t.Version, t.InlineSend, t.InlineRecv)
	if t.Version == 2 {
		plain.Fprintf(w, "properties\treceive size %d here, %d at the server; backward calls %s here, %s at the server\n",
			t.ReceiveSize, t.PeerReceiveSize, t.Backward, t.PeerBackward)
	}
}

// printLocks prints, for a tabwriter, where locks hold.
func printLocks(w io.Writer, s *InForce) {
	switch s.Locks {
	case "all":
		plain.Fprintf(w, "locks\tthe server's\n")
	case "fcntl", "flock":
		plain.Fprintf(w, "locks\tthe server's of %s, others local to this mount\n", s.Locks)
	case "none":
		plain.Fprintf(w, "locks\tlocal to this mount\n")
	}
	switch s.LockWait {
	case "granted":
		plain.Fprintf(w, "\twaits: the server calls back\n")
	case "polling":
		plain.Fprintf(w, "\twaits: polling\n")
	}
	if s.LockNote != "" {
		plain.Fprintf(w, "\t%s\n", s.LockNote)
	}
}
