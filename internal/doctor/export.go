package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

// maxShown is how many exports are named; Facts have them all.
const maxShown = 12

// export asks the server what it exports, and for the export.
func (e *examination) export(ctx context.Context) Section {
	title := "Exports of " + e.Host
	if e.Export != "" {
		title = "The export " + e.Export
	}
	s := Section{Title: title}
	way := e.working(true)
	if way == nil {
		way = e.working(false)
	}
	at := e.found[0].at
	if way != nil {
		at = way.at
	}
	s.add(e.list(ctx, at))
	switch {
	case e.Export == "":
		return s
	case way == nil:
		s.add(skipped("admission", "no way to the server works"))
		return s
	}
	way.disconnect()
	mountCtx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	detail, err := way.contact.Mount(mountCtx)
	steps := e.steps4(way.contact, err)
	s.add(steps...)
	if err != nil {
		if n := len(steps); n > 0 && steps[n-1].Status == Failure {
			s.add(skipped("admission", "see above"))
		} else {
			s.add(e.failed("admission", err))
		}
		return s
	}
	if e.Version == 0 && !strings.HasPrefix(way.contact.Client().Info().Version, "4") {
		e.version = 3
	}
	s.add(ok("admission", fmt.Sprintf("over %s: %s", way.Name, detail)))
	s.add(e.data(ctx, way.contact)...)
	return s
}

// list asks for the export list, which servers may keep to themselves.
func (e *examination) list(ctx context.Context, at netip.Addr) Step {
	const name = "export list"
	if e.version == 4 {
		return skipped(name, "NFS version 4 has none: mount the root (/) and look around")
	}
	ctx, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	exports, err := e.Exports(ctx, at)
	if err != nil {
		what, remedy := e.Explain(err)
		return warning(name, what, remedy)
	}
	if len(exports) == 0 {
		return warning(name, "the server exports nothing", "on a Linux server: /etc/exports and exportfs -ra")
	}
	var words []string
	for _, x := range exports {
		w := x.Path
		if len(x.Groups) > 0 {
			w += " (" + strings.Join(x.Groups, " ") + ")"
		}
		words = append(words, w)
	}
	if n := len(words); n > maxShown {
		words = append(words[:maxShown:maxShown], fmt.Sprintf("and %d more", n-maxShown))
	}
	return Step{Name: name, Status: OK, Detail: strings.Join(words, ", "), Facts: exports}
}

// trial mounts, if there is any hope.
func (e *examination) trial(ctx context.Context) Section {
	s := Section{Title: "Mount"}
	const name = "trial mount"
	if e.report.firstFailure() != nil {
		s.add(skipped(name, "it would fail: see above"))
		return s
	}
	detail, err := e.Trial(ctx)
	if err != nil {
		s.add(e.failed(name, err))
		return s
	}
	s.add(ok(name, "mounted and unmounted: "+detail))
	return s
}
