package status

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/transport/account"
)

// PrintProcedures prints a table of procedures, with times in milliseconds: for each of queue, rtt and execution
// the mean, the median and the 99th percentile.
func PrintProcedures(to io.Writer, all []account.Procedure) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	plain.Fprintf(w, "procedure\tcalls\terrors\tresent\tkB sent\tkB received\tqueue ms\tp50\tp99\trtt ms\tp50\tp99\texecution ms\tp50\tp99\t\n")
	for i := range all {
		p := &all[i]
		plain.Fprintf(w, "%s %s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t\n", p.Program, p.Procedure, p.Calls, p.Errors, p.Resends,
			kilobytes(p.BytesSent), kilobytes(p.BytesReceived), three(&p.Queue), three(&p.RTT), three(&p.Execution))
	}
	return w.Flush()
}

// three is mean, median and 99th percentile, as cells.
func three(t *account.Times) cells {
	return cells{milliseconds(t.Mean()) + "\t" + milliseconds(t.Quantile(0.5)) + "\t" + milliseconds(t.Quantile(0.99))}
}

// cells is made here, of numbers alone: its tabs are no peer's.
type cells struct{ text string }

func (c cells) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.text) }

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/1e6) }

func kilobytes(n uint64) string { return fmt.Sprintf("%.1f", float64(n)/1000) }

// PrintRates prints what was done in an interval, per second.
func PrintRates(to io.Writer, r Report) error {
	seconds := max(r.Age, 1e-3)
	plain.Fprintf(to, "%s on %s, %.1f s: %.0f calls/s, %.1f kB/s sent, %.1f kB/s received, %s, %d kB dirty\n", r.Source, r.MountPoint, r.Age,
		float64(r.Calls.Calls)/seconds, float64(r.Calls.BytesSent)/1000/seconds, float64(r.Calls.BytesReceived)/1000/seconds,
		strings.ReplaceAll(r.State.State, "_", " "), r.State.DirtyBytes/1000)
	if len(r.Procedures) == 0 {
		return nil
	}
	return PrintProcedures(to, r.Procedures)
}

// printRequests prints the FUSE requests for a tabwriter, the most frequent first.
func printRequests(w io.Writer, requests map[string]uint64) {
	names := make([]string, 0, len(requests))
	for name := range requests {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if requests[a] != requests[b] {
			return int(min(max(int64(requests[b])-int64(requests[a]), -1), 1))
		}
		return strings.Compare(a, b)
	})
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%d %s", requests[name], name))
	}
	if len(all) > 0 {
		plain.Fprintf(w, "FUSE requests\t%s\n", strings.Join(all, ", "))
	}
}

// PrintState prints how a mount is.
func PrintState(to io.Writer, st State) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	since := ""
	if !st.Since.IsZero() {
		since = fmt.Sprintf(" since %s", st.Since.Format(time.DateTime))
	}
	words := map[string]string{StateOK: "connected", StateWaiting: "connected, calls wait", StateNotResponding: "not responding", StateNotConnected: "not connected"}
	word, known := words[st.State]
	if !known {
		word = st.State
	}
	plain.Fprintf(w, "server\t%s%s\n", word, since)
	if st.LastError != "" {
		plain.Fprintf(w, "last error\t%s, at %s\n", st.LastError, st.LastErrorAt.Format(time.DateTime))
	}
	printNFS4(w, st.NFS4)
	plain.Fprintf(w, "dirty\t%d bytes not safe on the server yet, %d files open\n", st.DirtyBytes, st.OpenFiles)
	for _, c := range st.Calls {
		where := "sent " + fmt.Sprint(c.Sent) + " times"
		if !c.Connected {
			where = "waits for a connection"
		}
		plain.Fprintf(w, "call waits\t%s for %.1f s, %s\n", c.Procedure, c.Seconds, where)
	}
	for _, q := range st.Requests {
		who := "the kernel"
		if q.PID != 0 {
			who = fmt.Sprintf("process %d (%s)", q.PID, q.Process)
		}
		plain.Fprintf(w, "request waits\t%s of %s by %s for %.1f s\n", q.Request, q.Path, who, q.Seconds)
	}
	return w.Flush()
}
