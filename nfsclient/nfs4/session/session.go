package session

import (
	"context"
	"time"

	"github.com/rdmafs/rdmafs/nfsclient/nfs4/wire"
)

// Session is a session of a client with a server. Its methods may be called from any goroutine.
type Session struct{}

// Open makes the client known to the server and creates a session.
func Open(ctx context.Context, cf Config) (*Session, error) { panic("unwritten") }

// Do sends the compound c and waits for its result: nil means that the server has answered, and
// c.Status says how. Errors are *Error, those of the transport, ctx's, and c.Prepare's.
func (s *Session) Do(ctx context.Context, c *Call) error { panic("unwritten") }

// ClientID is the client's present ID.
func (s *Session) ClientID() wire.ClientID { panic("unwritten") }

// Epoch counts how often the server has lost the state of the client: a stateid is of no
// use any more after it has changed.
func (s *Session) Epoch() uint64 { panic("unwritten") }

// MaxRead and MaxWrite bound the data of one READ and one WRITE, and MaxOps the operations of a
// Call. They may change in a recovery.
func (s *Session) MaxRead() int  { panic("unwritten") }
func (s *Session) MaxWrite() int { panic("unwritten") }
func (s *Session) MaxOps() int   { panic("unwritten") }

// Lease is the server's lease time.
func (s *Session) Lease() time.Duration { panic("unwritten") }

// Close destroys the session and the client's record. Calls that wait fail, those under way
// are waited for until ctx ends.
func (s *Session) Close(ctx context.Context) error { panic("unwritten") }
