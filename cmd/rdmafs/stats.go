package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/transport"
)

// status is what a daemon tells of its mount.
type status struct {
	m *mountArgs
	s *session
}

// report is status at one moment, as "rdmafs stats --json" prints it.
type report struct {
	Source     string
	MountPoint string
	PID        int
	Transport  string // "rdma/iwarp" or "tcp"
	Server     string // address and port
	Version    string // of NFS
	RSize      int
	WSize      int
	NConnect   int
	Calls      transport.Stats
}

func newStatus(m *mountArgs, s *session) *status { return &status{m, s} }

func (st *status) snapshot() report {
	return report{
		Source:     st.m.src.text,
		MountPoint: st.m.dir,
		PID:        os.Getpid(),
		Transport:  st.s.how,
		Server:     st.s.addr.String(),
		Version:    st.s.client.Info().Version,
		RSize:      st.s.client.Info().ReadMax,
		WSize:      st.s.client.Info().WriteMax,
		NConnect:   st.m.opts.nconnect,
		Calls:      st.s.caller.Stats(),
	}
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
			dir, err := mountPointArg(args[0])
			if err != nil {
				return withCode(exitUsage, err)
			}
			conn, err := dialControl(dir, "stats")
			if err != nil {
				return withCode(exitFail, fmt.Errorf("%s: %w", args[0], err))
			}
			defer conn.Close()
			b, err := io.ReadAll(conn)
			if err != nil {
				return withCode(exitFail, fmt.Errorf("%s: %w", args[0], err))
			}
			if asJSON {
				_, err = cmd.OutOrStdout().Write(b)
				return err
			}
			var r report
			if err := json.Unmarshal(b, &r); err != nil {
				return withCode(exitSystem, fmt.Errorf("%s: the daemon's answer: %w", args[0], err))
			}
			return printReport(cmd.OutOrStdout(), r)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// mountPointArg is the absolute name of a mount point, found without touching
// the mount itself, whose server may be gone.
func mountPointArg(arg string) (string, error) {
	abs, err := filepath.Abs(arg)
	if err != nil {
		return "", err
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, filepath.Base(abs)), nil
}

func printReport(to io.Writer, r report) error {
	fmt.Fprintf(to, "%s on %s\n", r.Source, r.MountPoint)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	c := r.Calls
	fmt.Fprintf(w, "transport\t%s to %s, NFS version %s, daemon %d\n", r.Transport, r.Server, r.Version, r.PID)
	fmt.Fprintf(w, "sizes\trsize %d, wsize %d, nconnect %d\n", r.RSize, r.WSize, r.NConnect)
	printTerms(w, c.Terms)
	fmt.Fprintf(w, "calls\t%d, %d replies, %d resent, %d timed out\n", c.Calls, c.Replies, c.Resends, c.Timeouts)
	fmt.Fprintf(w, "connections\t%d made, %d attempts failed\n", c.Connects, c.ConnectFails)
	fmt.Fprintf(w, "bytes\t%d sent, %d received\n", c.BytesSent, c.BytesReceived)
	fmt.Fprintf(w, "calls went\t%d inline, %d with a read chunk, %d as Position-Zero\n", c.InlineCalls, c.ReadChunks, c.PositionZero)
	fmt.Fprintf(w, "replies came\t%d by write chunk, %d offered a reply chunk (%d used)\n", c.WriteChunks, c.ReplyChunks, c.LongReplies)
	if c.PaddedCalls+c.ReadReplies+c.Callbacks > 0 {
		fmt.Fprintf(w, "besides\t%d calls were padded, %d replies came by read chunk, %d calls from the server\n",
			c.PaddedCalls, c.ReadReplies, c.Callbacks)
	}
	fmt.Fprintf(w, "keys\t%d invalidated by the server, %d here\n", c.RemoteInvalidations, c.LocalInvalidations)
	fmt.Fprintf(w, "credits\t%d granted, %d calls waited for one\n", c.Credits, c.CreditWaits)
	fmt.Fprintf(w, "bad\t%d unknown XIDs, %d bad replies\n", c.BadXIDs, c.BadReplies)
	return w.Flush()
}
