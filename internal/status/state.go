package status

import (
	"time"

	"github.com/rdmafs/rdmafs/fs"
	"github.com/rdmafs/rdmafs/internal/session"
	"github.com/rdmafs/rdmafs/transport/reconnect"
)

// The states of a mount.
const (
	StateOK            = "ok"
	StateWaiting       = "waiting" // there is a connection, and calls wait on it for longer than a moment
	StateNotResponding = "not_responding"
	StateNotConnected  = "not_connected"
)

// State is how a mount is at one moment.
type State struct {
	State string `json:"state"`
	// Since is since when it is not StateOK, or else connected.
	Since time.Time `json:"since,omitzero"`
	// LastError is why there was no connection, or why one was lost, at LastErrorAt.
	LastError   string    `json:"last_error,omitempty"`
	LastErrorAt time.Time `json:"last_error_at,omitzero"`
	// DirtyBytes are in buffers and not stable on the server yet.
	DirtyBytes int64 `json:"dirty_bytes"`
	OpenFiles  int64 `json:"open_files"`
	// NFS4 is of version 4: its session, and the state that the server keeps.
	NFS4 *NFS4 `json:"nfs4,omitempty"`
	// Requests are the programs' that wait, Calls the calls to the server, the oldest first.
	Requests []Request `json:"waiting_requests,omitempty"`
	Calls    []Call    `json:"waiting_calls,omitempty"`
}

// Request is a system call that waits.
type Request struct {
	Request string  `json:"request"`
	Path    string  `json:"path,omitempty"` // quoted
	PID     uint32  `json:"pid,omitempty"`
	Process string  `json:"process,omitempty"`
	Seconds float64 `json:"seconds"`
}

// Call is a call that waits for the server.
type Call struct {
	Procedure string  `json:"procedure"`
	Seconds   float64 `json:"seconds"`
	Sent      int     `json:"sent"`      // how often
	Connected bool    `json:"connected"` // false: it waits for a connection
}

// maxWaiting bounds each of the lists, so that a report keeps to the bounds of the control socket.
const maxWaiting = 64

// stateOf is the state of a mount at a time. f may be nil.
func stateOf(s *session.Session, f *fs.FS, now time.Time) State {
	h := s.Health()
	st := State{State: StateOK, Since: h.Since, LastErrorAt: h.FailedAt}
	if h.Failure != nil {
		st.LastError = h.Failure.Error()
	}
	st.judge(&h)
	st.NFS4 = nfs4Of(s.Client(), &h)
	for _, w := range h.Waiting[:min(len(h.Waiting), maxWaiting)] {
		st.Calls = append(st.Calls, Call{s.ProcedureName(w.Prog, w.Proc), now.Sub(w.Begun).Seconds(), w.Sent, w.OnLink})
	}
	if c := s.Cache(); c != nil {
		st.DirtyBytes, st.OpenFiles = c.DirtyBytes(), c.OpenFiles()
	}
	if f == nil {
		return st
	}
	blocked := f.Blocked()
	for _, b := range blocked[:min(len(blocked), maxWaiting)] {
		path := b.Path
		if len(path) > maxPath {
			path = "…" + path[len(path)-maxPath:]
		}
		st.Requests = append(st.Requests, Request{b.Request, path, b.PID, b.Process, now.Sub(b.Since).Seconds()})
	}
	return st
}

// maxPath bounds a path of a report, in bytes.
const maxPath = 1024

func (st *State) judge(h *reconnect.Health) {
	switch {
	case !h.SilentSince.IsZero():
		st.State, st.Since = StateNotResponding, h.SilentSince
		if !h.Connected && h.Since.Before(st.Since) {
			st.Since = h.Since
		}
	case !h.Connected:
		st.State = StateNotConnected
	case len(h.Waiting) > 0:
		st.State, st.Since = StateWaiting, h.Waiting[0].Begun
	}
}
