package nfstest

import (
	"fmt"
	"sync"

	"github.com/rdmafs/rdmafs/nfsclient"
)

func testReadDirEmpty(e *env) {
	for _, plus := range []bool{false, true} {
		if got := e.list(e.dir, plus); len(got) != 0 {
			e.Errorf("%v", got)
		}
		_, err := e.c.ReadDir(e.ctx, e.cr, e.create("file"), nfsclient.DirPos{}, plus)
		e.status("READDIR of a file", err, nfsclient.ErrNotDir)
		_, err = e.c.Remove(e.ctx, e.cr, e.dir, "file")
		e.check(err)
	}
}

// A directory of many parts, listed with and without attributes.
func testReadDir(e *env) {
	want := e.fill(3000)
	for _, plus := range []bool{false, true} {
		e.listed(want, plus)
	}
}

// fill makes n files in the test's directory, several at once, and returns
// their names' file ids.
func (e *env) fill(n int) map[string]uint64 {
	e.Helper()
	const workers = 8
	ids := make([]uint64, n)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() { e.runFill(ids, w, workers) })
	}
	wg.Wait()
	if e.Failed() {
		e.FailNow()
	}
	names := map[string]uint64{}
	for i, id := range ids {
		names[fillName(i)] = id
	}
	return names
}

func fillName(i int) string { return fmt.Sprintf("file-%d-%0*d", i, i%60+1, 0) }

func (e *env) runFill(ids []uint64, first, step int) {
	for i := first; i < len(ids); i += step {
		m, err := e.c.Create(e.ctx, e.cr, e.dir, fillName(i), nfsclient.SetAttr{}, false, 0)
		if err != nil {
			e.Error(err)
			return
		}
		ids[i] = m.Attr.FileID
	}
}

// listed asserts that the test's directory has these entries and no others.
func (e *env) listed(want map[string]uint64, plus bool) {
	e.Helper()
	got := e.list(e.dir, plus)
	if len(got) != len(want) {
		e.Errorf("%d entries listed, %d made (plus %v)", len(got), len(want), plus)
	}
	handles := 0
	for name, id := range want {
		d, ok := got[name]
		switch {
		case !ok:
			e.Fatalf("%s is not listed", name)
		case d.FileID != id:
			e.Fatalf("%s: file id %d listed, %d made", name, d.FileID, id)
		case d.Attr != nil && (d.Attr.FileID != id || d.Attr.Type != nfsclient.Regular):
			e.Fatalf("%s: attributes %+v", name, d.Attr)
		}
		if d.Handle == "" {
			continue
		}
		if handles++; handles%100 == 1 {
			if a := e.attr(d.Handle); a.FileID != id {
				e.Errorf("%s: its handle leads to %d", name, a.FileID)
			}
		}
	}
	if plus && handles == 0 {
		e.Log("server gives no handles in READDIRPLUS")
	}
}

// A listing can be resumed at every cookie, also after entries were removed.
func testReadDirResume(e *env) {
	const n = 200
	e.fill(n)
	var all []nfsclient.Dirent
	var verf nfsclient.Verifier
	for pos := (nfsclient.DirPos{}); ; {
		p, err := e.c.ReadDir(e.ctx, e.cr, e.dir, pos, false)
		e.check(err)
		all, verf = append(all, p.Entries...), p.Verifier
		if p.EOF {
			break
		}
		pos = nfsclient.DirPos{Cookie: all[len(all)-1].Cookie, Verifier: p.Verifier}
	}
	for i := 0; i < len(all)-1; i += 17 {
		p, err := e.c.ReadDir(e.ctx, e.cr, e.dir, nfsclient.DirPos{Cookie: all[i].Cookie, Verifier: verf}, i%2 == 0)
		e.check(err)
		if len(p.Entries) == 0 || p.Entries[0].Name != all[i+1].Name {
			e.Errorf("from the cookie of entry %d: %d entries, wrong first", i, len(p.Entries))
		}
	}
	last := nfsclient.DirPos{Cookie: all[len(all)-1].Cookie, Verifier: verf}
	p, err := e.c.ReadDir(e.ctx, e.cr, e.dir, last, false)
	e.check(err)
	if len(p.Entries) != 0 || !p.EOF {
		e.Errorf("from the last cookie: %d entries, end %v", len(p.Entries), p.EOF)
	}
	// Entries that are not removed during a listing are listed exactly once.
	removed := 0
	for pos := (nfsclient.DirPos{}); ; {
		p, err := e.c.ReadDir(e.ctx, e.cr, e.dir, pos, false)
		if s, _ := nfsclient.StatusOf(err); s == nfsclient.ErrBadCookie {
			pos = nfsclient.DirPos{}
			continue
		}
		e.check(err)
		for _, d := range p.Entries {
			if d.Name != "." && d.Name != ".." {
				_, err := e.c.Remove(e.ctx, e.cr, e.dir, d.Name)
				e.check(err)
				removed++
			}
		}
		if p.EOF {
			break
		}
		pos = nfsclient.DirPos{Cookie: p.Entries[len(p.Entries)-1].Cookie, Verifier: p.Verifier}
	}
	if left := len(e.list(e.dir, false)); removed != n || left != 0 {
		e.Errorf("%d of %d entries removed while listing, %d left", removed, n, left)
	}
}
