package ring

import "unsafe"

// Numbers and structures of include/uapi/linux/io_uring.h that x/sys lacks. Of
// the features that later kernels have beyond these, none is used.
const (
	setupSQE128    = 1 << 10 // IORING_SETUP_SQE128: Linux 5.19
	setupNoSQArray = 1 << 16 // IORING_SETUP_NO_SQARRAY: Linux 6.6

	featSingleMmap = 1 << 0 // IORING_FEAT_SINGLE_MMAP
	enterGetEvents = 1 << 0 // IORING_ENTER_GETEVENTS

	offRings = 0          // IORING_OFF_SQ_RING
	offSQEs  = 0x10000000 // IORING_OFF_SQES

	opURingCmd = 46 // IORING_OP_URING_CMD
)

// sqOffsets is struct io_sqring_offsets.
type sqOffsets struct {
	head, tail, ringMask, ringEntries, flags, dropped, array, _ uint32
	_                                                           uint64
}

// cqOffsets is struct io_cqring_offsets.
type cqOffsets struct {
	head, tail, ringMask, ringEntries, overflow, cqes, flags, _ uint32
	_                                                           uint64
}

// params is struct io_uring_params.
type params struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFD uint32
	_                                                                      [3]uint32
	sq                                                                     sqOffsets
	cq                                                                     cqOffsets
}

// sqe is struct io_uring_sqe with IORING_SETUP_SQE128, as IORING_OP_URING_CMD has
// it; its command is struct fuse_uring_cmd_req.
type sqe struct {
	opcode, flags uint8
	ioprio        uint16
	fd            int32
	cmdOp, _      uint32
	addr          uint64
	length, _     uint32
	userData      uint64
	bufIndex      uint16
	_             [6]byte
	cmd           struct {
		flags, commitID uint64
		qid             uint16
		_               [62]byte
	}
}

// cqe is struct io_uring_cqe.
type cqe struct {
	userData uint64
	res      int32
	flags    uint32
}

// Numbers and structures of include/uapi/linux/fuse.h, from minor version 42 on.
const (
	cmdRegister       = 1 // FUSE_IO_URING_CMD_REGISTER
	cmdCommitAndFetch = 2 // FUSE_IO_URING_CMD_COMMIT_AND_FETCH

	inHeaderLen  = 40
	outHeaderLen = 16
	headerOpLen  = 128

	// minPayload is FUSE_MIN_READ_BUFFER, the least that the kernel takes as payload
	// or as the buffer of a read of /dev/fuse.
	minPayload = 8192
)

// header is struct fuse_uring_req_header, into which the kernel puts a request,
// and the server the head of its answer.
type header struct {
	inOut [headerOpLen]byte // struct fuse_in_header or fuse_out_header
	op    [headerOpLen]byte // the operation's structure, of requests only
	ent   struct {          // struct fuse_uring_ent_in_out
		flags, commitID uint64
		payloadSize, _  uint32
		_               uint64
	}
}

// The sizes are the kernel's.
var (
	_ [120]byte = [unsafe.Sizeof(params{})]byte{}
	_ [128]byte = [unsafe.Sizeof(sqe{})]byte{}
	_ [16]byte  = [unsafe.Sizeof(cqe{})]byte{}
	_ [288]byte = [unsafe.Sizeof(header{})]byte{}
)
