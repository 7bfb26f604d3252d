package workload

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// KernelCalls is how many calls the kernel's own NFS client has made for a mount so
// far, by /proc/self/mountstats.
func KernelCalls(dir string) (uint64, error) {
	b, err := os.ReadFile("/proc/self/mountstats")
	if err != nil {
		return 0, err
	}
	return kernelCalls(b, dir)
}

// kernelCalls sums up the first number of each operation's line: the operations that
// were begun. Of several mounts on a directory the last one is seen.
func kernelCalls(stats []byte, dir string) (n uint64, err error) {
	found, here, counting := false, false, false
	for s := bufio.NewScanner(bytes.NewReader(stats)); s.Scan(); {
		f := strings.Fields(s.Text())
		switch {
		case len(f) > 4 && f[0] == "device" && f[2] == "mounted":
			here = f[4] == dir && strings.Contains(s.Text(), "with fstype nfs")
			counting = false
			if here {
				n, found = 0, true
			}
		case here && len(f) == 2 && f[0] == "per-op":
			counting = true
		case counting && len(f) > 1 && strings.HasSuffix(f[0], ":"):
			v, err := strconv.ParseUint(f[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("mountstats of %s: %w", dir, err)
			}
			n += v
		}
	}
	if !found {
		return 0, fmt.Errorf("mountstats has no NFS mount on %s", dir)
	}
	return n, nil
}
