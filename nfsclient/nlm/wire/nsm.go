package wire

import "github.com/rdmafs/rdmafs/transport/xdr"

// MonName is sm_name, the arguments of SM_STAT.
type MonName struct{ Name string }

func (a *MonName) Append(w *xdr.Writer) { w.String(a.Name) }
func (a *MonName) Parse(r *xdr.Reader)  { a.Name = r.String(MaxMonName) }

// MyID is my_id: who is to be called back, and the arguments of SM_UNMON_ALL.
type MyID struct {
	Name             string
	Prog, Vers, Proc int32
}

func (a *MyID) Append(w *xdr.Writer) {
	w.String(a.Name)
	w.Uint32(uint32(a.Prog))
	w.Uint32(uint32(a.Vers))
	w.Uint32(uint32(a.Proc))
}

func (a *MyID) Parse(r *xdr.Reader) {
	a.Name = r.String(MaxMonName)
	a.Prog, a.Vers, a.Proc = int32(r.Uint32()), int32(r.Uint32()), int32(r.Uint32())
}

// MonID is mon_id, the arguments of SM_UNMON.
type MonID struct {
	Name string
	ID   MyID
}

func (a *MonID) Append(w *xdr.Writer) {
	w.String(a.Name)
	a.ID.Append(w)
}

func (a *MonID) Parse(r *xdr.Reader) {
	a.Name = r.String(MaxMonName)
	a.ID.Parse(r)
}

// Mon is mon, the arguments of SM_MON.
type Mon struct {
	ID   MonID
	Priv [PrivSize]byte
}

func (a *Mon) Append(w *xdr.Writer) {
	a.ID.Append(w)
	w.Fixed(a.Priv[:])
}

func (a *Mon) Parse(r *xdr.Reader) {
	a.ID.Parse(r)
	copy(a.Priv[:], r.Fixed(PrivSize))
}

// MonState is sm_stat, the results of SM_UNMON and SM_UNMON_ALL: a number that is
// odd while the host is up, and grows with each restart.
type MonState struct{ State int32 }

func (a *MonState) Append(w *xdr.Writer) { w.Uint32(uint32(a.State)) }
func (a *MonState) Parse(r *xdr.Reader)  { a.State = int32(r.Uint32()) }

// MonRes is sm_stat_res, the results of SM_STAT and SM_MON.
type MonRes struct {
	Failed bool
	State  int32
}

func (a *MonRes) Append(w *xdr.Writer) {
	w.Bool(a.Failed)
	w.Uint32(uint32(a.State))
}

func (a *MonRes) Parse(r *xdr.Reader) { a.Failed, a.State = r.Bool(), int32(r.Uint32()) }

// StateChange is stat_chge, the arguments of SM_NOTIFY: a host has restarted. A
// client must not send it beside others on its host, for the reason of Notify.
type StateChange struct {
	Name  string
	State int32
}

func (a *StateChange) Append(w *xdr.Writer) {
	w.String(a.Name)
	w.Uint32(uint32(a.State))
}

func (a *StateChange) Parse(r *xdr.Reader) { a.Name, a.State = r.String(MaxMonName), int32(r.Uint32()) }
