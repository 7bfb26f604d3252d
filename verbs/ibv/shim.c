//go:build cgo && linux

#if !__has_include(<infiniband/verbs.h>) || !__has_include(<rdma/rdma_cma.h>)
#error "rdmafs: install libibverbs-dev and librdmacm-dev, or build with CGO_ENABLED=0"
#endif

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "shim.h"

// What the headers do not inline is called through these.
#define VERBS(X) \
	X(ibv_get_device_list) X(ibv_free_device_list) X(ibv_get_device_name) X(ibv_query_device) X(ibv_query_port) \
	X(ibv_open_device) X(ibv_close_device) \
	X(ibv_get_async_event) X(ibv_ack_async_event) X(ibv_event_type_str) \
	X(ibv_alloc_pd) X(ibv_dealloc_pd) X(ibv_reg_mr) X(ibv_dereg_mr) \
	X(ibv_create_comp_channel) X(ibv_destroy_comp_channel) X(ibv_create_cq) X(ibv_destroy_cq) \
	X(ibv_get_cq_event) X(ibv_ack_cq_events) X(ibv_wc_status_str)
#define CM(X) \
	X(rdma_create_event_channel) X(rdma_destroy_event_channel) X(rdma_get_cm_event) X(rdma_ack_cm_event) \
	X(rdma_create_id) X(rdma_destroy_id) X(rdma_migrate_id) X(rdma_bind_addr) X(rdma_listen) \
	X(rdma_resolve_addr) X(rdma_resolve_route) X(rdma_create_qp) X(rdma_destroy_qp) \
	X(rdma_connect) X(rdma_accept) X(rdma_reject) X(rdma_disconnect)

#define POINTER(name) static __typeof__(name) *p_##name;
VERBS(POINTER)
CM(POINTER)

static int missing(char *why, int size)
{
	const char *e = dlerror();
	snprintf(why, size, "%s", e ? e : "unknown error");
	return -ENOENT;
}

int rv_load(char *why, int size)
{
	void *lib;
#define FIND(name) \
	if (!(p_##name = (__typeof__(p_##name))dlsym(lib, #name))) \
		return missing(why, size);
	if (!(lib = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL)))
		return missing(why, size);
	VERBS(FIND)
	if (!(lib = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_GLOBAL)))
		return missing(why, size);
	CM(FIND)
	return 0;
}

// result turns -1 with errno set into a negated errno.
static int result(int r) { return r ? -errno : 0; }

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return fd;
}

int rv_devices(void)
{
	int n;
	struct ibv_device **list = p_ibv_get_device_list(&n);
	if (!list)
		return errno ? -errno : -ENOSYS;
	p_ibv_free_device_list(list);
	return n;
}

static int has_windows(struct ibv_pd *pd, unsigned caps)
{
	struct rv_mw w;
	if (!(caps & (IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
		return 0;
	if (rv_alloc_mw(pd, &w) < 0)
		return 0;
	rv_dealloc_mw(w.mw);
	return 1;
}

static int inspect(struct ibv_context *ctx, struct rv_windows *out)
{
	struct ibv_device_attr a;
	struct ibv_pd *pd;
	int r = p_ibv_query_device(ctx, &a);
	if (r)
		return -r;
	memset(out, 0, sizeof *out);
	out->type1 = !!(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	out->type2a = !!(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A);
	out->type2b = !!(a.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	if (!(pd = p_ibv_alloc_pd(ctx)))
		return -errno;
	out->usable = has_windows(pd, a.device_cap_flags);
	p_ibv_dealloc_pd(pd);
	return 0;
}

int rv_windows(const char *name, struct rv_windows *out)
{
	struct ibv_context *ctx;
	int i, n, r = -ENODEV;
	struct ibv_device **list = p_ibv_get_device_list(&n);
	if (!list)
		return errno ? -errno : -ENOSYS;
	for (i = 0; i < n; i++) {
		if (strcmp(p_ibv_get_device_name(list[i]), name))
			continue;
		errno = 0;
		ctx = p_ibv_open_device(list[i]);
		if (!ctx) {
			r = errno ? -errno : -EIO;
			break;
		}
		r = inspect(ctx, out);
		p_ibv_close_device(ctx);
		break;
	}
	p_ibv_free_device_list(list);
	return r;
}

int rv_adapter(struct ibv_context *ctx, struct ibv_pd *pd, int port, struct rv_adapter *out)
{
	struct ibv_device_attr a;
	struct ibv_port_attr p;
	int r = p_ibv_query_device(ctx, &a);
	if (r)
		return -r;
	memset(&p, 0, sizeof p);
	r = p_ibv_query_port(ctx, port, (struct _compat_ibv_port_attr *)&p);
	if (r)
		return -r;
	memset(out, 0, sizeof *out);
	snprintf(out->name, sizeof out->name, "%s", p_ibv_get_device_name(ctx->device));
	out->max_sge = a.max_sge;
	out->max_wr = a.max_qp_wr;
	out->max_cqe = a.max_cqe;
	out->max_read_in = a.max_qp_rd_atom;
	out->max_read_out = a.max_qp_init_rd_atom;
	out->max_message = p.max_msg_sz;
	out->iwarp = ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	out->windows = has_windows(pd, a.device_cap_flags);
	return 0;
}

int rv_async_fd(struct ibv_context *ctx) { return nonblocking(ctx->async_fd); }

int rv_async(struct ibv_context *ctx, struct rv_async *out)
{
	struct ibv_async_event e;
	if (p_ibv_get_async_event(ctx, &e))
		return -errno;
	memset(out, 0, sizeof *out);
	snprintf(out->text, sizeof out->text, "%s", p_ibv_event_type_str(e.event_type));
	switch (e.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		out->kind = RV_ASYNC_QP;
		out->qpn = e.element.qp->qp_num;
		break;
	case IBV_EVENT_CQ_ERR:
		out->kind = RV_ASYNC_CQ;
		out->cq = (uintptr_t)e.element.cq;
		break;
	case IBV_EVENT_PORT_ERR:
		out->kind = RV_ASYNC_PORT;
		out->port = e.element.port_num;
		break;
	case IBV_EVENT_DEVICE_FATAL:
		out->kind = RV_ASYNC_DEVICE;
		break;
	default:
		break;
	}
	p_ibv_ack_async_event(&e);
	return 0;
}

int rv_alloc_pd(struct ibv_context *ctx, struct ibv_pd **out)
{
	errno = 0;
	*out = p_ibv_alloc_pd(ctx);
	return *out ? 0 : -errno;
}

int rv_dealloc_pd(struct ibv_pd *pd) { return -p_ibv_dealloc_pd(pd); }

int rv_reg_mr(struct ibv_pd *pd, void *addr, uint64_t len, int remote, struct rv_mr *out)
{
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;
	access |= remote ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_MW_BIND;
	mr = p_ibv_reg_mr(pd, addr, len, access);
	if (!mr)
		return -errno;
	out->mr = (uintptr_t)mr;
	out->lkey = mr->lkey;
	out->rkey = mr->rkey;
	return 0;
}

int rv_dereg_mr(uint64_t mr) { return -p_ibv_dereg_mr((struct ibv_mr *)(uintptr_t)mr); }

int rv_alloc_mw(struct ibv_pd *pd, struct rv_mw *out)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	if (!mw)
		return -errno;
	out->mw = (uintptr_t)mw;
	out->rkey = mw->rkey;
	return 0;
}

int rv_dealloc_mw(uint64_t mw) { return -ibv_dealloc_mw((struct ibv_mw *)(uintptr_t)mw); }

int rv_channel(struct rdma_event_channel **out)
{
	struct rdma_event_channel *ch = p_rdma_create_event_channel();
	int fd;
	if (!ch)
		return -errno;
	fd = nonblocking(ch->fd);
	if (fd < 0)
		p_rdma_destroy_event_channel(ch);
	*out = ch;
	return fd;
}

void rv_destroy_channel(struct rdma_event_channel *ch) { p_rdma_destroy_event_channel(ch); }

int rv_event(struct rdma_event_channel *ch, struct rv_event *out)
{
	struct rdma_cm_event *e;
	if (p_rdma_get_cm_event(ch, &e))
		return -errno;
	out->id = e->id;
	out->type = e->event;
	out->status = e->status;
	out->reads_in = e->param.conn.responder_resources;
	out->reads_out = e->param.conn.initiator_depth;
	out->private_len = 0;
	if (e->param.conn.private_data && e->param.conn.private_data_len) {
		out->private_len = e->param.conn.private_data_len;
		memcpy(out->private_data, e->param.conn.private_data, e->param.conn.private_data_len);
	}
	p_rdma_ack_cm_event(e);
	return 0;
}

int rv_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **out)
{
	return result(p_rdma_create_id(ch, out, NULL, RDMA_PS_TCP));
}

void rv_destroy_id(struct rdma_cm_id *id) { p_rdma_destroy_id(id); }

int rv_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *ch) { return result(p_rdma_migrate_id(id, ch)); }

int rv_bind(struct rdma_cm_id *id, void *addr) { return result(p_rdma_bind_addr(id, addr)); }

int rv_listen(struct rdma_cm_id *id, int backlog) { return result(p_rdma_listen(id, backlog)); }

int rv_resolve_addr(struct rdma_cm_id *id, void *src, void *dst, int ms)
{
	return result(p_rdma_resolve_addr(id, src, dst, ms));
}

int rv_resolve_route(struct rdma_cm_id *id, int ms) { return result(p_rdma_resolve_route(id, ms)); }

void rv_id(struct rdma_cm_id *id, struct rv_id *out)
{
	memset(out, 0, sizeof *out);
	out->ctx = id->verbs;
	out->port = id->port_num;
	if (id->verbs)
		snprintf(out->name, sizeof out->name, "%s", p_ibv_get_device_name(id->verbs->device));
	memcpy(out->local, rdma_get_local_addr(id), RV_SOCKADDR);
	memcpy(out->remote, rdma_get_peer_addr(id), RV_SOCKADDR);
}

// parameters says that a message which meets no receive ends the connection:
// credits make sure that there is one.
static struct rdma_conn_param parameters(void *private_data, int len, int reads_in, int reads_out)
{
	struct rdma_conn_param p;
	memset(&p, 0, sizeof p);
	p.private_data = len ? private_data : NULL;
	p.private_data_len = len;
	p.responder_resources = reads_in;
	p.initiator_depth = reads_out;
	p.retry_count = 7;
	p.rnr_retry_count = 0;
	return p;
}

int rv_connect(struct rdma_cm_id *id, void *private_data, int len, int reads_in, int reads_out)
{
	struct rdma_conn_param p = parameters(private_data, len, reads_in, reads_out);
	return result(p_rdma_connect(id, &p));
}

int rv_accept(struct rdma_cm_id *id, void *private_data, int len, int reads_in, int reads_out)
{
	struct rdma_conn_param p = parameters(private_data, len, reads_in, reads_out);
	return result(p_rdma_accept(id, &p));
}

int rv_reject(struct rdma_cm_id *id, void *private_data, int len)
{
	return result(p_rdma_reject(id, len ? private_data : NULL, len));
}

int rv_disconnect(struct rdma_cm_id *id) { return result(p_rdma_disconnect(id)); }

int rv_create_cq(struct ibv_context *ctx, int n, struct ibv_comp_channel **ch, struct ibv_cq **cq)
{
	int fd;
	*ch = p_ibv_create_comp_channel(ctx);
	if (!*ch)
		return -errno;
	fd = nonblocking((*ch)->fd);
	if (fd >= 0) {
		*cq = p_ibv_create_cq(ctx, n, NULL, *ch, 0);
		if (*cq)
			return fd;
		fd = -errno;
	}
	p_ibv_destroy_comp_channel(*ch);
	return fd;
}

void rv_destroy_cq(struct ibv_cq *cq, struct ibv_comp_channel *ch)
{
	p_ibv_destroy_cq(cq);
	p_ibv_destroy_comp_channel(ch);
}

int rv_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq, int sends, int recvs, int sge,
	struct ibv_qp **out, uint32_t *qpn)
{
	struct ibv_qp_init_attr a;
	memset(&a, 0, sizeof a);
	a.send_cq = a.recv_cq = cq;
	a.cap.max_send_wr = sends;
	a.cap.max_recv_wr = recvs;
	a.cap.max_send_sge = sge;
	a.cap.max_recv_sge = 1;
	a.qp_type = IBV_QPT_RC;
	if (p_rdma_create_qp(id, pd, &a))
		return -errno;
	*out = id->qp;
	*qpn = id->qp->qp_num;
	return 0;
}

void rv_destroy_qp(struct rdma_cm_id *id) { p_rdma_destroy_qp(id); }

enum { CHUNK = 32 };

_Static_assert(sizeof(struct rv_sge) == sizeof(struct ibv_sge), "rv_sge is ibv_sge");

static void fill(struct ibv_send_wr *to, struct rv_wr *w, struct rv_sge *sge)
{
	memset(to, 0, sizeof *to);
	to->wr_id = w->id;
	to->send_flags = w->signaled ? IBV_SEND_SIGNALED : 0;
	to->sg_list = (struct ibv_sge *)(sge + w->sge);
	to->num_sge = w->sges;
	switch (w->op) {
	case RV_SEND:
		to->opcode = IBV_WR_SEND;
		break;
	case RV_SEND_INV:
		to->opcode = IBV_WR_SEND_WITH_INV;
		to->invalidate_rkey = w->rkey;
		break;
	case RV_WRITE:
	case RV_READ:
		to->opcode = w->op == RV_WRITE ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		to->wr.rdma.remote_addr = w->addr;
		to->wr.rdma.rkey = w->rkey;
		break;
	case RV_BIND:
		to->opcode = IBV_WR_BIND_MW;
		to->bind_mw.mw = (struct ibv_mw *)(uintptr_t)w->mw;
		to->bind_mw.rkey = w->rkey;
		to->bind_mw.bind_info.mr = (struct ibv_mr *)(uintptr_t)w->mr;
		to->bind_mw.bind_info.addr = w->addr;
		to->bind_mw.bind_info.length = w->len;
		to->bind_mw.bind_info.mw_access_flags = (w->remote_read ? IBV_ACCESS_REMOTE_READ : 0) |
			(w->remote_write ? IBV_ACCESS_REMOTE_WRITE : 0);
		break;
	case RV_LOCAL_INV:
		to->opcode = IBV_WR_LOCAL_INV;
		to->invalidate_rkey = w->rkey;
		break;
	}
}

// bound_in reports whether a bind of the same window is among wr[0..n): the library
// reads the window's present key when the second is posted.
static int bound_in(struct rv_wr *wr, int n, uint64_t mw)
{
	for (int i = 0; i < n; i++)
		if (wr[i].op == RV_BIND && wr[i].mw == mw)
			return 1;
	return 0;
}

struct rv_posted rv_post_send(struct ibv_qp *qp, struct rv_wr *wr, int n, struct rv_sge *sge)
{
	struct ibv_send_wr list[CHUNK], *bad;
	struct rv_posted done = {0, 0};
	while (done.n < n && !done.error) {
		struct rv_wr *part = wr + done.n;
		int k = 0, taken;
		while (k < CHUNK && done.n + k < n && !(part[k].op == RV_BIND && bound_in(part, k, part[k].mw))) {
			fill(&list[k], &part[k], sge);
			if (k)
				list[k - 1].next = &list[k];
			k++;
		}
		bad = NULL;
		done.error = abs(ibv_post_send(qp, list, &bad)); // siw negates
		taken = done.error ? (bad ? bad - list : 0) : k;
		for (int i = 0; i < taken; i++)
			if (part[i].op == RV_BIND)
				((struct ibv_mw *)(uintptr_t)part[i].mw)->rkey = part[i].rkey;
		done.n += taken;
	}
	return done;
}

struct rv_posted rv_post_recv(struct ibv_qp *qp, struct rv_recv *wr, int n)
{
	struct ibv_recv_wr list[CHUNK], *bad;
	struct rv_posted done = {0, 0};
	while (done.n < n && !done.error) {
		int k;
		for (k = 0; k < CHUNK && done.n + k < n; k++) {
			struct rv_recv *w = &wr[done.n + k];
			list[k].wr_id = w->id;
			list[k].next = NULL;
			list[k].sg_list = (struct ibv_sge *)&w->sge;
			list[k].num_sge = 1;
			if (k)
				list[k - 1].next = &list[k];
		}
		bad = NULL;
		done.error = abs(ibv_post_recv(qp, list, &bad));
		done.n += done.error ? (bad ? bad - list : 0) : k;
	}
	return done;
}

static int poll(struct ibv_cq *cq, struct rv_wc *out, int max)
{
	struct ibv_wc wc[CHUNK];
	int n = ibv_poll_cq(cq, max < CHUNK ? max : CHUNK, wc);
	if (n < 0)
		return errno ? -errno : -EIO;
	for (int i = 0; i < n; i++) {
		out[i].id = wc[i].wr_id;
		out[i].status = wc[i].status;
		out[i].len = wc[i].byte_len;
		out[i].vendor = wc[i].vendor_err;
		// rxe of Linux 6.12 sets the kernel's own bit, which means a
		// good IP checksum here.
		out[i].invalidated = wc[i].wc_flags & IBV_WC_WITH_INV ? RV_INVALIDATED :
			wc[i].wc_flags & IBV_WC_IP_CSUM_OK ? RV_MAYBE : 0;
		out[i].invalidated_key = wc[i].invalidated_rkey;
	}
	return n;
}

static int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int rv_poll(struct ibv_cq *cq, struct rv_wc *out, int max, int arm, int spin_ns)
{
	int n = poll(cq, out, max);
	if (n == 0 && spin_ns > 0) {
		int64_t end = now() + spin_ns;
		do {
			n = poll(cq, out, max);
		} while (n == 0 && now() < end);
	}
	if (n != 0 || !arm)
		return n;
	if ((n = ibv_req_notify_cq(cq, 0)))
		return -n;
	return poll(cq, out, max);
}

int rv_cq_events(struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq = NULL;
	void *ctx;
	int n = 0;
	while (p_ibv_get_cq_event(ch, &cq, &ctx) == 0)
		n++;
	if (n)
		p_ibv_ack_cq_events(cq, n); // the channel has one queue
	else if (errno != EAGAIN)
		return -errno;
	return n;
}

const char *rv_status(int status) { return p_ibv_wc_status_str(status); }
