package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"github.com/rdmafs/rdmafs/internal/workload"
	"github.com/rdmafs/rdmafs/test/bench/compare"
)

// The mounts, in the order of their turns.
const (
	rdmafsRDMA = "rdmafs-rdma"
	linuxRDMA  = "linux-rdma"
	rdmafsTCP  = "rdmafs-tcp"
	linuxTCP   = "linux-tcp"
	// The same by NFS version 4.2, where the others have 3.
	rdmafsRDMA4 = "rdmafs-rdma-4.2"
	linuxRDMA4  = "linux-rdma-4.2"
)

// size is what an emulated machine does in some seconds a workload.
var size = workload.Size{FileMiB: 64, Files: 300, ListFiles: 2000, TreeFiles: 150, Random: 2 * time.Second}

// chosen are the workloads; the others would take long there and say little more.
var chosen = regexp.MustCompile(`^(sequential .*|random .*(depth 1|16 threads|aio 16)|create.*|stat, cold|open.*|rename|unlink|mkdir|rmdir|ls.*|untar|tar.*|rm.*)$`)

// inside measures in the guest.
func inside(o options) error {
	source := o.inside + ":/export"
	dir, err := os.MkdirTemp("", "bench.")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	stats := func(dir string) (r mountStats, err error) {
		out, err := exec.Command(o.bin, "stats", "--json", dir).Output()
		if err != nil {
			return r, fmt.Errorf("rdmafs stats: %w", err)
		}
		return r, json.Unmarshal(out, &r)
	}
	rdmafs := func(name, words string) *compare.System {
		return &compare.System{Name: name, Dir: dir, Data: "/export",
			Mount:   func(dir string) error { return command(o.bin, "mount", source, dir, "-o", words) },
			Unmount: func(dir string) error { return command(o.bin, "umount", dir) },
			PID: func(dir string) (int, error) {
				r, err := stats(dir)
				return r.PID, err
			},
			Calls: func(dir string) (uint64, error) {
				r, err := stats(dir)
				return r.Calls.Calls, err
			},
		}
	}
	linux := func(name, words string) *compare.System {
		return &compare.System{Name: name, Dir: dir, Data: "/export",
			Mount: func(dir string) error {
				return command("mount", "-t", "nfs", "-o", words, source, dir)
			},
			Unmount: func(dir string) error { return command("umount", dir) },
			Calls:   workload.KernelCalls,
		}
	}
	names := chosen
	if o.workloads != "" {
		if names, err = regexp.Compile(o.workloads); err != nil {
			return err
		}
	}
	r, err := compare.Run(context.Background(), []*compare.System{
		rdmafs(rdmafsRDMA, "vers=3,proto=rdma,rdma=ibv"),
		linux(linuxRDMA, "vers=3,nolock,proto=rdma,port=20049"),
		rdmafs(rdmafsTCP, "vers=3,proto=tcp"),
		linux(linuxTCP, "vers=3,nolock,proto=tcp"),
		rdmafs(rdmafsRDMA4, "vers=4.2,proto=rdma,rdma=ibv"),
		linux(linuxRDMA4, "vers=4.2,proto=rdma,port=20049"),
	}, compare.Config{Workloads: workload.Matching(names), Rounds: o.rounds, Size: size, Progress: func(line string) { log.Print(line) }})
	if err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(o.out, b, 0o644)
}

// mountStats is what rdmafs stats says.
type mountStats struct {
	PID   int
	Calls struct{ Calls uint64 }
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
