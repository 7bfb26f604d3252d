package doctor

import "fmt"

// machine looks at what every mount needs of this machine.
func (e *examination) machine() Section {
	s := Section{Title: "This machine"}
	if err := e.Fuse(); err != nil {
		s.add(e.failed("FUSE", err))
	} else {
		s.add(ok("FUSE", "file systems can be mounted"))
	}
	s.add(e.providers()...)
	return s
}

// providers opens each. One that does not open is grave when the mount has no
// other.
func (e *examination) providers() []Step {
	type tried struct {
		Provider
		what string
		err  error
	}
	var all []tried
	usable := false
	for _, p := range e.Providers {
		t := tried{Provider: p}
		t.what, t.err = p.Open()
		usable = usable || p.Chosen && t.err == nil
		all = append(all, t)
	}
	var steps []Step
	for _, t := range all {
		name := "provider " + t.Name
		switch {
		case t.err == nil:
			steps = append(steps, ok(name, t.what))
		case e.RDMA && t.Chosen && !usable:
			st := e.failed(name, t.err)
			if st.Remedy == "" {
				st.Remedy = e.otherProvider(t.Name)
			}
			steps = append(steps, st)
		default:
			steps = append(steps, skipped(name, t.err.Error()))
		}
	}
	return steps
}

// otherProvider names a provider that needs no device.
func (e *examination) otherProvider(not string) string {
	for _, p := range e.Providers {
		if p.Name != not && !p.Devices {
			return fmt.Sprintf("-o rdma=%s needs no RDMA device", p.Name)
		}
	}
	return ""
}
