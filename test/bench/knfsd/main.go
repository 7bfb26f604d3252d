// Command knfsd measures rdmafs beside the Linux kernel's own NFS client, over
// RDMA and over TCP: in one run, inside one emulated machine, against the one
// kernel server there, over the same soft RoCE device.
//
// On the host it boots that machine, runs itself there with -inside, and
// writes the table of ratios into the marked part of docs/performance.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/rdmafs/rdmafs/test/bench/compare"
	"github.com/rdmafs/rdmafs/test/knfsd"
)

// limit bounds a run.
const limit = 90 * time.Minute

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench-knfsd: ")
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds, each of which runs every mount once")
	flag.StringVar(&o.page, "page", "docs/performance.md", "file whose marked part gets the table")
	flag.StringVar(&o.workloads, "workloads", "", "regular expression for the workloads; a choice of them if empty")
	flag.StringVar(&o.inside, "inside", "", "in the guest: the server's address")
	flag.StringVar(&o.bin, "bin", "", "in the guest: the rdmafs command")
	flag.StringVar(&o.out, "out", "", "in the guest: file for the results")
	flag.Parse()
	run := host
	if o.inside != "" {
		run = inside
	}
	if err := run(o); err != nil {
		log.Fatal(err)
	}
}

type options struct {
	rounds           int
	page             string
	workloads        string
	inside, bin, out string
}

// host boots the guest, has it measure, and reports.
func host(o options) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	g, err := knfsd.Start(ctx, knfsd.Config{
		// Packets of 4096 bytes; the kernel's client knows no other device.
		RDMA: []knfsd.Service{knfsd.RXE}, MTU: 4200,
		MemoryMiB: 3072,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Stop()) }()
	const module = "github.com/rdmafs/rdmafs/"
	bin, err := g.Install(ctx, knfsd.Program{Package: module + "cmd/rdmafs"})
	if err != nil {
		return err
	}
	log.Printf("measuring in the guest: %d rounds", o.rounds)
	output, code, err := g.RunProgram(ctx, knfsd.Program{
		Package: module + "test/bench/knfsd",
		Args: []string{"-inside=" + g.GuestAddr().String(), "-bin=" + bin, "-out=/share/results",
			fmt.Sprintf("-rounds=%d", o.rounds), "-workloads=" + o.workloads},
	})
	fmt.Fprint(os.Stderr, output)
	if err == nil && code != 0 {
		err = fmt.Errorf("the benchmark ended with code %d in the guest", code)
	}
	if err != nil {
		return errors.Join(err, errors.New(g.Console()))
	}
	b, err := os.ReadFile(filepath.Join(g.Share(), "results"))
	if err != nil {
		return err
	}
	var r compare.Results
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	kernel, err := g.Check(ctx, "uname -r")
	if err != nil {
		return err
	}
	return report(&r, o, kernel)
}
