// Package writeback is write-back of one file as a machine without locks,
// goroutines or a clock of its own: it is fed written bytes, replies, the time
// and what callers wait for, and says which WRITEs and COMMITs to send.
//
// It owns every byte that was written to a file until the server has it on
// stable storage, the order of WRITEs, the choice of what is sent when, and what
// follows from each reply. It refuses to call a server, to lease buffers and to
// wait: its owner does, and serializes all calls of a File.
//
// # The states of a byte
//
// Each written byte is in one of three layers, or gone:
//
//	          Write                 Send             Wrote: UNSTABLE
//	(clean) ─────────▶ dirty ──────────────▶ in flight ─────────────▶ unstable
//	                    ▲ ▲                   │  │                     │  │
//	                    │ └── Wrote: JUKEBOX, ┘  │ Wrote: FILE_SYNC    │  │
//	                    │     or fate unknown    └────▶ (clean)        │  │
//	                    │                                              │  │
//	                    └────────── Committed: another verifier ───────┘  │
//	                                                                      │
//	                            (clean) ◀── Committed: its verifier ──────┘
//
// A WRITE or COMMIT that fails for good drops its bytes, and the error is the
// owner's to report. Claim puts a direct write in flight at once. An unstable
// byte is committing once a COMMIT that covers it was sent; a byte that becomes
// unstable after that waits for the next one.
//
// # The states of a file
//
// Three states change almost independently. The sending state says what a file
// may send:
//
//	Free ──later──▶ Delayed ──elapsed──▶ Probing ──later──▶ Delayed
//	  ▲───────────────── answered ─────────┘
//
// The server wants the WRITEs of a Delayed file later (NFS3ERR_JUKEBOX); Probing
// sends one at a time, to see whether it takes them now. The commit state allows
// one COMMIT at a time:
//
//	NoCommit ──commitAsked──▶ CommitWaiting ──commitSent──▶ CommitSent ──committed──▶ NoCommit
//	                            └──commitDropped──▶ NoCommit
//
// CommitWaiting lasts if the last COMMITs found data lost again and again. The
// truncation state is a barrier around a SETATTR of the size:
//
//	NoTruncation ──truncateAsked──▶ Draining ──drained──▶ Truncating ──truncateEnded──▶ NoTruncation
//	                                  └──truncateDropped──▶ NoTruncation
//
// Draining takes no new bytes and sends those that are there. Truncating begins
// when nothing is dirty or in flight; it sends no COMMIT either, as one that
// finds data lost would have it sent after the SETATTR. state.go has the table of
// all states and events.
//
// # Invariants
//
//   - Extents of one layer do not overlap, nor do those in flight overlap a dirty
//     one that is sent: WRITEs that overlap reach the server in the order in which
//     they were made.
//   - No unstable byte is one that a later WRITE has replaced.
//   - A write is answered for until it is on stable storage: where newer bytes
//     replace it, they take over its sequence number, so that whoever waits for it
//     waits for them.
//   - A file is Free unless something is dirty or in flight.
//   - Truncating has nothing dirty or in flight, and no COMMIT.
//   - A buffer is released when the last extent in it goes.
package writeback
