package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/transport"
)

// status is what a daemon tells of its mount.
type status struct {
	dir string
	s   *session.Session
}

// report is status at one moment, as "rdmafs stats --json" prints it.
type report struct {
	inForce
	Calls transport.Stats
}

// inForce is what holds of a mount, as "rdmafs status --json" prints it.
type inForce struct {
	Source     string
	MountPoint string
	PID        int
	Transport  string           // "rdma/iwarp" or "tcp"
	Server     string           // address and port
	Device     string           `json:",omitempty"` // RDMA device
	Keys       string           `json:",omitempty"` // what the server is given: "window" or "region"
	RDMA       *transport.Terms `json:",omitempty"` // agreed on with the server
	LoweredMTU int              `json:",omitempty"` // path MTU of RoCE, where the route's did not pass
	Version    string           // of NFS
	RSize      int
	WSize      int
	NConnect   int
	ReadOnly   bool
	Soft       bool
	Timeo      float64 // seconds
	Retrans    int
	Buffers    int    // bytes that the buffers may take
	Note       string `json:",omitempty"` // why that is less than usual
}

func newStatus(dir string, s *session.Session) *status { return &status{dir, s} }

func (st *status) snapshot() report {
	cfg, info := st.s.Config(), st.s.Client().Info()
	o := &cfg.Options
	r := report{
		inForce: inForce{
			Source:     cfg.Source.Text,
			MountPoint: st.dir,
			PID:        os.Getpid(),
			Transport:  st.s.How(),
			Server:     st.s.Server().String(),
			Version:    info.Version,
			RSize:      info.ReadMax,
			WSize:      info.WriteMax,
			NConnect:   o.NConnect,
			ReadOnly:   o.ReadOnly,
			Soft:       o.Soft,
			Timeo:      o.Timeo.Seconds(),
			Retrans:    o.Retrans,
			Buffers:    st.s.BufferBytes(),
			Note:       st.s.Note(),
			LoweredMTU: st.s.LoweredMTU(),
		},
		Calls: st.s.Stats(),
	}
	if r.Calls.Terms.Version != 0 {
		r.RDMA = &r.Calls.Terms
	}
	if k, ok := st.s.Keys(); ok {
		r.Device, r.Keys = k.Device, k.Kind
	}
	return r
}

func newStatsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stats MOUNTPOINT",
		Short: "Show how a mount's calls travelled",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return withCode(exitUsage, fmt.Errorf("stats wants one MOUNTPOINT"))
			}
			r, err := askReport(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), r)
			}
			return printReport(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// askReport has the daemon of a mount point tell of itself.
func askReport(mountPoint string) (r report, err error) {
	dir, err := mountPointArg(mountPoint)
	if err != nil {
		return r, withCode(exitUsage, err)
	}
	b, err := ask(dir, "stats")
	if err != nil {
		return r, withCode(exitFail, fmt.Errorf("%s: %w%s", mountPoint, err, remains(dir, err)))
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, withCode(exitSystem, fmt.Errorf("%s: the daemon's answer: %w", mountPoint, err))
	}
	return r, nil
}

// remains says what there is on a directory for which no daemon has answered.
func remains(dir string, err error) string {
	m, ok, _ := mounttable.Find(dir)
	var hung *stuckError
	switch {
	case errors.As(err, &hung):
		return fmt.Sprintf(" (end the mount with: rdmafs umount -f %s)", dir)
	case !errors.Is(err, errNoDaemon):
		return ""
	case !ok:
		return ": nothing is mounted there"
	case m.Type != "fuse.rdmafs":
		return fmt.Sprintf(": it is a mount of type %s", m.Type)
	case os.Geteuid() != 0 && m.UID != uint32(os.Geteuid()):
		return fmt.Sprintf(": it is a mount of %s by user %d", m.Source, m.UID)
	}
	at, err := look(dir, false)
	switch {
	case errors.Is(err, errSilent):
		return fmt.Sprintf(": what is there is a mount of %s that does not answer (end it with: rdmafs umount -f %s)", m.Source, dir)
	case at.dead():
		return fmt.Sprintf(": what is there is a dead mount of %s (end it with: rdmafs umount %s)", m.Source, dir)
	}
	return fmt.Sprintf(": what is there is a mount of %s, whose daemon has its socket elsewhere (was XDG_RUNTIME_DIR another when it was mounted?)", m.Source)
}

func printJSON(to io.Writer, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = to.Write(append(plain.JSON(b), '\n'))
	return err
}

func printReport(to io.Writer, r report) error {
	plain.Fprintf(to, "%s on %s\n", r.Source, r.MountPoint)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	c := r.Calls
	plain.Fprintf(w, "transport\t%s to %s, NFS version %s, daemon %d\n", r.Transport, r.Server, r.Version, r.PID)
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
	return w.Flush()
}
