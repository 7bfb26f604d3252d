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
	s.add(e.rings())
	s.add(e.providers()...)
	return s
}

// rings looks at FUSE over io_uring.
func (e *examination) rings() Step {
	const name = "FUSE over io_uring"
	err := e.Rings()
	if err == nil {
		return ok(name, "requests can come by io_uring (-o fuse=ring)")
	}
	if e.RingsChosen {
		return e.failed(name, err)
	}
	return skipped(name, err.Error())
}

// providers checks what each provider needs. One that lacks something is a failure
// when the mount has no other.
func (e *examination) providers() []Step {
	missing := make([]error, len(e.Providers))
	usable := false
	for i, p := range e.Providers {
		missing[i] = p.Missing()
		usable = usable || p.Chosen && missing[i] == nil
	}
	var steps []Step
	for i, p := range e.Providers {
		name := "provider " + p.Name
		what, remedy := p.Needs, ""
		if missing[i] != nil {
			what, remedy = e.Explain(missing[i])
		}
		switch {
		case missing[i] == nil:
			steps = append(steps, ok(name, "there is "+what))
		case e.RDMA && p.Chosen && !usable:
			steps = append(steps, failure(name, what, alternatives(remedy, e.otherProvider(p.Name))))
		default:
			steps = append(steps, skipped(name, what))
		}
	}
	return steps
}

// alternatives are two remedies, either of which may be empty.
func alternatives(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; or: " + b
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
