package torture

import "fmt"

// Faults of version 4's sessions and state, which test/nfsd/v4/script orders.
func init() {
	state := func(name, what string, f *fault, orders ...string) {
		f.what, f.version4 = what, true
		f.run = func(c *run) error { return c.ordered(orders...) }
		add(name, f)
	}
	state("state lost", "the server forgets sessions, open files and locks, and nothing can be reclaimed", &fault{forgets: true},
		"restart nograce")
	state("state reclaimed", "the server forgets sessions, open files and locks, which are reclaimed in a grace period", &fault{forgets: true},
		"restart grace")
	state("lease expired", "the server ends the leases of all clients, with and without their sessions", &fault{forgets: true},
		"expire", "expire-state")
	state("state revoked", "the server revokes open files", &fault{}, "revoke")
	state("delegations recalled", "the server asks for its delegations", &fault{}, "recall", "recall-any 0")
	state("slots to 1", "sessions have one slot for a while", &fault{}, "slots 1", "slots 32")
	state("answers delayed", "the server answers the next operations of each kind with NFS4ERR_DELAY", &fault{}, "delay 3")
	var lost []string
	for _, op := range []string{"OPEN", "CLOSE", "WRITE", "COMMIT", "READ", "SETATTR", "GETATTR", "REMOVE", "RENAME", "CREATE", "LINK"} {
		lost = append(lost, "lose-reply "+op, "lose-call "+op)
	}
	state("exchanges lost", "connections end before a call is carried out, and after it before the reply", &fault{}, lost...)
}

// ordered gives the server orders, up to three at once, and requires progress of every worker after them.
func (c *run) ordered(orders ...string) error {
	for range c.rounds(2) {
		for left := orders; len(left) > 0; {
			n := min(len(left), 1+c.r.IntN(3))
			for _, o := range left[:n] {
				if err := c.server.order("4 %s", o); err != nil {
					return fmt.Errorf("%s: %w", o, err)
				}
				c.injected++
			}
			left = left[n:]
			if err := c.progress(5, 1); err != nil {
				return err
			}
		}
		if err := c.progress(10, 1); err != nil {
			return err
		}
	}
	return c.server.order("4 clear")
}
