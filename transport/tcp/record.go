package tcp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/rdmafs/rdmafs/transport"
)

// lastFragment is the bit of a record mark that says so (RFC 5531 section 11).
const lastFragment = 1 << 31

// readAhead is how much of the stream is read at once where that is more than
// is needed: several small records, or the beginning of a long one.
const readAhead = 16 << 10

var (
	// errRecordEnd: the record holds no more bytes.
	errRecordEnd = errors.New("end of the record")
	// errTooLong: the record is longer than the reader's bound.
	errTooLong = fmt.Errorf("%w: record too long", transport.ErrProtocol)
)

// records splits a stream into records.
type records struct {
	r *bufio.Reader
	// left is what remains of the present fragment; last says that no other
	// follows it.
	left int
	last bool
	mark [4]byte
	head [8]byte // of the record, for who reads it
}

func newRecords(r io.Reader) *records { return &records{r: bufio.NewReaderSize(r, readAhead)} }

// next starts the next record; the one before must have been read or skipped.
// It returns io.EOF when the stream ends between records.
func (s *records) next() error {
	_, err := io.ReadFull(s.r, s.mark[:])
	s.setMark()
	return err
}

func (s *records) setMark() {
	m := binary.BigEndian.Uint32(s.mark[:])
	s.left, s.last = int(m&^lastFragment), m&lastFragment != 0
}

// more makes sure that the present fragment is not empty, going on to the next.
func (s *records) more() error {
	for s.left == 0 {
		if s.last {
			return errRecordEnd
		}
		if _, err := io.ReadFull(s.r, s.mark[:]); err != nil {
			return noEOF(err)
		}
		s.setMark()
	}
	return nil
}

// read fills p from the record; errRecordEnd comes with the bytes there were.
func (s *records) read(p []byte) (n int, err error) {
	for n < len(p) {
		if err := s.more(); err != nil {
			return n, err
		}
		k, err := io.ReadFull(s.r, p[n:min(len(p), n+s.left)])
		n, s.left = n+k, s.left-k
		if err != nil {
			return n, noEOF(err)
		}
	}
	return n, nil
}

// rest appends to b what remains of the record, up to limit bytes in all;
// errTooLong leaves the record unread from there on. It takes b.
func (s *records) rest(b *buffer, limit int) (*buffer, error) {
	for {
		switch err := s.more(); {
		case err == errRecordEnd:
			return b, nil
		case err != nil:
			return b, err
		}
		have := len(b.b)
		if s.left > limit-have {
			return b, errTooLong
		}
		b = b.grow(have + s.left)
		if _, err := s.read(b.b[have:]); err != nil {
			return b, err
		}
	}
}

// skip drops what remains of the record, at most limit bytes.
func (s *records) skip(limit int) error {
	for {
		switch err := s.more(); {
		case err == errRecordEnd:
			return nil
		case err != nil:
			return err
		}
		if s.left > limit {
			return errTooLong
		}
		limit -= s.left
		n, err := s.r.Discard(s.left)
		s.left -= n
		if err != nil {
			return noEOF(err)
		}
	}
}

func noEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
