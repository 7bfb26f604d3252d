package doctor

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient"
	"github.com/rdmafs/rdmafs/verbs/mem"
)

// sizes are those of the transfers: the least that fills packets and RDMA
// operations, and the most that a mount moves at once.
var sizes = []int{64 << 10, 1 << 20}

// removeTimeout bounds the removal of the file that was made.
const removeTimeout = 5 * time.Second

// data asks for the caller's rights, and moves data both ways over the mounted
// export. For writing, and for a lock, it makes a file in the export's top directory,
// and removes it again.
func (e *examination) data(all context.Context, c Contact) (steps []Step) {
	ctx, cancel := context.WithTimeout(all, e.Timeout)
	defer cancel()
	d := &directory{Client: c.Client(), cred: e.Cred}
	if err := d.askRights(ctx); err != nil {
		return []Step{e.failed("rights", err)}
	}
	if e.Write {
		d.create(ctx)
	}
	steps = append(steps, d.step())
	if e.version == 4 {
		step, grace := e.grace(c, d)
		if steps = append(steps, step...); grace {
			return steps
		}
		steps = append(steps, e.owners(ctx, c, d)...)
	}
	if d.file != "" {
		defer d.remove()
	}
	steps = append(steps, e.transfers(ctx, d)...)
	if mtu := c.LoweredMTU(); mtu > 0 {
		steps = append(steps, warning("path MTU", fmt.Sprintf("RoCE packets of more than %d bytes are lost on the way", mtu),
			"a mount finds that out, too, and takes some seconds for it: have the same MTU on this host, the server and all between them"))
	}
	return append(steps, e.askLocks(all, d))
}

// create makes the file that data is written to.
func (d *directory) create(ctx context.Context) {
	name := fmt.Sprintf(".rdmafs-doctor-%016x", rand.Uint64())
	mode := uint32(0o600)
	m, err := d.Create(ctx, d.cred, d.h, name, nfsclient.SetAttr{Mode: &mode}, true, 0)
	if err != nil {
		d.why = err
		return
	}
	d.name, d.file, d.made = name, string(m.Handle), m.Attr
}

// remove removes the file, even if the examination was cancelled.
func (d *directory) remove() {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	_, _ = d.Remove(ctx, d.cred, d.h, d.name)
}

// transfers is a step for each size.
func (e *examination) transfers(ctx context.Context, d *directory) (steps []Step) {
	most := slices.Max(sizes)
	arena, err := mem.NewArena(2 * most)
	if err == nil {
		defer arena.Close()
		err = d.Register(arena)
	}
	if err != nil {
		return []Step{e.failed("transfer", err)}
	}
	defer d.Unregister(arena)
	var found []nfsclient.Dirent
	if d.file == "" {
		found = d.files(ctx)
	}
	for _, n := range sizes {
		name := fmt.Sprintf("transfer of %d KiB", n>>10)
		start := time.Now()
		what, err := "written and read back", error(nil)
		if d.file != "" {
			err = d.roundTrip(ctx, arena, n)
		} else {
			what, err = "read of a file that is there", d.readAny(ctx, found, arena.Seg(0, n))
		}
		switch {
		case errors.Is(err, errNoFile):
			steps = append(steps, skipped(name, "nothing was to be written, and no file in the export's top directory is large enough to be read"))
		case err != nil:
			what, remedy := e.Explain(err)
			if remedy == "" && ctx.Err() != nil {
				remedy = "small messages pass and large ones do not: is the MTU the same on the whole path?"
			}
			return append(steps, failure(name, what, remedy))
		default:
			steps = append(steps, ok(name, fmt.Sprintf("%s in %s", what, time.Since(start).Round(10*time.Microsecond))))
		}
	}
	return steps
}

var (
	errNoFile = errors.New("no file to read")
	errBytes  = errors.New("the bytes read back are not those that were written")
)

// retryWrite is the time before another WRITE where the server asks for that.
const retryWrite = 200 * time.Millisecond

// roundTrip writes n bytes and reads them back.
func (d *directory) roundTrip(ctx context.Context, a *mem.Arena, n int) error {
	h := nfsclient.Handle(d.file)
	out, in := a.Seg(0, n), a.Seg(a.Len()/2, n)
	for k, b := 0, out.Bytes(); k < n; k++ {
		b[k] = byte(rand.Uint32())
	}
	for done := 0; done < n; {
		piece := out.Slice(done, min(n-done, d.Info().WriteMax))
		r, err := d.Client.Write(ctx, d.cred, h, nil, uint64(done), mem.Vec{piece}, nfsclient.FileSync)
		if s, _ := nfsclient.StatusOf(err); s == nfsclient.ErrJukebox {
			// The server asks to try later.
			select {
			case <-time.After(retryWrite):
				continue
			case <-ctx.Done():
			}
		}
		if err != nil {
			return err
		}
		if r.N <= 0 {
			return fmt.Errorf("a WRITE of %d bytes wrote %d", piece.Len, r.N)
		}
		done += r.N
	}
	if err := d.read(ctx, h, in); err != nil {
		return err
	}
	if !bytes.Equal(out.Bytes(), in.Bytes()) {
		return errBytes
	}
	return nil
}

// read fills to from the start of a file.
func (d *directory) read(ctx context.Context, h nfsclient.Handle, to mem.Seg) error {
	for done := 0; done < to.Len; {
		piece := to.Slice(done, min(to.Len-done, d.Info().ReadMax))
		r, err := d.Client.Read(ctx, d.cred, h, nil, uint64(done), mem.Vec{piece})
		if err != nil {
			return err
		}
		if r.N <= 0 {
			return fmt.Errorf("the file ends at %d bytes", done)
		}
		done += r.N
	}
	return nil
}

// files are those at the beginning of the directory, the largest first.
func (d *directory) files(ctx context.Context) (found []nfsclient.Dirent) {
	part, err := d.ReadDir(ctx, d.cred, d.h, nfsclient.DirPos{}, true)
	if err != nil {
		return nil
	}
	for _, f := range part.Entries {
		if f.Handle != "" && f.Attr != nil && f.Attr.Type == nfsclient.Regular {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b nfsclient.Dirent) int { return cmp.Compare(b.Attr.Size, a.Attr.Size) })
	return found
}

// readAny reads the first of the files that is large enough and may be read.
func (d *directory) readAny(ctx context.Context, files []nfsclient.Dirent, to mem.Seg) error {
	for _, f := range files {
		if f.Attr.Size < uint64(to.Len) {
			break
		}
		err := d.read(ctx, f.Handle, to)
		if s, answered := nfsclient.StatusOf(err); answered && s != nfsclient.OK {
			continue // another's, or gone
		}
		return err
	}
	return errNoFile
}
