package hostile

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/nfsclient/nfs3/wire"
)

// Lies are all lies about results.
func Lies() []Lie {
	return []Lie{
		{Name: "numbers", About: "sizes, file ids, modes, link counts and times without sense", Seldom: true, Apply: absurdNumbers},
		{Name: "sizes", About: "each file has 2^64-1 bytes", Apply: hugeSizes},
		{Name: "types", About: "types that change from call to call", Seldom: true, Apply: otherTypes},
		{Name: "fileids", About: "everything has the same file id", Apply: sameFileIDs},
		{Name: "handles", About: "handles that are empty, another's or too long", Seldom: true, Apply: otherHandles},
		{Name: "names", About: "names that are empty, hold / or NUL, or are too long", Seldom: true, Apply: otherNames},
		{Name: "cookies", About: "cookies that repeat", Seldom: true, Apply: otherCookies},
		{Name: "same cookie", About: "a listing that comes back to its beginning for ever", Apply: sameCookie},
		{Name: "endless", About: "a listing that goes on for ever with new names", Apply: endlessListing},
		{Name: "counts", About: "counts of bytes read or written that cannot be", Seldom: true, Apply: otherCounts},
		{Name: "verifiers", About: "a write verifier that is new with each answer", Waits: true, Apply: newVerifiers},
		{Name: "jukebox", About: "everything is to be asked again later", Waits: true, Apply: jukebox},
		{Name: "statuses", About: "statuses that have nothing to do with the call", Seldom: true, Apply: otherStatuses},
		{Name: "fields", About: "any value in any field", Seldom: true, Apply: anyField},
	}
}

// attributes has f change every attribute in res.
func attributes(res wire.Message, f func(*wire.Attr)) bool {
	switch m := res.(type) {
	case *wire.GetAttrRes:
		f(&m.Attr)
	case *wire.WccRes:
		f(&m.Wcc.After.Attr)
	case *wire.LookupRes:
		f(&m.Attr.Attr)
		f(&m.Dir.Attr)
	case *wire.AccessRes:
		f(&m.Attr.Attr)
	case *wire.ReadDirRes:
		f(&m.Dir.Attr)
		for i := range m.Entries {
			f(&m.Entries[i].Attr.Attr)
		}
	case *wire.WriteRes:
		f(&m.Wcc.After.Attr)
	case *wire.MadeRes:
		f(&m.Attr.Attr)
	case *wire.LinkRes:
		f(&m.Attr.Attr)
	default:
		return false
	}
	return true
}

func absurdNumbers(r *rand.Rand, _ uint32, res wire.Message) bool {
	return attributes(res, func(a *wire.Attr) {
		big := []uint64{0, 1<<63 - 1, 1 << 63, 1<<64 - 1, r.Uint64()}
		a.Size, a.Used = big[r.IntN(len(big))], big[r.IntN(len(big))]
		a.FileID, a.FSID = big[r.IntN(len(big))], big[r.IntN(len(big))]
		a.Nlink, a.Mode, a.UID = r.Uint32(), r.Uint32(), 1<<32-1
		a.Mtime, a.Ctime = wire.Time{Sec: r.Uint32(), Nsec: 1<<32 - 1}, wire.Time{Sec: 1<<32 - 1, Nsec: r.Uint32()}
	})
}

func hugeSizes(_ *rand.Rand, _ uint32, res wire.Message) bool {
	return attributes(res, func(a *wire.Attr) { a.Size, a.Used = 1<<64-1, 1<<64-1 })
}

func otherTypes(r *rand.Rand, _ uint32, res wire.Message) bool {
	return attributes(res, func(a *wire.Attr) { a.Type = nfsclient.FileType(1 + r.IntN(7)) })
}

func sameFileIDs(_ *rand.Rand, _ uint32, res wire.Message) bool {
	if m, ok := res.(*wire.ReadDirRes); ok {
		for i := range m.Entries {
			m.Entries[i].FileID = 7
		}
	}
	return attributes(res, func(a *wire.Attr) { a.FileID = 7 })
}

func otherHandle(r *rand.Rand, h *nfsclient.Handle) {
	*h = []nfsclient.Handle{"", "x", *h + *h, nfsclient.Handle(strings.Repeat("h", 1000)), *h}[r.IntN(5)]
}

func otherHandles(r *rand.Rand, _ uint32, res wire.Message) bool {
	switch m := res.(type) {
	case *wire.LookupRes:
		otherHandle(r, &m.Handle)
	case *wire.ReadDirRes:
		same := r.IntN(2) == 0
		for i := range m.Entries {
			if same {
				m.Entries[i].Handle = m.Entries[0].Handle
			} else {
				otherHandle(r, &m.Entries[i].Handle.Handle)
			}
		}
	case *wire.MadeRes:
		otherHandle(r, &m.Handle.Handle)
	default:
		return false
	}
	return true
}

func otherName(r *rand.Rand) string {
	names := []string{"", ".", "..", "a/b", "/", "a\x00", "\xff\xfe", "\n", strings.Repeat("n", 1024), strings.Repeat("n", 300), "file1"}
	return names[r.IntN(len(names))]
}

func otherNames(r *rand.Rand, _ uint32, res wire.Message) bool {
	m, ok := res.(*wire.ReadDirRes)
	if !ok {
		return false
	}
	for i := range m.Entries {
		m.Entries[i].Name = otherName(r)
	}
	return true
}

func otherCookies(r *rand.Rand, _ uint32, res wire.Message) bool {
	m, ok := res.(*wire.ReadDirRes)
	if !ok {
		return false
	}
	m.EOF = r.IntN(4) == 0
	for i := range m.Entries {
		m.Entries[i].Cookie = []uint64{0, 1, uint64(i), 1<<64 - 1, m.Entries[i].Cookie}[r.IntN(5)]
	}
	return true
}

func sameCookie(_ *rand.Rand, _ uint32, res wire.Message) bool {
	m, ok := res.(*wire.ReadDirRes)
	if !ok {
		return false
	}
	m.EOF = false
	for i := range m.Entries {
		m.Entries[i].Cookie = 1
	}
	return true
}

// endlessListing gives an entry another name and cookie each time, and no end.
func endlessListing(r *rand.Rand, _ uint32, res wire.Message) bool {
	m, ok := res.(*wire.ReadDirRes)
	if !ok {
		return false
	}
	if m.EOF = false; len(m.Entries) == 0 {
		m.Entries = []wire.Entry{{}}
	}
	for i := range m.Entries {
		e := &m.Entries[i]
		e.Cookie, e.FileID = r.Uint64()|1<<40, r.Uint64()
		e.Name = fmt.Sprintf("%08x", r.Uint32())
	}
	return true
}

func otherCounts(r *rand.Rand, _ uint32, res wire.Message) bool {
	switch m := res.(type) {
	case *wire.WriteRes:
		m.Count = []uint32{0, 1, m.Count + 1, m.Count - 1, 1<<32 - 1}[r.IntN(5)]
		m.Committed = nfsclient.Stable(r.IntN(4))
		m.Verifier[0] = byte(r.IntN(2))
	case *wire.ReadRes:
		m.Count = []uint32{0, 1, 1 << 31, 1<<32 - 1, r.Uint32()}[r.IntN(5)]
	default:
		return false
	}
	return true
}

func newVerifiers(r *rand.Rand, _ uint32, res wire.Message) bool {
	var v *nfsclient.Verifier
	switch m := res.(type) {
	case *wire.WriteRes:
		v, m.Committed = &m.Verifier, nfsclient.Unstable
	case *wire.CommitRes:
		v = &m.Verifier
	default:
		return false
	}
	binary.BigEndian.PutUint64(v[:], r.Uint64())
	return true
}

func jukebox(_ *rand.Rand, _ uint32, res wire.Message) bool {
	return setStatus(res, nfsclient.ErrJukebox)
}

func otherStatuses(r *rand.Rand, _ uint32, res wire.Message) bool {
	all := []nfsclient.Status{nfsclient.ErrPerm, nfsclient.ErrNoEnt, nfsclient.ErrIO, nfsclient.ErrExist, nfsclient.ErrNotDir,
		nfsclient.ErrIsDir, nfsclient.ErrStale, nfsclient.ErrBadHandle, nfsclient.ErrNotSync, nfsclient.ErrBadCookie, nfsclient.ErrTooSmall,
		nfsclient.ErrServerFault, nfsclient.ErrBadType, nfsclient.ErrNoSpace, 12345, 1<<32 - 1}
	return setStatus(res, all[r.IntN(len(all))])
}
