package writeback

import (
	"context"
	"testing"
	"time"

	"github.com/rdmafs/rdmafs/cache/bufpool"
	"github.com/rdmafs/rdmafs/nfsclient"
)

const testBlock = 8192

var (
	alice = &Writer{nfsclient.Cred{UID: 1}, UserKey{UID: 1}, new(openings)}
	bob   = &Writer{nfsclient.Cred{UID: 2}, UserKey{UID: 2}, new(openings)}

	errLater  = &nfsclient.Error{Op: "TEST", Status: nfsclient.ErrJukebox}
	errDenied = &nfsclient.Error{Op: "TEST", Status: nfsclient.ErrAccess}
	errFull   = &nfsclient.Error{Op: "TEST", Status: nfsclient.ErrNoSpace}
)

// openings counts the references to an opening.
type openings int

func (o *openings) Hold()    { *o++ }
func (o *openings) Release() { *o-- }

// bench is a file under test, whose owner the test plays.
type bench struct {
	t        testing.TB
	f        *File
	pool     *bufpool.Pool
	now      time.Time
	lent     int
	departed []gap
}

func newBench(t testing.TB) *bench {
	pool, err := bufpool.New(bufpool.Config{Limit: 1}) // the least
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, pool: pool, now: time.Unix(1000, 0)}
	f := Make(&Config{Block: testBlock, Share: 3, MaxDirty: 1 << 20, Delay: time.Second}, b)
	b.f = &f
	t.Cleanup(func() {
		b.f.Abandon()
		if a, b := alice.Opening.(*openings), bob.Opening.(*openings); *a != 0 || *b != 0 {
			t.Errorf("references to openings are left: %d, %d", *a, *b)
			*a, *b = 0, 0
		}
		if b.lent != 0 {
			t.Errorf("%d buffers were not released", b.lent)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) Release(l bufpool.Lease) {
	l.Release()
	b.lent--
}

func (b *bench) Departed(off, end int64) { b.departed = append(b.departed, gap{off, end}) }

func (b *bench) lease(n int) bufpool.Lease {
	l, err := b.pool.Get(context.Background(), n)
	if err != nil {
		b.t.Fatal(err)
	}
	b.lent++
	return l
}

// put writes p at off, and returns how much was taken before it was blocked.
func (b *bench) put(by *Writer, off int64, p []byte) (n int) {
	var spare bufpool.Lease
	defer func() {
		if spare.Valid() {
			b.Release(spare)
		}
	}()
	for n < len(p) {
		t := b.f.Write(b.now, by, p[n:], off+int64(n), &spare)
		if t.Blocked {
			return n
		}
		n += t.N
		if t.Need > 0 {
			if spare.Valid() {
				b.Release(spare)
			}
			spare = b.lease(t.Need)
		}
	}
	return n
}

// write is put of n bytes, and says whether they were taken.
func (b *bench) write(by *Writer, off int64, n int) bool { return b.put(by, off, make([]byte, n)) == n }

// send sends what was written last.
func (b *bench) send(ok bool) *Extent {
	if !ok {
		b.t.Fatal("the bytes were not taken")
	}
	b.f.Tick(b.now, Short)
	k, _ := b.f.Next(0)
	if k < 0 {
		b.t.Fatal("nothing is to be sent")
	}
	return b.f.Send(k)
}
