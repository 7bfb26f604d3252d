package torture

import "testing"

// content is what a file of writes holds.
func content(id uint32, writes ...[3]int64) []byte {
	var b []byte
	for _, w := range writes { // off, n, number
		if more := int(w[0]+w[1]) - len(b); more > 0 {
			b = append(b, make([]byte, more)...)
		}
		fill(b[w[0]:w[0]+w[1]], id, w[0], uint32(w[2]))
	}
	return b
}

func TestModelOfData(t *testing.T) {
	wrote := func(f *file, w ...[3]int64) {
		for _, x := range w {
			f.write(x[0], x[1], uint32(x[2]))
		}
	}
	first, second := [3]int64{0, 160, 1}, [3]int64{80, 160, 2}
	for name, c := range map[string]struct {
		do   func(*file)
		have []byte
		lost int
		bad  bool
	}{
		"all there":                  {func(f *file) { wrote(f, first, second); f.acknowledge() }, content(3, first, second), 0, false},
		"nothing promised":           {func(f *file) { wrote(f, first, second) }, nil, 0, false},
		"old content where promised": {func(f *file) { wrote(f, first); f.acknowledge(); wrote(f, second) }, content(3, first), 0, false},
		"lost":                       {func(f *file) { wrote(f, first, second); f.acknowledge() }, content(3, first), 160, true},
		"short":                      {func(f *file) { wrote(f, first); f.acknowledge() }, content(3, first)[:80], 80, true},
		"torn":                       {func(f *file) { wrote(f, first); f.acknowledge() }, content(3, first)[:84], 88, true},
		"from nowhere":               {func(f *file) { wrote(f, first) }, content(4, first), 160, true},
		"misplaced":                  {func(f *file) { wrote(f, first); f.acknowledge() }, append(content(3, first)[16:], content(3, first)[:16]...), 160, true},
		"too much":                   {func(f *file) { wrote(f, first); f.acknowledge() }, content(3, first, second), 80, true},
		"error, then fsync":          {func(f *file) { wrote(f, first); f.fail(); f.acknowledge() }, nil, 0, false},
		"error, written again": {func(f *file) { wrote(f, first); f.fail(); wrote(f, [3]int64{0, 160, 2}); f.acknowledge() },
			content(3, first), 160, true},
		"error spares what was acknowledged": {func(f *file) { wrote(f, first); f.acknowledge(); wrote(f, second); f.fail() }, nil, 160, true},
	} {
		f := &file{id: 3}
		c.do(f)
		lost, err := f.checkFinal(c.have)
		if lost != c.lost || (err != nil) != c.bad {
			t.Errorf("%s: lost %d, want %d; %v", name, lost, c.lost, err)
		}
	}
}

func TestModelOfNames(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*names)
		have map[string]string
		bad  bool
	}{
		"made":            {func(s *names) { s.begin(map[string][]string{"a": {"f:"}}); s.end(true) }, map[string]string{"a": "f:"}, false},
		"made and lost":   {func(s *names) { s.begin(map[string][]string{"a": {"f:"}}); s.end(true) }, nil, true},
		"interrupted":     {func(s *names) { s.begin(map[string][]string{"a": {"f:"}}) }, nil, false},
		"failed and done": {func(s *names) { s.begin(map[string][]string{"a": {"f:"}}); s.end(false) }, map[string]string{"a": "f:"}, false},
		"unknown":         {func(*names) {}, map[string]string{"a": "f:"}, true},
		"half a rename": {func(s *names) {
			s.begin(map[string][]string{"a": {"f:"}})
			s.end(true)
			s.begin(map[string][]string{"a": {absent}, "b": {"f:"}})
		}, map[string]string{"a": "f:", "b": "f:"}, true},
	} {
		var s names
		c.do(&s)
		if _, all := s.check(c.have); (len(all) > 0) != c.bad {
			t.Errorf("%s: %v", name, all)
		}
	}
}
