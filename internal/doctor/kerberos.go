package doctor

import "context"

// Finding is a part of what calls with Kerberos need: what there is, with a warning if it is not as it should be, or why it is missing.
type Finding struct {
	Name, Detail, Warning string
	Err                   error
}

// kerberos shows what the mount's security needs, if that is Kerberos.
func (e *examination) kerberos(ctx context.Context) Section {
	s := Section{Title: "Kerberos"}
	if e.Kerberos == nil {
		return s
	}
	for _, f := range e.Kerberos(ctx) {
		switch {
		case f.Err != nil:
			s.add(e.failed(f.Name, f.Err))
		case f.Warning != "":
			s.add(warning(f.Name, f.Detail, f.Warning))
		default:
			s.add(ok(f.Name, f.Detail))
		}
	}
	return s
}
