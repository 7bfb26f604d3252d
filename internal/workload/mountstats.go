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
func KernelCalls(dir string) (n uint64, err error) {
	ops, err := KernelOperations(dir)
	for _, v := range ops {
		n += v
	}
	return n, err
}

// KernelOperations is how many calls of each procedure, or operation of NFS version 4, it has made.
func KernelOperations(dir string) (map[string]uint64, error) {
	b, err := os.ReadFile("/proc/self/mountstats")
	if err != nil {
		return nil, err
	}
	return kernelOperations(b, dir)
}

// kernelOperations is the first number of each operation's line: those that
// were begun. Of several mounts on a directory the last one is seen.
func kernelOperations(stats []byte, dir string) (ops map[string]uint64, err error) {
	here, counting := false, false
	for s := bufio.NewScanner(bytes.NewReader(stats)); s.Scan(); {
		f := strings.Fields(s.Text())
		switch {
		case len(f) > 4 && f[0] == "device" && f[2] == "mounted":
			here = f[4] == dir && strings.Contains(s.Text(), "with fstype nfs")
			counting = false
			if here {
				ops = map[string]uint64{}
			}
		case here && len(f) == 2 && f[0] == "per-op":
			counting = true
		case counting && len(f) > 1 && strings.HasSuffix(f[0], ":"):
			v, err := strconv.ParseUint(f[1], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("mountstats of %s: %w", dir, err)
			}
			ops[strings.TrimSuffix(f[0], ":")] = v
		}
	}
	if ops == nil {
		return nil, fmt.Errorf("mountstats has no NFS mount on %s", dir)
	}
	return ops, nil
}
