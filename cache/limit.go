package cache

import "github.com/rdmafs/rdmafs/nfsclient"

// fit is the start of src that a file has room for behind off, by the size that
// the server allows: as write(2) has it, what does not fit is left out, and
// EFBIG when nothing does. A write error at fsync would come too late.
func (c *Cache) fit(src []byte, off int64) ([]byte, error) {
	if off < 0 || off >= c.maxSize && len(src) > 0 {
		return nil, localError("WRITE", nfsclient.ErrFBig)
	}
	return src[:min(int64(len(src)), max(0, c.maxSize-off))], nil
}
