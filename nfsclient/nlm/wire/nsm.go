package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// StateChange is stat_chge, the arguments of SM_NOTIFY: a host has restarted. State is
// odd while the host is up, and grows with each restart. A client must not send it beside
// others on its host, for the reason of Notify.
type StateChange struct {
	Name  string
	State int32
}

func (a *StateChange) Append(w *xdr.Writer) {
	w.String(a.Name)
	w.Uint32(uint32(a.State))
}

func (a *StateChange) Parse(r *xdr.Reader) { a.Name, a.State = r.String(MaxMonName), int32(r.Uint32()) }
