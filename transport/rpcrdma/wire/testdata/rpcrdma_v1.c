/*
 * Prints headers of RPC-over-RDMA version 1, encoded by what rpcgen makes of
 * rpcrdma_v1.x, which is the XDR of RFC 8166 with its licence: a line for each,
 * what is in it and then its bytes in hex. v1_vectors.txt holds what it prints.
 *
 * The headers are of every procedure, with lists of every length up to three
 * entries; what stands in them comes from a linear congruential generator.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_v1.h"

#define MOST 3

static unsigned int state = 1;

static unsigned int number(void)
{
	state = state * 1664525u + 1013904223u;
	/* Zero and all ones are worth more than their share. */
	switch (state >> 29) {
	case 0:
		return 0;
	case 1:
		return 0xffffffffu;
	}
	return state ^ state >> 16;
}

static xdr_rdma_segment segment(void)
{
	xdr_rdma_segment s;

	s.handle = number();
	s.length = number();
	s.offset = (u_quad_t)number() << 32;
	s.offset |= number();
	return s;
}

static void tell_segment(const xdr_rdma_segment *s)
{
	printf("%x:%x:%llx", s->handle, s->length, (unsigned long long)s->offset);
}

static void tell_chunk(const xdr_write_chunk *c)
{
	printf("{");
	for (u_int i = 0; i < c->target.target_len; i++) {
		printf(i ? "," : "");
		tell_segment(&c->target.target_val[i]);
	}
	printf("}");
}

static xdr_write_chunk chunk(int n)
{
	xdr_write_chunk c;

	c.target.target_len = n;
	c.target.target_val = calloc(n + 1, sizeof(xdr_rdma_segment));
	for (int i = 0; i < n; i++)
		c.target.target_val[i] = segment();
	return c;
}

/* lists fills in a header of the given numbers of entries; reply < 0 is none. */
static void lists(rpc_rdma_header *h, int reads, int writes, int reply)
{
	static xdr_read_list r[MOST];
	static xdr_write_list w[MOST];
	static xdr_write_chunk last;

	memset(h, 0, sizeof(*h));
	printf(" reads=");
	for (int i = 0; i < reads; i++) {
		r[i].entry.position = number() & ~3u;
		r[i].entry.target = segment();
		r[i].next = i + 1 < reads ? &r[i + 1] : NULL;
		printf(i ? ",%x@" : "%x@", r[i].entry.position);
		tell_segment(&r[i].entry.target);
		h->rdma_reads = r;
	}
	printf(" writes=");
	for (int i = 0; i < writes; i++) {
		w[i].entry = chunk((i + writes) % (MOST + 1));
		w[i].next = i + 1 < writes ? &w[i + 1] : NULL;
		tell_chunk(&w[i].entry);
		h->rdma_writes = w;
	}
	printf(" reply=");
	if (reply >= 0) {
		last = chunk(reply);
		tell_chunk(&last);
		h->rdma_reply = &last;
	}
}

static rdma_msg start(rdma_proc proc)
{
	rdma_msg m;

	memset(&m, 0, sizeof(m));
	m.rdma_xid = number();
	m.rdma_vers = 1;
	m.rdma_credit = number();
	m.rdma_body.proc = proc;
	printf("proc=%d xid=%x credit=%x", proc, m.rdma_xid, m.rdma_credit);
	return m;
}

static void finish(rdma_msg *m)
{
	static char buf[8192];
	XDR x;

	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	if (!xdr_rdma_msg(&x, m)) {
		fprintf(stderr, "a header cannot be encoded\n");
		exit(1);
	}
	printf(" ");
	for (u_int i = 0; i < xdr_getpos(&x); i++)
		printf("%02x", (unsigned char)buf[i]);
	printf("\n");
}

int main(void)
{
	rdma_msg m;
	rpc_rdma_header h;

	for (int reads = 0; reads <= MOST; reads++)
		for (int writes = 0; writes <= MOST; writes++)
			for (int reply = -1; reply <= 2; reply++) {
				m = start(RDMA_MSG);
				lists(&m.rdma_body.rdma_body_u.rdma_msg, reads, writes, reply);
				finish(&m);
				m = start(RDMA_NOMSG);
				lists(&h, reads, writes, reply);
				m.rdma_body.rdma_body_u.rdma_nomsg.rdma_reads = h.rdma_reads;
				m.rdma_body.rdma_body_u.rdma_nomsg.rdma_writes = h.rdma_writes;
				m.rdma_body.rdma_body_u.rdma_nomsg.rdma_reply = h.rdma_reply;
				finish(&m);
				m = start(RDMA_MSGP);
				rpc_rdma_header_padded *p = &m.rdma_body.rdma_body_u.rdma_msgp;
				unsigned int align = number(), thresh = number();
				printf(" align=%x thresh=%x", align, thresh);
				lists(&h, reads, writes, reply);
				p->rdma_align = align;
				p->rdma_thresh = thresh;
				p->rdma_reads = h.rdma_reads;
				p->rdma_writes = h.rdma_writes;
				p->rdma_reply = h.rdma_reply;
				finish(&m);
			}
	for (int i = 0; i < 4; i++) {
		m = start(RDMA_DONE);
		finish(&m);
		m = start(RDMA_ERROR);
		rpc_rdma_error *e = &m.rdma_body.rdma_body_u.rdma_error;
		e->err = ERR_VERS;
		e->rpc_rdma_error_u.range.rdma_vers_low = number();
		e->rpc_rdma_error_u.range.rdma_vers_high = number();
		printf(" err=1 low=%x high=%x", e->rpc_rdma_error_u.range.rdma_vers_low, e->rpc_rdma_error_u.range.rdma_vers_high);
		finish(&m);
		m = start(RDMA_ERROR);
		m.rdma_body.rdma_body_u.rdma_error.err = ERR_CHUNK;
		printf(" err=2");
		finish(&m);
	}
	return 0;
}
