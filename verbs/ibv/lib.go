//go:build cgo && linux

package ibv

/*
#cgo CFLAGS: -O2 -Wall
#cgo LDFLAGS: -ldl
#cgo noescape rv_post_send
#cgo nocallback rv_post_send
#cgo noescape rv_post_recv
#cgo nocallback rv_post_recv
#cgo noescape rv_poll
#cgo nocallback rv_poll
#cgo noescape rv_cq_events
#cgo nocallback rv_cq_events
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// load opens rdma-core's libraries, once in a process.
var load = sync.OnceValue(func() error {
	var why [512]C.char
	if C.rv_load(&why[0], C.int(len(why))) < 0 {
		return &UnavailableError{
			Missing: "rdma-core is not installed: " + C.GoString(&why[0]),
			Remedy:  "install libibverbs1, librdmacm1 and ibverbs-providers",
		}
	}
	return nil
})

// available returns what keeps this process from using any adapter, or nil.
func available() error {
	if err := load(); err != nil {
		return err
	}
	n := C.rv_devices()
	err := errno(n)
	switch {
	case errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.ENOENT):
		return &UnavailableError{
			Missing: "the kernel has no RDMA support loaded",
			Remedy:  "as root: modprobe -a ib_uverbs rdma_ucm, and the adapter's driver",
		}
	case err != nil:
		return &UnavailableError{Missing: "RDMA devices cannot be listed: " + err.Error(), Remedy: "look at /sys/class/infiniband and /dev/infiniband"}
	case n == 0:
		return &UnavailableError{
			Missing: "there is no RDMA device",
			Remedy:  "load the adapter's driver, or make a software one with: rdma link add rxe0 type rxe netdev eth0",
		}
	}
	return nil
}

// errno turns what the shim returns into an error; nil when r is not negative.
func errno[T ~int32](r T) error {
	if r >= 0 {
		return nil
	}
	return syscall.Errno(-r)
}

// newChannel makes an event channel of the connection manager.
func newChannel() (*C.struct_rdma_event_channel, int, error) {
	var ch *C.struct_rdma_event_channel
	fd := C.rv_channel(&ch)
	err := errno(fd)
	switch {
	case errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENOENT):
		return nil, 0, &UnavailableError{
			Missing: "the RDMA connection manager is not there",
			Remedy:  "as root: modprobe rdma_ucm; in a container, give it /dev/infiniband/rdma_cm",
		}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return nil, 0, &UnavailableError{
			Missing: "/dev/infiniband/rdma_cm cannot be opened: " + err.Error(),
			Remedy:  "this user needs read and write permission for it",
		}
	case err != nil:
		return nil, 0, fmt.Errorf("RDMA connection manager: %w", err)
	}
	return ch, int(fd), nil
}

func goString(b []C.char) string {
	s := unsafe.Slice((*byte)(unsafe.Pointer(&b[0])), len(b))
	text, _, _ := strings.Cut(string(s), "\x00")
	return text
}
