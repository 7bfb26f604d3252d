package session

import (
	"context"
	"errors"
)

// Loss is what has become of the client's state.
type Loss uint8

const (
	// Restarted: the server has a new record of this client, or has restarted, and holds none of its
	// state. While the server is in its grace period state can be reclaimed; otherwise it answers
	// NO_GRACE, and files are opened anew. All other calls wait.
	Restarted Loss = iota + 1
	// Revoked: some or all state was revoked. TEST_STATEID tells which; FREE_STATEID
	// acknowledges it. Other calls go on.
	Revoked
)

// Recovery is what Config.Recover is told.
type Recovery struct {
	Loss Loss
	// Flags are sr_status_flags that told of it, if they did.
	Flags uint32
	// Epoch is that of Session.Epoch from now on.
	Epoch uint64

	s *Session
}

// ErrInterrupted is returned by Recovery.Do if the session was lost once more. Config.Recover
// returns; it is called again, with all to be done anew.
var ErrInterrupted = errors.New("the session was lost during the recovery")

// Do makes a call of the recovery, as Session.Do does, but without waiting for the end of
// the recovery.
func (r *Recovery) Do(ctx context.Context, c *Call) error { panic("unwritten") }
