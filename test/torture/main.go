package torture

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rdmafs/rdmafs/test/ringtest"
)

// Main is the command. Its words are its arguments.
func Main(words []string) int {
	var err error
	switch {
	case len(words) == 2 && words[0] == "worker":
		err = RunWorker(words[1])
	case len(words) == 2 && words[0] == "serve":
		err = RunServer(words[1])
	case len(words) == 2 && words[0] == "randomops":
		err = RunRandomOps(words[1])
	case len(words) == 2 && words[0] == "cell":
		err = runInside(words[1])
	default:
		var ok bool
		if ok, err = coordinate(words); err == nil && !ok {
			return 1
		}
	}
	if errors.Is(err, flag.ErrHelp) {
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		return 1
	}
	return 0
}

func runInside(arg string) error {
	var c Cell
	if err := json.Unmarshal([]byte(arg), &c); err != nil {
		return err
	}
	b, err := json.Marshal(RunCell(c))
	if err == nil {
		_, err = os.Stdout.Write(append(b, '\n'))
	}
	return err
}

// plan says what to run.
type plan struct {
	lasting  time.Duration
	seed     uint64
	cells    *regexp.Regexp
	parallel int
	out      string
	selftest bool
	verbose  bool
	// long: faults last as long as they do in a run of an hour.
	long bool
	// versions of NFS, of which each cell takes one by its seed.
	versions []string
	// timed: the time was given.
	timed bool
}

func parse(words []string) (*plan, error) {
	p := &plan{}
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.DurationVar(&p.lasting, "for", time.Hour, "how `long` to go on; cells that have begun are finished")
	f.Uint64Var(&p.seed, "seed", 0, "the `seed` of a run to repeat; 0 for a new one")
	cells := f.String("cells", "", "run only fault/transport/kind that match this `regexp`")
	versions := f.String("vers", "3,4.2", "`versions` of NFS; each cell has one of them")
	f.IntVar(&p.parallel, "parallel", 3, "cells at a time")
	f.StringVar(&p.out, "out", "", "`directory` for what failing cells said (default: a temporary one)")
	f.BoolVar(&p.selftest, "selftest", false, "only see that a server that lies is found out")
	f.BoolVar(&p.long, "long", false, "long faults, as in a run of an hour")
	f.BoolVar(&p.verbose, "v", false, "a line for each cell")
	if err := f.Parse(words); err != nil {
		return nil, err
	}
	f.Visit(func(x *flag.Flag) { p.timed = p.timed || x.Name == "for" })
	var err error
	for _, v := range strings.Split(*versions, ",") {
		if _, known := nfsVersions[v]; !known {
			return nil, fmt.Errorf("-vers %s: no such version of NFS", v)
		}
		p.versions = append(p.versions, v)
	}
	if p.cells, err = regexp.Compile(*cells); err != nil {
		return nil, err
	}
	if p.seed == 0 {
		p.seed = rand.Uint64()>>32 | 1
	}
	return p, nil
}

var (
	transports = []string{"iwarp", "roce", "tcp"}
	kinds      = []string{"buffered", "direct", "mmap", "append", "names"}
)

// schedule is all cells, in an order in which each fault comes once before one comes
// again. It says what does not apply.
func (p *plan) schedule() (all []Cell, skipped map[string]string) {
	skipped = map[string]string{}
	r := random(p.seed, "deck")
	var hands [][]Cell
	for _, name := range order {
		f := faults[name]
		var hand []Cell
		for _, t := range transports {
			for _, k := range kinds {
				c := Cell{Fault: name, Transport: t, Kind: k}
				if f.skip != nil {
					if why := f.skip(t, k); why != "" {
						skipped[c.String()] = why
						continue
					}
				}
				if p.cells.MatchString(c.String()) {
					hand = append(hand, c)
				}
			}
		}
		r.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
		hands = append(hands, hand)
	}
	r.Shuffle(len(hands), func(i, j int) { hands[i], hands[j] = hands[j], hands[i] })
	for k := 0; ; k++ {
		before := len(all)
		for _, hand := range hands {
			if k < len(hand) {
				all = append(all, hand[k])
			}
		}
		if len(all) == before {
			return all, skipped
		}
	}
}

func coordinate(words []string) (ok bool, err error) {
	p, err := parse(words)
	if err != nil {
		return false, err
	}
	if os.Geteuid() != 0 {
		return false, errors.New("it makes namespaces and mounts, and so needs root")
	}
	if strings.Contains(os.Getenv(wordsEnv), "fuse=ring") {
		off, err := ringtest.SwitchOn()
		if err != nil {
			return false, err
		}
		defer off()
	}
	dir, err := os.MkdirTemp("", "rdmafs-torture.")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	bin, race, err := build(dir)
	if err != nil {
		return false, err
	}
	if p.selftest {
		if err := selftest(bin, p.seed); err != nil {
			return false, err
		}
		return true, nil
	}
	if p.out == "" {
		p.out = filepath.Join(os.TempDir(), fmt.Sprint("torture-", p.seed))
	}
	cells, skipped := p.schedule()
	if len(cells) == 0 {
		return false, errors.New("no such cells")
	}
	fmt.Printf("torture: seed %d, %d cells, %v\n", p.seed, len(cells), p.lasting)
	t := newTable()
	end := time.Now().Add(p.lasting)
	long := p.long || p.lasting >= time.Hour && p.cells.String() == ""
	queue := make(chan Cell)
	var crews sync.WaitGroup
	for range p.parallel {
		crews.Go(func() {
			for c := range queue {
				t.take(p, runOutside(c))
			}
		})
	}
	for round := uint64(0); time.Now().Before(end); round++ {
		for _, c := range cells {
			if !time.Now().Before(end) {
				break
			}
			c.Seed, c.Binary, c.Race, c.Long = p.seed+round, bin, race, long
			c.Vers = p.version(c)
			queue <- c
		}
		if p.cells.String() != "" && !p.timed {
			break // chosen cells run once
		}
	}
	close(queue)
	crews.Wait()
	t.print(os.Stdout, p, skipped)
	return t.failed == 0, nil
}

// version is the version of NFS of a cell.
func (p *plan) version(c Cell) string {
	of := p.versions
	if faults[c.Fault].version4 {
		if of = slices.DeleteFunc(slices.Clone(of), func(v string) bool { return v == "3" }); len(of) == 0 {
			return "4.2"
		}
	}
	return of[random(c.Seed, c.String(), "version").IntN(len(of))]
}

// build makes the rdmafs command.
func build(dir string) (bin string, race bool, err error) {
	bin = filepath.Join(dir, "rdmafs")
	race = os.Getenv("RDMAFS_TEST_RACE") == "1"
	args, env := []string{"build", "-o", bin}, append(os.Environ(), "CGO_ENABLED=0")
	if race {
		args, env = append(args, "-race"), append(os.Environ(), "CGO_ENABLED=1")
	}
	cmd := exec.Command("go", append(args, "github.com/rdmafs/rdmafs/cmd/rdmafs")...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", race, fmt.Errorf("building rdmafs: %w: %s", err, out)
	}
	return bin, race, nil
}

// tooLong ends a cell whose own guards have not ended it.
const tooLong = 10 * time.Minute

// runOutside runs a cell as a process.
func runOutside(c Cell) (res Result) {
	res.Cell = c
	fail := func(err error) Result {
		res.Failures = append(res.Failures, err.Error())
		return res
	}
	arg, err := json.Marshal(c)
	if err != nil {
		return fail(err)
	}
	self, err := os.Executable()
	if err != nil {
		return fail(err)
	}
	var out strings.Builder
	cmd := inside(&out, self, "cell", string(arg))
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	late := time.AfterFunc(tooLong, func() { _ = cmd.Process.Kill() })
	err = cmd.Wait()
	late.Stop()
	if jerr := json.Unmarshal([]byte(out.String()), &res); jerr != nil {
		return fail(fmt.Errorf("the cell ended with %v and said %q", err, out.String()))
	}
	return res
}
