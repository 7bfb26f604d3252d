package nfsclient

// OpenMode is what a file is opened for.
type OpenMode uint8

const (
	OpenRead OpenMode = 1 << iota
	OpenWrite
)

// OpenState is what the server keeps of one opening of a file, like the stateid
// of NFSv4. Only the Client that made it looks into it. It is nil where there is
// none: with a protocol that does not open files, and in calls for a file that
// their caller has not opened.
type OpenState any

// Opened is the result of opening a file. All of it is missing where nothing came
// with the opening: with a protocol that does not open files there is no call.
type Opened struct {
	State OpenState
	Attr  *Attr
	// Asked are the rights that the server was asked about with the opening, and
	// Granted those of them that the user has. A server may open a file for more than
	// that, as NFS servers do for its owner.
	Asked, Granted AccessMask
}
