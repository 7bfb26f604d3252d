package workload

import (
	"fmt"
	"regexp"

	"golang.org/x/sys/unix"
)

// All are the workloads, in the order in which they leave one another what they need.
// Each wants a place whose caches are empty.
func All() []*Workload {
	mib := func(name string, prepare, do func(r *Run) error) *Workload {
		return &Workload{Name: name, Unit: "MiB/s", Bytes: true, prepare: prepare, do: do}
	}
	requests := func(name string, do func(r *Run) error) *Workload {
		return &Workload{Name: name, Unit: "IOPS", prepare: (*Run).haveLarge, do: do}
	}
	files := func(name string, prepare, do func(r *Run) error) *Workload {
		return &Workload{Name: name, Unit: "files/s", prepare: prepare, do: do}
	}
	all := []*Workload{
		mib("sequential write, O_DIRECT", (*Run).withoutLarge, streamWrite(unix.O_DIRECT)),
		mib("sequential write and fsync", (*Run).withoutLarge, streamWrite(0)),
		mib("sequential read, cold", (*Run).haveLarge, streamRead(0)),
		mib("sequential read, O_DIRECT", (*Run).haveLarge, streamRead(unix.O_DIRECT)),
		mib("sequential read, O_DIRECT, aio 8", (*Run).haveLarge, streamReadDeep(8)),
	}
	for _, d := range []struct {
		name  string
		write bool
	}{{"random read 4 KiB, ", false}, {"random write 4 KiB, ", true}} {
		all = append(all,
			requests(d.name+"depth 1", randomOne(d.write)),
			requests(d.name+"16 threads", randomThreads(16, d.write)),
			requests(d.name+"64 threads", randomThreads(64, d.write)),
			requests(d.name+"aio 16", randomQueue(16, d.write)),
			requests(d.name+"aio 64", randomQueue(64, d.write)))
	}
	return append(all,
		files("create", (*Run).emptySmall, createFiles(nil)),
		files("create + write 4 KiB", (*Run).emptySmall, createFiles(make([]byte, page))),
		files("stat, cold", (*Run).haveSmall, (*Run).stat),
		files("stat, warm", (*Run).haveSmall, (*Run).statWarm),
		files("open + read + close", (*Run).haveSmall, (*Run).openReadClose),
		files("rename", (*Run).haveSmall, (*Run).rename),
		files("unlink", (*Run).haveSmall, (*Run).unlink),
		files("mkdir", (*Run).emptyDirs, (*Run).mkdir),
		files("rmdir", (*Run).haveDirs, (*Run).rmdir),
		files("ls, names only", (*Run).haveList, (*Run).names),
		files("ls and stat each", (*Run).haveList, (*Run).namesAndStat),
		files("ls -l", (*Run).haveList, (*Run).lsLong),
		files("untar", (*Run).withoutTree, (*Run).untar),
		files("tar -c, cold", (*Run).haveTree, (*Run).tar),
		files("rm -rf", (*Run).haveTree, (*Run).rmTree),
		files("git clone", (*Run).withoutClone, (*Run).gitClone),
		files("git status, cold", (*Run).haveClone, (*Run).gitStatus),
	)
}

// ReadThreads is random reading of 4 KiB from n threads, for any n.
func ReadThreads(n int) *Workload {
	return &Workload{Name: fmt.Sprintf("random read 4 KiB, %d threads", n), Unit: "IOPS", prepare: (*Run).haveLarge, do: randomThreads(n, false)}
}

// Named is the one of All with that name; there must be one.
func Named(name string) *Workload {
	for _, w := range All() {
		if w.Name == name {
			return w
		}
	}
	panic("no workload " + name)
}

// Matching are those of All whose names match.
func Matching(names *regexp.Regexp) []*Workload {
	var some []*Workload
	for _, w := range All() {
		if names.MatchString(w.Name) {
			some = append(some, w)
		}
	}
	return some
}
