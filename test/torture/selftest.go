package torture

import "fmt"

// liar is no fault of the schedule: with it, a cell must find bytes lost.
const liar = "server that lies"

func init() {
	faults[liar] = &fault{what: "COMMIT and stable WRITE do nothing and say that they did", lossy: true, run: func(c *run) error {
		// To the end: an honest COMMIT would make up for it.
		if err := c.server.order("lie"); err != nil {
			return err
		}
		if err := c.progress(5, 1); err != nil {
			return err
		}
		return c.struck(1)
	}}
}

// selftest checks, with kinds whose data waits for COMMIT, that a server is detected that
// drops data that it has acknowledged.
func selftest(bin string, seed uint64) error {
	for _, t := range transports {
		for _, k := range []string{"buffered", "mmap", "append"} {
			r := runOutside(Cell{Fault: liar, Transport: t, Kind: k, Seed: seed, Vers: "3", Binary: bin})
			if r.Lost == 0 || len(r.Failures) == 0 {
				return fmt.Errorf("%s, seed %d: the lie was not found: %d calls tampered with, %d operations", r.Cell, seed, r.Injected, r.Ops)
			}
			fmt.Printf("%s: found %d bytes that a server lied about: %s\n", r.Cell, r.Lost, r.Failures[0])
		}
	}
	return nil
}
