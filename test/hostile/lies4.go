package hostile

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Lies4 are all lies about results of NFS version 4.
func Lies4() []Lie {
	return []Lie{
		{Name: "numbers", About: "sizes, file ids, modes, link counts, owners and times without sense", Seldom: true, Apply4: absurdNumbers4},
		{Name: "sizes", About: "each file has 2^64-1 bytes", Apply4: func(_ *rand.Rand, c *wire.Compound) bool {
			return attributes4(c, func(a *wire.Attrs) { a.Size, a.SpaceUsed = 1<<64-1, 1<<64-1 })
		}},
		{Name: "types", About: "types that change from call to call", Seldom: true, Apply4: func(r *rand.Rand, c *wire.Compound) bool {
			return attributes4(c, func(a *wire.Attrs) { a.Type = nfsclient.FileType(1 + r.IntN(9)) })
		}},
		{Name: "fileids", About: "everything has the same file id", Apply4: func(_ *rand.Rand, c *wire.Compound) bool {
			return attributes4(c, func(a *wire.Attrs) { a.FileID, a.MountedOnFileID = 7, 7 })
		}},
		{Name: "file systems", About: "each answer is of another file system", Seldom: true, Apply4: func(r *rand.Rand, c *wire.Compound) bool {
			return attributes4(c, func(a *wire.Attrs) { a.FSID = wire.FSID{Major: r.Uint64(), Minor: r.Uint64N(2)} })
		}},
		{Name: "changes", About: "change attributes that stand still, go back, or are new with each answer", Apply4: otherChanges},
		{Name: "handles", About: "handles that are another's, empty or too long", Seldom: true, Apply4: otherHandles4},
		{Name: "names", About: "names that are empty, hold / or NUL, or are too long", Seldom: true, Apply4: func(r *rand.Rand, c *wire.Compound) bool {
			return listings4(c, func(d *wire.ReadDir) {
				for i := range d.Entries {
					d.Entries[i].Name = otherName(r)
				}
			})
		}},
		{Name: "cookies", About: "cookies that repeat", Seldom: true, Apply4: func(r *rand.Rand, c *wire.Compound) bool {
			return listings4(c, func(d *wire.ReadDir) {
				d.EOF = r.IntN(4) == 0
				for i := range d.Entries {
					d.Entries[i].Cookie = []uint64{0, 1, 2, uint64(i), 1<<64 - 1, d.Entries[i].Cookie}[r.IntN(6)]
				}
			})
		}},
		{Name: "same cookie", About: "a listing that comes back to its beginning for ever", Apply4: func(_ *rand.Rand, c *wire.Compound) bool {
			return listings4(c, func(d *wire.ReadDir) {
				d.EOF = false
				for i := range d.Entries {
					d.Entries[i].Cookie = 3
				}
			})
		}},
		{Name: "endless", About: "a listing that goes on for ever with new names", Apply4: endlessListing4},
		{Name: "no data", About: "a READ before the end of a file that brings nothing", Apply4: func(_ *rand.Rand, c *wire.Compound) bool {
			return results4(c, func(o wire.Operation) bool {
				d, ok := o.(*wire.Read)
				if ok {
					d.EOF, d.Data = false, wire.Inline(nil)
				}
				return ok
			})
		}},
		{Name: "counts", About: "counts of bytes written or copied, and places of data, that cannot be", Seldom: true, Apply4: otherCounts4},
		{Name: "verifiers", About: "a write verifier that is new with each answer", Waits: true, Apply4: newVerifiers4},
		{Name: "delay", About: "everything is to be asked again later", Waits: true, Apply4: func(_ *rand.Rand, c *wire.Compound) bool {
			return fail4(c, 1, wire.ErrDelay)
		}},
		{Name: "statuses", About: "statuses that have nothing to do with the operation", Seldom: true, Apply4: func(r *rand.Rand, c *wire.Compound) bool {
			return c.Done > 1 && fail4(c, 1+r.IntN(c.Done-1), anyStatus(r))
		}},
		{Name: "session", About: "answers of SEQUENCE that contradict the call, or fail", Seldom: true, Apply4: otherSequence},
		{Name: "stateids", About: "stateids that are another's, old, or none", Seldom: true, Apply4: otherStateids},
		{Name: "delegations", About: "delegations that nobody asked for, all by one stateid, recalled at once or not", Apply4: otherDelegations},
		{Name: "fields", About: "any value in any field", Seldom: true, Apply4: anyField4},
	}
}

func absurdNumbers4(r *rand.Rand, c *wire.Compound) bool {
	big := []uint64{0, 1<<63 - 1, 1 << 63, 1<<64 - 1, r.Uint64()}
	one := func() uint64 { return big[r.IntN(len(big))] }
	owners := []string{"", "4294967295", "18446744073709551616", "-1", "nobody@nowhere", strings.Repeat("o", 1000), "root@"}
	return attributes4(c, func(a *wire.Attrs) {
		a.Size, a.SpaceUsed, a.FileID, a.MountedOnFileID, a.Change = one(), one(), one(), one(), one()
		a.SpaceAvail, a.SpaceFree, a.SpaceTotal, a.FilesAvail, a.FilesFree, a.FilesTotal = one(), one(), one(), one(), one(), one()
		a.NumLinks, a.Mode = r.Uint32(), r.Uint32()
		a.Owner, a.OwnerGroup = owners[r.IntN(len(owners))], owners[r.IntN(len(owners))]
		at := []wire.Time{{Sec: -1 << 63, Nsec: 1<<32 - 1}, {Sec: 1<<63 - 1}, {Sec: int64(r.Uint64()), Nsec: r.Uint32()}}[r.IntN(3)]
		a.TimeAccess, a.TimeModify, a.TimeMetadata, a.TimeCreate = at, at, at, at
	})
}

func otherChanges(r *rand.Rand, c *wire.Compound) bool {
	change := func() uint64 { return []uint64{0, 5, 1<<64 - 1, r.Uint64()}[r.IntN(4)] }
	info := func(i *wire.ChangeInfo) {
		*i = wire.ChangeInfo{Atomic: r.IntN(2) == 0, Before: change(), After: change()}
	}
	other := results4(c, func(o wire.Operation) bool {
		switch o := o.(type) {
		case *wire.Open:
			info(&o.Change)
		case *wire.Create:
			info(&o.Change)
		case *wire.Rename:
			info(&o.FromDir)
			info(&o.ToDir)
		default:
			return false
		}
		return true
	})
	return attributes4(c, func(a *wire.Attrs) { a.Change = change() }) || other
}

func otherHandles4(r *rand.Rand, c *wire.Compound) bool {
	other := results4(c, func(o wire.Operation) bool {
		f, ok := o.(*wire.GetFH)
		if ok {
			otherHandle(r, &f.Handle)
		}
		return ok
	})
	return attributes4(c, func(a *wire.Attrs) { otherHandle(r, &a.Filehandle) }) || other
}

// endlessListing4 gives an entry another name and cookie each time, and no end.
func endlessListing4(r *rand.Rand, c *wire.Compound) bool {
	return listings4(c, func(d *wire.ReadDir) {
		if d.EOF = false; len(d.Entries) == 0 {
			d.Entries = []wire.Entry{{}}
		}
		for i := range d.Entries {
			e := &d.Entries[i]
			e.Cookie, e.Attrs.FileID = r.Uint64()|1<<40, r.Uint64()
			e.Name = fmt.Sprintf("%08x", r.Uint32())
		}
	})
}

func otherCounts4(r *rand.Rand, c *wire.Compound) bool {
	return results4(c, func(o wire.Operation) bool {
		switch o := o.(type) {
		case *wire.Write:
			o.Count = []uint32{0, 1, o.Count + 1, o.Count - 1, 1<<32 - 1}[r.IntN(5)]
			o.Committed = nfsclient.Stable(r.IntN(4))
			o.Verifier[0] = byte(r.IntN(2))
		case *wire.Copy:
			o.Copied = []uint64{0, 1, o.Copied + 1, 1 << 63, 1<<64 - 1}[r.IntN(5)]
			o.HasCallback = r.IntN(2) == 0
		case *wire.Seek:
			o.EOF, o.At = r.IntN(2) == 0, []uint64{0, o.Offset, 1<<63 - 1, 1 << 63, 1<<64 - 1}[r.IntN(5)]
		default:
			return false
		}
		return true
	})
}

func newVerifiers4(r *rand.Rand, c *wire.Compound) bool {
	return results4(c, func(o wire.Operation) bool {
		var v *nfsclient.Verifier
		switch o := o.(type) {
		case *wire.Write:
			v, o.Committed = &o.Verifier, nfsclient.Unstable
		case *wire.Copy:
			v, o.Committed = &o.Verifier, nfsclient.Unstable
		case *wire.Commit:
			v = &o.Verifier
		default:
			return false
		}
		binary.BigEndian.PutUint64(v[:], r.Uint64())
		return true
	})
}

// otherSequence leaves most calls alone: each of these lies may cost the session.
func otherSequence(r *rand.Rand, c *wire.Compound) bool {
	if len(c.Ops) == 0 || r.IntN(3) != 0 {
		return false
	}
	s, ok := c.Ops[0].(*wire.Sequence)
	if st, answered := c.Outcome(0); !ok || !answered || st != wire.OK {
		return false
	}
	switch r.IntN(8) {
	case 0:
		return fail4(c, 0, anyStatus(r))
	case 1:
		s.ResSlot = []uint32{s.ResSlot + 1, 1<<32 - 1}[r.IntN(2)]
	case 2:
		s.ResSequenceID += []uint32{1, 1<<32 - 1, 77}[r.IntN(3)]
	case 3:
		s.ResSession[r.IntN(len(s.ResSession))]++
	case 4:
		s.TargetHighestSlot = []uint32{0, 1<<32 - 1}[r.IntN(2)]
	case 5:
		s.ResHighestSlot = []uint32{0, 1<<32 - 1}[r.IntN(2)]
	case 6:
		s.StatusFlags = r.Uint32()
	default:
		s.StatusFlags = 1 << r.IntN(14)
	}
	return true
}

func otherStateids(r *rand.Rand, c *wire.Compound) bool {
	same := wire.Stateid{Seqid: 1, Other: [12]byte{5: 1}}
	other := func(st *wire.Stateid) {
		*st = []wire.Stateid{{}, wire.CurrentStateid, wire.InvalidStateid, same, {Seqid: r.Uint32(), Other: st.Other}}[r.IntN(5)]
	}
	return results4(c, func(o wire.Operation) bool {
		switch o := o.(type) {
		case *wire.Open:
			other(&o.Stateid)
			other(&o.Delegation.Stateid)
		case *wire.Lock:
			other(&o.Stateid)
		case *wire.LockU:
			other(&o.ResStateid)
		case *wire.Close:
			other(&o.ResStateid)
		case *wire.Copy:
			other(&o.Callback)
		default:
			return false
		}
		return true
	})
}

func otherDelegations(r *rand.Rand, c *wire.Compound) bool {
	return results4(c, func(o wire.Operation) bool {
		f, ok := o.(*wire.Open)
		if ok {
			f.Delegation = wire.Delegation{Type: wire.DelegType(r.IntN(4)), Stateid: wire.Stateid{Seqid: 1, Other: [12]byte{1}}, Recall: r.IntN(4) == 0,
				LimitBy: wire.LimitSize, Limit: []uint64{0, 1<<64 - 1}[r.IntN(2)]}
		}
		return ok
	})
}

// anyField4 is anyField for version 4. Sets of attributes stay, as they say how what follows is encoded.
func anyField4(r *rand.Rand, c *wire.Compound) bool {
	var fields []reflect.Value
	results4(c, func(o wire.Operation) bool {
		collect(reflect.ValueOf(o).Elem(), &fields)
		return true
	})
	if len(fields) == 0 {
		return false
	}
	spoil(r, fields[r.IntN(len(fields))])
	return true
}
