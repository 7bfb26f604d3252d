package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/mounttable"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/status"
)

// listed is a mount of this host, as "rdmafs list --json" prints it.
type listed struct {
	Source     string `json:"source"`
	MountPoint string `json:"mount_point"`
	UID        uint32 `json:"uid"` // who mounted it
	// State is the daemon's word, or one of the states below.
	State     string `json:"state"`
	Transport string `json:"transport,omitempty"`
	Server    string `json:"server,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Error     string `json:"error,omitempty"` // why nothing is known

	report status.Report
}

// States of mounts whose daemon says nothing.
const (
	stateForeign  = "foreign" // of another user, whose daemon answers that one alone
	stateStuck    = "stuck"   // the daemon does not answer
	stateNoDaemon = "no_daemon"
)

func newListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the mounts of this host, and how they are",
		Long: `List the mounts of rdmafs in this mount namespace, and how they are: ok, waiting (calls wait
for longer than a moment), not_responding, not_connected, stuck (the daemon does not answer), no_daemon
(it is gone, or its socket is elsewhere), or foreign: of another user. Root sees into all of them.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return withCode(exitUsage, fmt.Errorf("list takes no arguments"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := listMounts()
			if err != nil {
				return withCode(exitSystem, err)
			}
			if asJSON {
				return plain.WriteJSON(cmd.OutOrStdout(), all)
			}
			return printList(cmd.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// listMounts asks the daemons of all mounts at once: one that is stuck costs no more than its own time.
func listMounts() ([]listed, error) {
	table, err := mounttable.Read()
	if err != nil {
		return nil, err
	}
	all := []listed{}
	for _, e := range table {
		if e.Type == "fuse.rdmafs" {
			all = append(all, listed{Source: e.Source, MountPoint: e.Dir, UID: e.UID})
		}
	}
	var asking sync.WaitGroup
	for i := range all {
		asking.Go(all[i].ask)
	}
	asking.Wait()
	return all, nil
}

// listPatience is how long each daemon may take to answer: less than Prometheus waits for an exporter.
const listPatience = 5 * time.Second

// ask has the daemon of a mount say how it is.
func (l *listed) ask() {
	if own := uint32(os.Geteuid()); own != 0 && own != l.UID {
		l.State = stateForeign
		return
	}
	b, err := control.StatsWithin(l.MountPoint, listPatience)
	if err == nil {
		err = json.Unmarshal(b, &l.report)
	}
	var stuck *control.StuckError
	switch {
	case errors.As(err, &stuck):
		l.State, l.Error = stateStuck, err.Error()
	case err != nil:
		l.State, l.Error = stateNoDaemon, err.Error()
	default:
		r := &l.report
		l.State, l.Transport, l.Server, l.PID = r.State.State, r.Transport, r.Server, r.PID
	}
}

// answered reports whether l.report is there.
func (l *listed) answered() bool { return l.PID != 0 }

func printList(to io.Writer, all []listed) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	plain.Fprintf(w, "SOURCE\tMOUNT POINT\tSTATE\tTRANSPORT\tSERVER\tUSER\tDAEMON\n")
	dash := func(s string) string {
		if s == "" {
			return "-"
		}
		return s
	}
	for i := range all {
		l := &all[i]
		pid := "-"
		if l.answered() {
			pid = fmt.Sprint(l.PID)
		}
		plain.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", l.Source, l.MountPoint, dash(l.State), dash(l.Transport), dash(l.Server), l.UID, pid)
	}
	return w.Flush()
}
