package cache

import (
	"context"

	"github.com/rdmafs/rdmafs/nfsclient"
)

// Append writes src at the end of the file; off is where the kernel believes
// that to be. Like the Linux client it asks the server for the size if the
// attributes have expired. What it has written elsewhere than at off, the
// kernel is told to drop: it has put the bytes into its pages at off.
//
// Between the answer and the WRITE another machine may append at the same
// place: NFSv3 has no call that appends. Within the mount no two do.
func (f *File) Append(ctx context.Context, src []byte, off int64) (int, error) {
	if f.mode.Write && len(src) > 0 && f.i.expired() {
		if err := f.c.revalidate(ctx, f.cr, f.i); err != nil {
			return 0, err
		}
	}
	return f.writeOrAppend(ctx, src, off, true)
}

// end is where the file ends, with what is not written yet; mu is held.
func (i *Inode) end() int64 {
	return max(int64(min(i.node.Size, uint64(maxOffset))), i.wb.End())
}

// place is where n bytes go that the kernel has put at off: there, or at the
// end. mu is held.
func (i *Inode) place(off int64, n int, atEnd bool) (int64, error) {
	if atEnd {
		off = i.end()
	}
	if int64(n) > maxOffset-off {
		return off, localError("WRITE", nfsclient.ErrFBig)
	}
	return off, nil
}
