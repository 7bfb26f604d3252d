package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// The mounts, in the order of their turns.
const (
	rdmafsRDMA = "rdmafs-rdma"
	linuxRDMA  = "linux-rdma"
	rdmafsTCP  = "rdmafs-tcp"
	linuxTCP   = "linux-tcp"
)

// size is what an emulated machine does in some seconds a workload.
var size = compare.Size{FileMiB: 128, SmallFiles: 400, ListFiles: 2000, Random: 3 * time.Second}

// inside measures in the guest.
func inside(o options) error {
	source := o.inside + ":/export"
	dir, err := os.MkdirTemp("", "bench.")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	rdmafs := func(name, words string) *compare.System {
		return &compare.System{Name: name, Dir: dir,
			Mount:   func(dir string) error { return command(o.bin, "mount", source, dir, "-o", words) },
			Unmount: func(dir string) error { return command(o.bin, "umount", dir) },
		}
	}
	linux := func(name, words string) *compare.System {
		return &compare.System{Name: name, Dir: dir,
			Mount: func(dir string) error {
				return command("mount", "-t", "nfs", "-o", "vers=3,nolock,"+words, source, dir)
			},
			Unmount: func(dir string) error { return command("umount", dir) },
		}
	}
	r, err := compare.Run([]*compare.System{
		rdmafs(rdmafsRDMA, "proto=rdma,rdma=ibv"),
		linux(linuxRDMA, "proto=rdma,port=20049"),
		rdmafs(rdmafsTCP, "proto=tcp"),
		linux(linuxTCP, "proto=tcp"),
	}, o.rounds, size, func(line string) { log.Print(line) })
	if err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(o.out, b, 0o644)
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
