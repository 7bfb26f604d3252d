package torture

import "time"

// linger is how long a fault lasts at least: longer than timeo, of 2 s, now and
// then.
func (c *run) linger() {
	longest := 2500
	if c.Long {
		longest = 6000
	}
	time.Sleep(time.Duration(100+c.r.IntN(longest)) * time.Millisecond)
}
