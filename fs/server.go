package fs

import (
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/rdmafs/rdmafs/fs/ring"
)

// How requests come from the kernel.
const (
	OverDevice = "dev"  // by reading /dev/fuse
	OverRing   = "ring" // by io_uring
)

// server is what FS needs of what talks to the kernel: a *fuse.Server or a
// *ring.Server.
type server interface {
	Serve()
	Wait()
	KernelSettings() *fuse.InitIn
	InodeNotify(node uint64, off, length int64) fuse.Status
	PruneNotify(nodes []uint64) fuse.Status
}

// mountServer mounts, and has the kernel told what the server can do.
func (f *FS) mountServer(plan *mountPlan, o *fuse.MountOptions) error {
	if f.cfg.Over == OverRing {
		return f.mountRing(plan, o)
	}
	return f.mountDevice(plan, o)
}

// mountDevice mounts, and has go-fuse read /dev/fuse.
func (f *FS) mountDevice(plan *mountPlan, o *fuse.MountOptions) error {
	device, err := plan.mount()
	if err != nil {
		return err
	}
	lent, err := lend(device)
	if err == nil {
		f.server, err = fuse.NewServer(f, lent, o)
	}
	if err != nil {
		device.Close()
		plan.undo()
		return err
	}
	f.device, f.over, f.guard = device, OverDevice, plan.guard
	f.settle(f.server.KernelSettings())
	return nil
}

// mountRing mounts, and has requests come by io_uring. If it fails nothing is
// mounted.
func (f *FS) mountRing(plan *mountPlan, o *fuse.MountOptions) error {
	if err := ring.Available(); err != nil {
		return err
	}
	device, err := plan.mount()
	if err != nil {
		return err
	}
	s, err := ring.New(f, device, o, f.cfg.Log)
	if err == nil {
		f.server, f.device, f.over, f.guard = s, device, OverRing, plan.guard
		f.watch.loseInterrupts()
		// The kernel may wait for requests of this very queue before it takes a
		// notification: some of the queue's entries must be free to serve them.
		f.invalidating = make(chan struct{}, min(maxInvalidating, s.FirstEntries()/2))
		f.settle(s.KernelSettings())
		if err = s.Register(); err == nil { // requests are served from here on
			return nil
		}
	}
	f.undoRing(plan, device, s)
	return err
}

// undoRing ends a mount whose rings could not be had. s may be nil.
func (f *FS) undoRing(plan *mountPlan, device *os.File, s *ring.Server) {
	plan.undo()
	if s != nil {
		s.Wait()
	}
	device.Close()
}

// Over is how requests come: OverDevice or OverRing.
func (f *FS) Over() string { return f.over }
