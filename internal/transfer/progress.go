package transfer

import "sync/atomic"

// Progress is how far a Copier is. It may be read at any time.
type Progress struct {
	files, bytes           atomic.Int64
	filesFound, bytesFound atomic.Int64
	walked                 atomic.Bool
}

// Count is a state of Progress. Files that need not be copied count as done.
type Count struct {
	Files, Bytes           int64 // done
	FilesFound, BytesFound int64 // to be done, so far
	All                    bool  // nothing more will be found
}

// Count returns the state of this moment.
func (p *Progress) Count() Count {
	return Count{
		Files: p.files.Load(), Bytes: p.bytes.Load(),
		FilesFound: p.filesFound.Load(), BytesFound: p.bytesFound.Load(),
		All: p.walked.Load(),
	}
}

func (p *Progress) found(size int64) {
	if p != nil {
		p.bytesFound.Add(size)
		p.filesFound.Add(1)
	}
}

func (p *Progress) moved(n int64) {
	if p != nil {
		p.bytes.Add(n)
	}
}

// done counts a file as done, of which missing bytes were not copied.
func (p *Progress) done(missing int64) {
	if p != nil {
		p.bytesFound.Add(-missing)
		p.files.Add(1)
	}
}

func (p *Progress) end() {
	if p != nil {
		p.walked.Store(true)
	}
}
