package torture

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/rdmafs/rdmafs/test/hostile"
	"github.com/rdmafs/rdmafs/test/netns"
)

func init() {
	add("server hostile", &fault{what: "the server of another mount lies in its results, in one way after another", run: (*run).hostile})
}

// hostileAddr is where the server listens that lies.
const hostileAddr = "10.77.0.4"

// hostile mounts a second server, uses that mount while its server lies, and
// requires progress of all other workers meanwhile. Of a mount whose server lies
// only what package hostile says is expected, and correct data once it does not
// lie any more.
func (c *run) hostile() error {
	if err := c.net.B.Do(func() error { return netns.IP("addr add " + hostileAddr + "/24 dev " + netns.Link) }); err != nil {
		return err
	}
	if c.Transport == "roce" {
		if err := c.net.A.Do(func() error { return netns.IP("addr add " + secondAddr + "/24 dev " + netns.Link) }); err != nil {
			return err
		}
	}
	export := filepath.Join(c.base, "lies")
	if err := os.Mkdir(export, 0o755); err != nil {
		return err
	}
	truth := filepath.Join(export, "truth")
	if err := os.WriteFile(truth, bytes.Repeat([]byte("the truth, "), 20_000), 0o644); err != nil {
		return err
	}
	liar := &server{at: c.net.B, place: place{Dir: export, ID: 9, Transport: c.Transport, Addr: hostileAddr, Seed: c.Seed, Vers: c.Vers, Lies: true}}
	if err := liar.boot(); err != nil {
		return err
	}
	d, err := mountSoon(c.net.A, c.Binary, hostileAddr+":/export", filepath.Join(c.base, "liar"), c.optionsOf(c.Vers)+",soft,retrans=1,noac")
	if err != nil {
		return err
	}
	c.gone = append(c.gone, d) // its output is checked in the end
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var done atomic.Int64
	client, err := start(c.net.A, "random operations", func(string) { done.Add(1) }, self, "randomops", d.dir)
	if err != nil {
		return err
	}
	lies := liesOf(c.Vers)
	c.r.Shuffle(len(lies), func(i, j int) { lies[i], lies[j] = lies[j], lies[i] })
	for _, lie := range lies[:c.rounds(3)] {
		if err := c.lie(liar, lie.Name, &done); err != nil {
			return fmt.Errorf("with a server that lies about %s: %w", lie.Name, err)
		}
	}
	if err := client.in.Close(); err != nil {
		return err
	}
	if err := client.await(); err != nil {
		return err
	}
	said, code, err := command(c.net.A, "sh", "-c", `dd if="$0" bs=1M iflag=direct status=none | cmp - "$1"`, filepath.Join(d.dir, "truth"), truth)
	if err != nil {
		return err
	}
	if code != 0 {
		c.failf("when the truth is told again: %s", said)
	}
	c.high = max(c.high, d.highWater())
	// It may report lost data: the answers said so.
	if _, _, err := command(c.net.A, c.Binary, "umount", d.dir); err != nil {
		return err
	}
	if err := d.await(); err != nil {
		return err
	}
	return liar.down()
}

// lie makes the server lie until it has done so a few times and all other workers
// have made progress, and then ends the lie and waits until its client has made
// progress.
func (c *run) lie(liar *server, name string, done *atomic.Int64) error {
	if err := liar.order("lie %s", name); err != nil {
		return err
	}
	err := poll("a lie", func() (bool, error) {
		answer, err := liar.query("told")
		if err != nil {
			return false, err
		}
		n, err := strconv.Atoi(answer)
		return n >= 3, err
	})
	if err != nil {
		return err
	}
	if err := c.progress(3, 1); err != nil {
		return err
	}
	answer, err := liar.query("truth")
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(answer)
	if err != nil {
		return err
	}
	c.injected += n
	goal := done.Load() + 5
	return poll("what the server has lied to", func() (bool, error) { return done.Load() >= goal, nil })
}

// liesOf are the lies about results of a version of NFS.
func liesOf(vers string) []hostile.Lie {
	if vers == "3" {
		return hostile.Lies()
	}
	return hostile.Lies4()
}
