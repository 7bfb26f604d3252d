package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/internal/status"
	"github.com/rdmafs/rdmafs/transport/account"
)

func newTopCommand() *cobra.Command {
	r := repeat{interval: 1}
	var batch bool
	var sortBy, record, by string
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what all mounts do, again and again",
		Long: `Show what all mounts of this host do, again and again until interrupted (^C): calls and bytes per
second, the mean and the 99th percentile of how long calls took, their most frequent procedures, and what waits
for a server: path, process and for how long. The first report is of the time since each mount.

The screen is cleared before each report unless --batch is given or the output is no terminal.

--by process and --by file show who reads and writes how much, and how many requests the kernel makes for whom: 30 rows, by bytes.
What the kernel's cache answers is not seen. A daemon counts this from the first report on, which is therefore empty, while it is asked.

--record writes an HTML file at the end, with throughput, calls, how long they took, and procedures of each mount, over the
time that it ran: one file, without scripts, to look at or to send.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return withCode(exitUsage, fmt.Errorf("top takes no arguments"))
			}
			less, known := topOrders[sortBy]
			if by != "mount" && by != "process" && by != "file" {
				return withCode(exitUsage, fmt.Errorf("--by wants mount, process or file"))
			}
			if !known {
				return withCode(exitUsage, fmt.Errorf("--sort wants calls, bytes, time or name"))
			}
			file, recorded := (*pageFile)(nil), &recording{begin: time.Now()}
			if record != "" {
				var err error
				if file, err = newPageFile(record); err != nil {
					return withCode(exitSystem, err)
				}
			}
			used := &usedTop{by: by}
			wipe := !batch && isTerminal(os.Stdout)
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			before := make(map[string]status.Report)
			err := r.each(ctx, func(int) error {
				all, err := listMounts()
				if err != nil {
					return withCode(exitSystem, err)
				}
				rows := topRows(all, before)
				recorded.add(rows, time.Now())
				slices.SortStableFunc(rows, less)
				if wipe {
					_, _ = io.WriteString(cmd.OutOrStdout(), "\x1b[H\x1b[2J")
				}
				if by != "mount" {
					return used.print(cmd.OutOrStdout(), used.rows(askUsed(all), time.Now()))
				}
				return printTop(cmd.OutOrStdout(), rows)
			})
			switch {
			case file == nil:
				return err
			case err != nil:
				file.drop()
				return err
			}
			return withCode(exitSystem, file.write(recorded.page(time.Now())))
		},
	}
	cmd.Flags().BoolVarP(&batch, "batch", "b", false, "do not clear the screen")
	cmd.Flags().StringVar(&sortBy, "sort", "calls", "order: calls, bytes, time or name")
	cmd.Flags().StringVar(&by, "by", "mount", "what a row is of: mount, process or file")
	cmd.Flags().StringVar(&record, "record", "", "write an HTML report to this file at the end")
	r.add(cmd)
	return cmd
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// topRow is a mount, and what it has done since the last report.
type topRow struct {
	mount               listed
	did                 status.Report
	differs             bool    // did is of the time since the last report, not since the mount
	calls, bytes, spent float64 // per second; spent in seconds
	mean, longest       float64 // milliseconds
	frequent            string
}

// topOrders are the orders of rows.
var topOrders = map[string]func(a, b topRow) int{
	"calls": func(a, b topRow) int { return cmp.Compare(b.calls, a.calls) },
	"bytes": func(a, b topRow) int { return cmp.Compare(b.bytes, a.bytes) },
	"time":  func(a, b topRow) int { return cmp.Compare(b.spent, a.spent) },
	"name":  func(a, b topRow) int { return cmp.Compare(a.mount.MountPoint, b.mount.MountPoint) },
}

// topRows are the mounts with what they have done since before, which it brings up to date.
func topRows(all []listed, before map[string]status.Report) []topRow {
	rows, now := make([]topRow, 0, len(all)), make(map[string]status.Report)
	for _, l := range all {
		row := topRow{mount: l}
		if l.answered() {
			row.did = l.report
			if was, had := before[l.MountPoint]; had {
				row.did, row.differs = l.report.Since(&was), true
			}
			now[l.MountPoint] = l.report
			row.sum()
		}
		rows = append(rows, row)
	}
	clear(before)
	maps.Copy(before, now)
	return rows
}

func (t *topRow) sum() {
	seconds := max(t.did.Age, 1e-3)
	t.calls = float64(t.did.Calls.Calls) / seconds
	t.bytes = (float64(t.did.Calls.BytesSent) + float64(t.did.Calls.BytesReceived)) / seconds
	procedures := slices.Clone(t.did.Procedures)
	var all account.Times
	for i := range procedures {
		all.Merge(&procedures[i].Execution)
	}
	t.spent = float64(all.SumNS) / 1e9 / seconds
	t.mean, t.longest = float64(all.Mean())/1e6, float64(all.Quantile(0.99))/1e6
	slices.SortStableFunc(procedures, func(a, b account.Procedure) int { return cmp.Compare(b.Calls, a.Calls) })
	for i := range procedures[:min(len(procedures), 3)] {
		if i > 0 {
			t.frequent += ", "
		}
		t.frequent += fmt.Sprintf("%s %.0f/s", procedures[i].Procedure, float64(procedures[i].Calls)/seconds)
	}
}

func printTop(to io.Writer, rows []topRow) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	plain.Fprintf(w, "MOUNT POINT\tSTATE\tCALLS/S\tKB/S\tMEAN MS\tP99 MS\tDIRTY KB\tMOST FREQUENT\n")
	for i := range rows {
		t := &rows[i]
		plain.Fprintf(w, "%s\t%s\t%.0f\t%.1f\t%.2f\t%.2f\t%d\t%s\n", t.mount.MountPoint, t.mount.State, t.calls, t.bytes/1000, t.mean, t.longest,
			t.did.State.DirtyBytes/1000, t.frequent)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range rows {
		for _, q := range rows[i].did.State.Requests {
			plain.Fprintf(to, "waits %.1f s: %s of %s on %s by process %d (%s)\n", q.Seconds, q.Request, q.Path, rows[i].mount.MountPoint, q.PID, q.Process)
		}
	}
	plain.Fprintf(to, "\n")
	return nil
}
