package workload

import (
	"maps"
	"testing"
)

const exampleStats = `device rootfs mounted on / with fstype rootfs
device server:/a mounted on /a with fstype nfs statvers=1.1
	opts:	rw,vers=3
	per-op statistics
	        NULL: 1 1 0 44 24 0 0 0 0
	     GETATTR: 10 10 0 1120 1120 0 1 1 0
device server:/b mounted on /b with fstype nfs statvers=1.1
	opts:	rw,vers=3
	bytes:	1 2 3
	RPC iostats version: 1.1  p/v: 100003/3 (nfs)
	xprt:	tcp 0 1 2 0 0 10 10 0 10 0 2 0 0
	per-op statistics
	        NULL: 1 1 0 44 24 0 0 0 0
	        READ: 5 6 0 1120 1120 0 1 1 0
	       WRITE: 2 2 0 1120 1120 0 1 1 0
device proc mounted on /proc with fstype proc
`

func TestKernelOperations(t *testing.T) {
	for dir, want := range map[string]map[string]uint64{"/a": {"NULL": 1, "GETATTR": 10}, "/b": {"NULL": 1, "READ": 5, "WRITE": 2}} {
		if ops, err := kernelOperations([]byte(exampleStats), dir); err != nil || !maps.Equal(ops, want) {
			t.Errorf("%s: %v, %v, want %v", dir, ops, err, want)
		}
	}
	for _, dir := range []string{"/", "/c"} {
		if ops, err := kernelOperations([]byte(exampleStats), dir); err == nil {
			t.Errorf("%s: %v", dir, ops)
		}
	}
}
