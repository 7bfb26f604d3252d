// Package ctl is the language that the harness and the agent in the guest
// speak over one byte stream: frames of kind, id, length and body.
//
// It owns the encoding and refuses frames longer than MaxBody and kinds it
// does not know.  It starts no goroutine and has no lock; a stream has one
// reader, and each frame is written by one Write call.
package ctl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// MaxBody bounds the body of a frame, and so what a reader allocates.
const MaxBody = 256 << 10

const headSize = 9

// Kind says what a frame means.
type Kind uint8

const (
	// Hello, from the guest: the agent runs.
	Hello Kind = iota + 1
	// Start, to the guest: run the shell command in the body under the id.
	Start
	// Kill, to the guest: kill the processes of the id.
	Kill
	// PowerOff, to the guest: end.
	PowerOff
	// Output, from the guest: bytes that the id's command wrote.
	Output
	// Exit, from the guest: the id's command ended; the body is the exit
	// code as AppendCode writes it.  The last frame of an id.
	Exit
	// Failed, from the guest: the id's command could not be run; the body
	// is the reason.  The last frame of an id.
	Failed

	kinds
)

// Frame is one message.
type Frame struct {
	Kind Kind
	ID   uint32
	Body []byte
}

var (
	// ErrTooLong is a frame whose body exceeds MaxBody.
	ErrTooLong = errors.New("ctl: frame too long")
	// ErrKind is a frame of no known kind.
	ErrKind = errors.New("ctl: unknown kind of frame")
	// ErrCode is an Exit frame without a proper exit code.
	ErrCode = errors.New("ctl: malformed exit code")
)

// Append adds the encoding of f to dst.
func Append(dst []byte, f Frame) ([]byte, error) {
	if len(f.Body) > MaxBody {
		return dst, ErrTooLong
	}
	dst = append(dst, byte(f.Kind))
	dst = binary.BigEndian.AppendUint32(dst, f.ID)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Body)))
	return append(dst, f.Body...), nil
}

// Read takes the next frame from r.  io.EOF means that the stream ended
// between frames.
func Read(r io.Reader) (Frame, error) {
	var head [headSize]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Kind: Kind(head[0]), ID: binary.BigEndian.Uint32(head[1:])}
	if f.Kind == 0 || f.Kind >= kinds {
		return Frame{}, fmt.Errorf("%w: %d", ErrKind, f.Kind)
	}
	n := binary.BigEndian.Uint32(head[5:])
	if n > MaxBody {
		return Frame{}, fmt.Errorf("%w: %d bytes", ErrTooLong, n)
	}
	f.Body = make([]byte, n)
	if _, err := io.ReadFull(r, f.Body); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, err
	}
	return f, nil
}

// AppendCode adds an exit code to dst.
func AppendCode(dst []byte, code int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(int32(code)))
}

// Code reads the body of an Exit frame.
func Code(body []byte) (int, error) {
	if len(body) != 4 {
		return 0, ErrCode
	}
	return int(int32(binary.BigEndian.Uint32(body))), nil
}
