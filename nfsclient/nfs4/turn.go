package nfs4

import "context"

// turn is a lock that is held over calls: who waits for it can give up. It has a capacity of one.
type turn chan struct{}

// take waits for the turn, or returns ctx's error.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// try takes the turn if nobody has it.
func (t turn) try() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// leave ends what take or try began.
func (t turn) leave() { <-t }
