// The only C that Go sees: plain structures without Go pointers, and one call
// for a batch. Results below zero are negated errno values.
#ifndef RDMAFS_IBV_SHIM_H
#define RDMAFS_IBV_SHIM_H

#include <stdint.h>

struct ibv_context;
struct ibv_pd;
struct ibv_mr;
struct ibv_mw;
struct ibv_cq;
struct ibv_qp;
struct ibv_comp_channel;
struct rdma_event_channel;
struct rdma_cm_id;

enum { RV_NAME = 64, RV_PRIVATE = 256, RV_SOCKADDR = 28 };

// rv_load opens the libraries. It writes what is missing to why.
int rv_load(char *why, int size);

// rv_devices counts the devices that the libraries can drive.
int rv_devices(void);

// rv_windows asks a device, by name, for its memory windows.
struct rv_windows { int32_t type1, type2a, type2b, usable; };
int rv_windows(const char *name, struct rv_windows *out);

struct rv_adapter {
	char name[RV_NAME];
	int32_t max_sge, max_wr, max_cqe, max_read_in, max_read_out;
	uint32_t max_message;
	int32_t iwarp, windows;
};
int rv_adapter(struct ibv_context *ctx, struct ibv_pd *pd, int port, struct rv_adapter *out);

// rv_async_fd is the descriptor of asynchronous events, made non-blocking.
int rv_async_fd(struct ibv_context *ctx);
enum { RV_ASYNC_OTHER, RV_ASYNC_QP, RV_ASYNC_CQ, RV_ASYNC_PORT, RV_ASYNC_DEVICE };
struct rv_async {
	int32_t kind;
	uint32_t qpn; // RV_ASYNC_QP
	uint64_t cq;  // RV_ASYNC_CQ
	int32_t port; // RV_ASYNC_PORT
	char text[RV_NAME];
};
int rv_async(struct ibv_context *ctx, struct rv_async *out);

// Protection domains, regions and windows.
int rv_alloc_pd(struct ibv_context *ctx, struct ibv_pd **out);
int rv_dealloc_pd(struct ibv_pd *pd);
struct rv_mr { uint64_t mr; uint32_t lkey, rkey; };
int rv_reg_mr(struct ibv_pd *pd, void *addr, uint64_t len, int remote, struct rv_mr *out);
int rv_dereg_mr(uint64_t mr);
struct rv_mw { uint64_t mw; uint32_t rkey; };
int rv_alloc_mw(struct ibv_pd *pd, struct rv_mw *out);
int rv_dealloc_mw(uint64_t mw);

// The connection manager. rv_channel returns the descriptor.
int rv_channel(struct rdma_event_channel **out);
void rv_destroy_channel(struct rdma_event_channel *ch);
struct rv_event {
	struct rdma_cm_id *id;
	int32_t type, status;
	int32_t reads_in, reads_out; // offered by the peer, as seen from here
	int32_t private_len;
	uint8_t private_data[RV_PRIVATE];
};
enum {
	RV_ADDR_RESOLVED = 0, RV_ADDR_ERROR, RV_ROUTE_RESOLVED, RV_ROUTE_ERROR, RV_CONNECT_REQUEST,
	RV_CONNECT_RESPONSE, RV_CONNECT_ERROR, RV_UNREACHABLE, RV_REJECTED, RV_ESTABLISHED, RV_DISCONNECTED,
	RV_DEVICE_REMOVAL, RV_ADDR_CHANGE = 14, RV_TIMEWAIT_EXIT = 15,
};
int rv_event(struct rdma_event_channel *ch, struct rv_event *out);
int rv_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **out);
void rv_destroy_id(struct rdma_cm_id *id);
int rv_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *ch);
int rv_bind(struct rdma_cm_id *id, void *addr);
int rv_listen(struct rdma_cm_id *id, int backlog);
int rv_resolve_addr(struct rdma_cm_id *id, void *src, void *dst, int ms);
int rv_resolve_route(struct rdma_cm_id *id, int ms);
struct rv_id {
	struct ibv_context *ctx; // NULL while no device is chosen
	int32_t port;
	char name[RV_NAME];
	uint8_t local[RV_SOCKADDR], remote[RV_SOCKADDR];
};
void rv_id(struct rdma_cm_id *id, struct rv_id *out);
int rv_connect(struct rdma_cm_id *id, void *private_data, int len, int reads_in, int reads_out);
int rv_accept(struct rdma_cm_id *id, void *private_data, int len, int reads_in, int reads_out);
int rv_reject(struct rdma_cm_id *id, void *private_data, int len);
int rv_disconnect(struct rdma_cm_id *id);

// Queues. rv_create_cq returns the descriptor of the channel.
int rv_create_cq(struct ibv_context *ctx, int n, struct ibv_comp_channel **ch, struct ibv_cq **cq);
void rv_destroy_cq(struct ibv_cq *cq, struct ibv_comp_channel *ch);
int rv_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_cq *cq, int sends, int recvs, int sge,
	struct ibv_qp **out, uint32_t *qpn);
void rv_destroy_qp(struct rdma_cm_id *id);

struct rv_sge { uint64_t addr; uint32_t len, lkey; };
enum { RV_SEND = 1, RV_SEND_INV, RV_WRITE, RV_READ, RV_BIND, RV_LOCAL_INV };
struct rv_wr {
	uint64_t id;
	uint64_t addr;   // remote; of a bind, local
	uint64_t len;    // of a bind
	uint64_t mw, mr; // of a bind
	uint32_t rkey;
	uint32_t sge, sges; // where in the batch's array, and how many
	uint8_t op, signaled, remote_read, remote_write;
};
struct rv_posted { int32_t n, error; };
struct rv_posted rv_post_send(struct ibv_qp *qp, struct rv_wr *wr, int n, struct rv_sge *sge);

struct rv_recv { uint64_t id; struct rv_sge sge; };
struct rv_posted rv_post_recv(struct ibv_qp *qp, struct rv_recv *wr, int n);

struct rv_wc {
	uint64_t id;
	int32_t status;
	uint32_t len, invalidated_key, vendor;
	uint8_t invalidated; // RV_INVALIDATED, or RV_MAYBE: if the key was bound
};
enum { RV_INVALIDATED = 1, RV_MAYBE };
// rv_poll takes completions. When there are none it goes on polling for
// spin_ns, then, with arm, requests an event and polls once more.
int rv_poll(struct ibv_cq *cq, struct rv_wc *out, int max, int arm, int spin_ns);
// rv_cq_events takes the events that are there, and counts them.
int rv_cq_events(struct ibv_comp_channel *ch);
const char *rv_status(int status);

#endif
