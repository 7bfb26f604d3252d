package torture

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/rdmafs/rdmafs/test/netns"
)

func init() {
	add("link cut", &fault{what: "the client's card is down for a moment, again and again", net: true, forgets: true, run: func(c *run) error {
		for range c.rounds(3) {
			if err := c.ip(c.net.A, "link set %s down", netns.Link); err != nil {
				return err
			}
			c.injected++
			time.Sleep(time.Duration(50+c.r.IntN(400)) * time.Millisecond)
			if err := c.ip(c.net.A, "link set %s up", netns.Link); err != nil {
				return err
			}
			time.Sleep(time.Duration(100+c.r.IntN(900)) * time.Millisecond)
		}
		return nil
	}})
	add("black hole", &fault{what: "nothing passes for 30 s (in a short run, a few)", net: true, forgets: true, run: func(c *run) error {
		c.weather(netns.Weather{All: true, Loss: 1})
		if c.Long {
			time.Sleep(30 * time.Second)
		} else {
			time.Sleep(time.Duration(2000+c.r.IntN(4000)) * time.Millisecond)
		}
		c.weather(netns.Weather{})
		return nil
	}})
	add("loss", &fault{what: "1 to 5 % of frames are lost", net: true, forgets: true, run: func(c *run) error {
		return c.underWeather(netns.Weather{All: true, Loss: 0.01 + 0.04*c.r.Float64()})
	}})
	add("reordering", &fault{what: "frames overtake each other, or come twice", net: true, forgets: true, run: func(c *run) error {
		return c.underWeather(netns.Weather{All: true, Reorder: 0.1, Double: 0.05})
	}})
	add("MTU shrunk", &fault{what: "both cards take shorter frames for a while", net: true, forgets: true, run: func(c *run) error {
		mtu := 1280
		if c.r.IntN(2) == 0 {
			mtu = 700 // shorter than the packets of a RoCE connection made before
		}
		if err := c.mtu(mtu); err != nil {
			return err
		}
		c.injected++
		if c.Transport != "roce" || mtu == 1280 {
			if err := c.progress(3, 1); err != nil {
				return fmt.Errorf("with an MTU of %d: %w", mtu, err)
			}
		} else {
			c.hold()
		}
		return c.mtu(1500)
	}})
	add("address moved", &fault{what: "the client's address is replaced by another, and comes back", net: true, forgets: true,
		skip: func(transport, _ string) string {
			if transport == "roce" {
				return "a RoCE mount is bound to the address that it was made with"
			}
			return ""
		}, run: func(c *run) error {
			old, other := c.net.A.IPv4.String()+"/24", secondAddr+"/24"
			for range 2 {
				if err := c.ip(c.net.A, "addr add %s dev %s", other, netns.Link); err != nil {
					return err
				}
				if err := c.ip(c.net.A, "addr del %s dev %s", old, netns.Link); err != nil {
					return err
				}
				// The second address of a network goes with the first.
				_ = c.ip(c.net.A, "addr add %s dev %s", other, netns.Link)
				c.injected++
				if err := c.progress(3, 1); err != nil {
					return err
				}
				old, other = other, old
			}
			return nil
		}})
}

func (c *run) ip(at netns.Host, format string, args ...any) error {
	return at.Do(func() error { return netns.IP(fmt.Sprintf(format, args...)) })
}

func (c *run) mtu(n int) error {
	for _, h := range []netns.Host{c.net.A, c.net.B} {
		if err := c.ip(h, "link set %s mtu %d", netns.Link, n); err != nil {
			return err
		}
	}
	return nil
}

// weather changes the weather and counts what the last did.
func (c *run) weather(w netns.Weather) {
	c.net.Relay.Set(w)
	c.injected = int(c.net.Relay.Lost.Load() + c.net.Relay.Reordered.Load() + c.net.Relay.Doubled.Load())
}

// underWeather requires progress of every worker in bad weather.
func (c *run) underWeather(w netns.Weather) error {
	c.weather(w)
	for range c.rounds(3) {
		if err := c.progress(5, 1); err != nil {
			return err
		}
	}
	c.weather(netns.Weather{})
	return nil
}

// broken are the errors of a mount that is gone.
var broken = brokenErrors()

func brokenErrors() []syscall.Errno {
	all := []syscall.Errno{syscall.ENOTCONN, syscall.ECONNABORTED, syscall.EIO, syscall.EFAULT}
	if strings.Contains(os.Getenv(wordsEnv), "fuse=ring") {
		all = append(all, syscall.ECANCELED, syscall.EINTR) // what was under way when the daemon died
	}
	return all
}
