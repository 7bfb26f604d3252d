package torture

import "time"

// hold waits for as long as a fault lasts at least: sometimes longer than timeo,
// which is 2 s.
func (c *run) hold() {
	longest := 2500
	if c.Long {
		longest = 6000
	}
	time.Sleep(time.Duration(100+c.r.IntN(longest)) * time.Millisecond)
}
