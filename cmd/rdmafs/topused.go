package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/control"
	"github.com/rdmafs/rdmafs/internal/plain"
	"github.com/rdmafs/rdmafs/transport/account"
)

// usedKey is whom top counts for: a process, or a file, of a mount.
type usedKey struct {
	mount string
	pid   uint32
	name  string // of the process, or the file's path
	node  uint64
}

// usedRow is what one has asked for, all in all or per second.
type usedRow struct {
	usedKey
	requests, read, written float64
}

// maxUsedRows is how many rows top prints.
const maxUsedRows = 30

// usedTop is top by process or by file.
type usedTop struct {
	by     string
	before map[usedKey]fs.Used
	at     time.Time
}

// askUsed has all mounts say who asks for what. Those that do not answer are left out.
func askUsed(all []listed) map[string][]fs.Used {
	var asking sync.WaitGroup
	var mu sync.Mutex
	used := make(map[string][]fs.Used)
	for i := range all {
		if !all[i].answered() {
			continue
		}
		asking.Go(func() {
			b, err := control.Used(all[i].MountPoint, listPatience)
			var u []fs.Used
			if err == nil && json.Unmarshal(b, &u) == nil {
				mu.Lock()
				used[all[i].MountPoint] = u
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	return used
}

// rows are what each has asked for a second since the last call, those that asked the most first.
func (u *usedTop) rows(used map[string][]fs.Used, now time.Time) (rows []usedRow) {
	sums := make(map[usedKey]fs.Used)
	for mount, all := range used {
		for _, one := range all {
			key := usedKey{mount: mount, pid: one.PID, name: one.Process}
			if u.by == "file" {
				key = usedKey{mount: mount, name: one.Path, node: one.Node}
			}
			s := sums[key]
			s.Requests += one.Requests
			s.BytesRead += one.BytesRead
			s.BytesWritten += one.BytesWritten
			sums[key] = s
		}
	}
	if !u.at.IsZero() {
		seconds := max(now.Sub(u.at).Seconds(), 1e-3)
		for key, s := range sums {
			was := u.before[key]
			row := usedRow{key, float64(account.Grown(s.Requests, was.Requests)) / seconds, float64(account.Grown(s.BytesRead, was.BytesRead)) / seconds,
				float64(account.Grown(s.BytesWritten, was.BytesWritten)) / seconds}
			if row.requests > 0 || row.read+row.written > 0 {
				rows = append(rows, row)
			}
		}
	}
	u.before, u.at = sums, now
	slices.SortFunc(rows, func(a, b usedRow) int {
		return cmp.Or(cmp.Compare(b.read+b.written, a.read+a.written), cmp.Compare(b.requests, a.requests), cmp.Compare(a.mount, b.mount), cmp.Compare(a.name, b.name), cmp.Compare(a.pid, b.pid))
	})
	return rows[:min(len(rows), maxUsedRows)]
}

// print prints rows for people.
func (u *usedTop) print(to io.Writer, rows []usedRow) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	if u.by == "file" {
		plain.Fprintf(w, "READ KB/S\tWRITTEN KB/S\tREQUESTS/S\tFILE\tMOUNT POINT\n")
	} else {
		plain.Fprintf(w, "READ KB/S\tWRITTEN KB/S\tREQUESTS/S\tPID\tPROCESS\tMOUNT POINT\n")
	}
	for k := range rows {
		r := &rows[k]
		plain.Fprintf(w, "%.1f\t%.1f\t%.0f\t", r.read/1000, r.written/1000, r.requests)
		switch {
		case u.by == "file" && r.node == 0:
			plain.Fprintf(w, "others\t%s\n", r.mount)
		case u.by == "file":
			plain.Fprintf(w, "%s\t%s\n", cmp.Or(r.name, "not known any more"), r.mount)
		default:
			plain.Fprintf(w, "%d\t%s\t%s\n", r.pid, cmp.Or(r.name, "kernel, or ended"), r.mount)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(to)
	return err
}
