package doctor

import "context"

// Finding is a part of what calls with Kerberos need: what there is, or why it is missing.
type Finding struct {
	Name, Detail string
	Err          error
}

// kerberos shows what the mount's security needs, if that is Kerberos.
func (e *examination) kerberos(ctx context.Context) Section {
	s := Section{Title: "Kerberos"}
	if e.Kerberos == nil {
		return s
	}
	for _, f := range e.Kerberos(ctx) {
		if f.Err != nil {
			s.add(e.failed(f.Name, f.Err))
		} else {
			s.add(ok(f.Name, f.Detail))
		}
	}
	return s
}
