package writeback

// Errors counts the writes of a file that failed for good. Each opening of the
// file remembers the count up to which its Fsync has returned them.
type Errors struct {
	count uint64
	last  error
}

// Add counts err.
func (e *Errors) Add(err error) {
	e.count++
	e.last = err
}

// Count is how many there were.
func (e *Errors) Count() uint64 { return e.count }

// Since is the last error if there were more than mark.
func (e *Errors) Since(mark uint64) error {
	if e.count <= mark {
		return nil
	}
	return e.last
}
