//go:build cgo && linux

package ibv

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// Available returns what keeps this process from using any adapter, or nil. The
// error is an *UnavailableError if the system lacks something.
func Available() error { return available() }

// InspectWindows asks a device, which need not be in use, for its windows.
func InspectWindows(device string) (Windows, error) {
	if err := available(); err != nil {
		return Windows{}, err
	}
	name := C.CString(device)
	defer C.free(unsafe.Pointer(name))
	var w C.struct_rv_windows
	if err := errno(C.rv_windows(name, &w)); err != nil {
		return Windows{}, fmt.Errorf("RDMA device %s cannot be opened: %w", device, err)
	}
	return Windows{Type1: w.type1 != 0, Type2A: w.type2a != 0, Type2B: w.type2b != 0, Usable: w.usable != 0}, nil
}
