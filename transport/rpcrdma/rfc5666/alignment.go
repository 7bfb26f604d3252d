package rfc5666

// Alignment is how counted opaque data is aligned in one message: in front of data of
// Threshold bytes or more stand as many bytes as bring it to a multiple of Align, counted
// from Base bytes before the stream. Empty data is not padded.
type Alignment struct{ Base, Align, Threshold int }

// Before is the number of bytes in front of n bytes of data that would else begin
// at offset off of the stream.
func (a *Alignment) Before(off, n int) int {
	if a.Align <= 1 || n == 0 || n < a.Threshold {
		return 0
	}
	if over := (a.Base + off) % a.Align; over > 0 {
		return a.Align - over
	}
	return 0
}
