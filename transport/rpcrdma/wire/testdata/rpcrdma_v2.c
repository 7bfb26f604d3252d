/*
 * Prints headers of RPC-over-RDMA version 2, encoded by what rpcgen makes of
 * rpcrdma_v2.x: one line for each, "name hex". v2_vectors.txt holds what it
 * prints; v2_vectors_test.go has the same headers in Go.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rpcrdma_v2.h"

static void print(const char *name, rpcrdma2_xprt_hdr *h)
{
	static char buf[8192];
	XDR x;

	xdrmem_create(&x, buf, sizeof(buf), XDR_ENCODE);
	if (!xdr_rpcrdma2_xprt_hdr(&x, h)) {
		fprintf(stderr, "%s cannot be encoded\n", name);
		exit(1);
	}
	printf("%s ", name);
	for (u_int i = 0; i < xdr_getpos(&x); i++)
		printf("%02x", (unsigned char)buf[i]);
	printf("\n");
}

static rpcrdma2_xprt_hdr header(rpcrdma2_proc proc, u_int xid, u_int credit)
{
	rpcrdma2_xprt_hdr h;

	memset(&h, 0, sizeof(h));
	h.rdma_xid = xid;
	h.rdma_vers = 2;
	h.rdma_credit = credit;
	h.rdma_body.rdma_proc = proc;
	return h;
}

static void chunks(void)
{
	static rpcrdma2_segment a[2] = {{0x10, 4096, 0x1000200030004000}, {0x11, 3, 0x5000}};
	static rpcrdma2_segment b[1] = {{0x12, 1048576, 0xffffffff00000000}};
	static rpcrdma2_write_list w2, w1;
	static rpcrdma2_read_list r2, r1;
	static rpcrdma2_write_chunk reply, none;
	rpcrdma2_xprt_hdr h = header(RDMA2_MSG, 0xdecafbad, 32);
	rpcrdma2_chunk_lists *l = &h.rdma_body.rpcrdma2_body_u.rdma_chunks;

	print("msg-inline-call", &h);
	l->rdma_direction = RDMA2_REPLY;
	print("msg-inline-reply", &h);

	r1.rdma_entry.rdma_position = 148;
	r1.rdma_entry.rdma_target = a[0];
	r1.rdma_next = &r2;
	r2.rdma_entry.rdma_position = 148;
	r2.rdma_entry.rdma_target = a[1];
	l->rdma_direction = RDMA2_CALL;
	l->rdma_inv_handle = 0x11;
	l->rdma_reads = &r1;
	print("msg-read-chunk", &h);

	w1.rdma_entry.rdma_target.rdma_target_len = 2;
	w1.rdma_entry.rdma_target.rdma_target_val = a;
	w1.rdma_next = &w2;
	w2.rdma_entry.rdma_target.rdma_target_len = 0;
	l->rdma_writes = &w1;
	l->rdma_inv_handle = 0;
	print("msg-read-and-write-chunks", &h);

	reply.rdma_target.rdma_target_len = 1;
	reply.rdma_target.rdma_target_val = b;
	l->rdma_reads = NULL;
	l->rdma_writes = NULL;
	l->rdma_reply = &reply;
	l->rdma_inv_handle = 0x12;
	print("msg-reply-chunk", &h);
	l->rdma_reply = &none;
	l->rdma_inv_handle = 0;
	print("msg-empty-reply-chunk", &h);

	h = header(RDMA2_NOMSG, 7, 1);
	l = &h.rdma_body.rpcrdma2_body_u.rdma_chunks;
	r1.rdma_entry.rdma_position = 0;
	r1.rdma_next = NULL;
	l->rdma_inv_handle = 0x10;
	l->rdma_reads = &r1;
	l->rdma_writes = &w1;
	l->rdma_reply = &reply;
	print("nomsg-call", &h);
	l->rdma_reads = NULL;
	l->rdma_writes = NULL;
	l->rdma_direction = RDMA2_REPLY;
	l->rdma_inv_handle = 0;
	print("nomsg-reply", &h);
}

static void errors(void)
{
	rpcrdma2_xprt_hdr h = header(RDMA2_ERROR, 0x01020304, 128);
	rpcrdma2_error *e = &h.rdma_body.rpcrdma2_body_u.rdma_error;

	e->rdma_err = RDMA2_ERR_VERS;
	e->rpcrdma2_error_u.rdma_vrange.rdma_vers_low = 1;
	e->rpcrdma2_error_u.rdma_vrange.rdma_vers_high = 2;
	print("err-vers", &h);
	e->rdma_err = RDMA2_ERR_BAD_XDR;
	print("err-bad-xdr", &h);
	e->rdma_err = RDMA2_ERR_INVAL_PROC;
	print("err-inval-proc", &h);
	e->rdma_err = RDMA2_ERR_READ_CHUNKS;
	e->rpcrdma2_error_u.rdma_max_chunks = 0;
	print("err-read-chunks", &h);
	e->rdma_err = RDMA2_ERR_WRITE_CHUNKS;
	e->rpcrdma2_error_u.rdma_max_chunks = 3;
	print("err-write-chunks", &h);
	e->rdma_err = RDMA2_ERR_SEGMENTS;
	e->rpcrdma2_error_u.rdma_max_segments = 16;
	print("err-segments", &h);
	e->rdma_err = RDMA2_ERR_WRITE_RESOURCE;
	e->rpcrdma2_error_u.rdma_writeres.rdma_chunk_index = 2;
	e->rpcrdma2_error_u.rdma_writeres.rdma_length_needed = 70000;
	print("err-write-resource", &h);
	e->rdma_err = RDMA2_ERR_REPLY_RESOURCE;
	e->rpcrdma2_error_u.rdma_length_needed = 80000;
	print("err-reply-resource", &h);
	e->rdma_err = RDMA2_ERR_INVAL_OPTION;
	print("err-inval-option", &h);
	e->rdma_err = RDMA2_ERR_SYSTEM;
	print("err-system", &h);
}

static void optional(void)
{
	rpcrdma2_xprt_hdr h = header(RDMA2_OPTIONAL, 9, 2);
	rpcrdma2_optional *o = &h.rdma_body.rpcrdma2_body_u.rdma_optional;

	o->rdma_opttype = 0x7777;
	print("optional-empty", &h);
	o->rdma_optdir = RDMA2_REPLY;
	o->rdma_optinfo.rdma_optinfo_val = "fives";
	o->rdma_optinfo.rdma_optinfo_len = 5;
	print("optional-info", &h);
}

/* value encodes a property's value with the type that the draft gives it. */
static rpcrdma2_propval value(rpcrdma2_propid which, u_long v, xdrproc_t type)
{
	rpcrdma2_propval p;
	XDR x;
	int i = (int)v;

	p.rdma_which = which;
	p.rdma_data.rdma_data_val = malloc(8);
	xdrmem_create(&x, p.rdma_data.rdma_data_val, 8, XDR_ENCODE);
	if (!type(&x, &i))
		exit(1);
	p.rdma_data.rdma_data_len = xdr_getpos(&x);
	return p;
}

static void properties(void)
{
	rpcrdma2_propval set[40];
	u_int mask[2] = {0x80000002, 0x00000080};
	rpcrdma2_xprt_hdr h = header(RDMA2_CONNPROP, 11, 64);
	rpcrdma2_connprop *c = &h.rdma_body.rpcrdma2_body_u.rdma_connprop;
	rpcrdma2_resprop *r;

	print("connprop-empty", &h);
	set[0] = value(RDMA2_PROPID_RBSIZ, 65536, (xdrproc_t)xdr_rpcrdma2_prop_rbsiz);
	set[1] = value(RDMA2_PROPID_BRS, RDMA2_BKREQSUP_GENL, (xdrproc_t)xdr_rpcrdma2_prop_brs);
	c->rdma_start.rpcrdma2_propset_len = 2;
	c->rdma_start.rpcrdma2_propset_val = set;
	c->rdma_nochg.rpcrdma2_propsubset_len = 1;
	c->rdma_nochg.rpcrdma2_propsubset_val = mask;
	print("connprop", &h);

	set[2].rdma_which = 0xffffff00;
	set[2].rdma_data.rdma_data_len = 5;
	set[2].rdma_data.rdma_data_val = "maybe";
	set[3].rdma_which = RDMA2_PROPID_BRS;
	set[3].rdma_data.rdma_data_len = 0;
	c->rdma_start.rpcrdma2_propset_len = 4;
	c->rdma_nochg.rpcrdma2_propsubset_len = 0;
	print("connprop-unknown-and-default", &h);

	h = header(RDMA2_REQPROP, 12, 64);
	h.rdma_body.rpcrdma2_body_u.rdma_reqprop.rdma_want.rpcrdma2_propset_len = 1;
	h.rdma_body.rpcrdma2_body_u.rdma_reqprop.rdma_want.rpcrdma2_propset_val = set;
	print("reqprop", &h);

	h = header(RDMA2_RESPROP, 12, 64);
	r = &h.rdma_body.rpcrdma2_body_u.rdma_resprop;
	r->rdma_done.rpcrdma2_propsubset_len = 2;
	r->rdma_done.rpcrdma2_propsubset_val = mask;
	r->rdma_rejected.rpcrdma2_propsubset_len = 1;
	r->rdma_rejected.rpcrdma2_propsubset_val = mask + 1;
	r->rdma_other.rpcrdma2_propset_len = 1;
	r->rdma_other.rpcrdma2_propset_val = set;
	print("resprop", &h);

	h = header(RDMA2_UPDPROP, 13, 64);
	h.rdma_body.rpcrdma2_body_u.rdma_updprop.rdma_now.rpcrdma2_propset_len = 2;
	h.rdma_body.rpcrdma2_body_u.rdma_updprop.rdma_now.rpcrdma2_propset_val = set;
	print("updprop", &h);
}

int main(void)
{
	chunks();
	errors();
	optional();
	properties();
	return 0;
}
