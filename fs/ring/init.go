package ring

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	protocolMajor = 7
	// protocolMinor is the first that has FUSE over io_uring.
	protocolMinor = 42

	// wanted are the capabilities that are asked for besides those of the options:
	// what go-fuse asks for, but for passthrough, and the rings.
	wanted = fuse.CAP_ASYNC_READ | fuse.CAP_BIG_WRITES | fuse.CAP_FILE_OPS | fuse.CAP_READDIRPLUS | fuse.CAP_NO_OPEN_SUPPORT |
		fuse.CAP_PARALLEL_DIROPS | fuse.CAP_MAX_PAGES | fuse.CAP_OVER_IO_URING
)

// initialize reads INIT from device and answers it. If the kernel does not offer
// rings, it leaves it unanswered.
func initialize(device *os.File, o *fuse.MountOptions) (*fuse.InitIn, error) {
	buf := make([]byte, minPayload)
	n, err := readMessage(device, buf)
	if err != nil {
		return nil, fmt.Errorf("reading INIT: %w", err)
	}
	r := newRequest(nil, nil, nil)
	const oldLen = inHeaderLen + 16 // before minor version 36
	if n < oldLen || n > int(unsafe.Sizeof(r.in)) {
		return nil, fmt.Errorf("INIT has %d bytes", n)
	}
	copy(r.bytes(), buf[:n])
	in := *(*fuse.InitIn)(unsafe.Pointer(&r.in))
	if in.Opcode != opInit || in.Major != protocolMajor {
		return nil, fmt.Errorf("the first request has opcode %d, of version %d", in.Opcode, in.Major)
	}
	if in.Flags&fuse.CAP_INIT_EXT == 0 || in.Minor < protocolMinor || in.Flags64()&fuse.CAP_OVER_IO_URING == 0 {
		return nil, errors.New("the kernel offers no rings to this mount")
	}
	out := answerInit(&in, o)
	body := unsafe.Slice((*byte)(unsafe.Pointer(&out)), unsafe.Sizeof(out))
	if st := writeMessage(device, in.Unique, fuse.OK, body); !st.Ok() {
		return nil, fmt.Errorf("answering INIT: %w", unix.Errno(st))
	}
	return &in, nil
}

// answerInit is what go-fuse answers with the same options, with the rings.
func answerInit(in *fuse.InitIn, o *fuse.MountOptions) fuse.InitOut {
	flags := in.Flags64() & (wanted | o.ExtraCapabilities)
	if o.EnableSymlinkCaching {
		flags |= in.Flags64() & fuse.CAP_CACHE_SYMLINKS
	}
	if o.ExplicitDataCacheControl {
		flags |= in.Flags64() & fuse.CAP_EXPLICIT_INVAL_DATA
	} else {
		flags |= in.Flags64() & fuse.CAP_AUTO_INVAL_DATA
	}
	flags = flags&^o.DisabledCapabilities | fuse.CAP_INIT_EXT
	page := os.Getpagesize()
	return fuse.InitOut{
		Major:               protocolMajor,
		Minor:               protocolMinor,
		MaxReadAhead:        min(in.MaxReadAhead, uint32(o.MaxReadAhead)),
		Flags:               uint32(flags),
		Flags2:              uint32(flags >> 32),
		MaxWrite:            uint32(o.MaxWrite),
		MaxBackground:       uint16(o.MaxBackground),
		CongestionThreshold: uint16(o.MaxBackground * 3 / 4),
		MaxPages:            uint16((o.MaxWrite + page - 1) / page),
		MaxStackDepth:       1,
	}
}
